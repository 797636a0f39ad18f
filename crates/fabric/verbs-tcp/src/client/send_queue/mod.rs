//! [`Lane`]: the send queue of an endpoint to one node.

mod receiving;
mod sending;
mod standing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use latchwork_runtime::{Clock, Time};
use latchwork_strict::strict_assert;
use latchwork_verbs::{Completion, Extent, Message, WorkRequest};
use rustix::event::PollFd;
use slab::Slab;

use super::connect::Connected;
use super::flights::{Flight, Requests, Sent};
use super::link::Link;
use super::locals::Locals;
use crate::error::TcpError;
use crate::peers::Peer;

/// The time limits of send queues, from [`TcpConfig`](crate::TcpConfig).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// See [`TcpConfig::patience`](crate::TcpConfig::patience).
    pub(crate) patience: Duration,
    pub(crate) clock: Clock,
}

impl Times {
    /// The batch lease: the time after the agent's last known clock value during which the agent
    /// may begin a batch. The batch lease is shorter than the patience for two reasons. The two
    /// clocks may run at different rates, and the agent may pause between its check of the clock
    /// and the execution.
    fn lease(self) -> Duration {
        self.patience * 3 / 4
    }
}

/// The result of an attempt to connect.
pub(crate) type Attempt = Receiver<Result<Connected, TcpError>>;

/// An endpoint's send queue to one node: the connection, and all batches that wait or are in
/// flight.
pub(crate) struct Lane {
    pub(crate) peer: Arc<Peer>,
    session: [u8; 16],
    extents: Vec<Option<Extent>>,
    state: State,
    times: Times,
    queue: VecDeque<Posted>,
    /// The requests of the batches in the queue.
    requests: Requests,
    flights: Slab<Flight>,
    sent: VecDeque<Sent>,
    /// The messages in the frames of `sent`, in order. The messages are kept, because a message
    /// that finds a full inbox is sent again.
    messages: VecDeque<Message>,
    again: Again,
    next_seq: u32,
    /// The last received value of the agent's clock, and a local time at or after its receipt.
    stamp: (u64, Time),
    /// The end of the last batch lease that was sent, on the agent's clock in nanoseconds.
    leased: u64,
    /// The time since which the agent counts as silent: bytes were last received, or a reply was
    /// first expected.
    heard: Time,
    pinged: bool,
    /// The tokens and regions of batches whose connection failed. These batches end as `Ambiguous`
    /// when the next connection is made, and as `Disconnected` when none can be made.
    doomed: Vec<(u64, u16)>,
    /// The time until which the agent may begin batches of the failed connection.
    doomed_until: Time,
}

enum State {
    /// No batch has needed a connection yet.
    Idle,
    Connecting(Attempt),
    /// The connection or an attempt has failed. Holds the time of the next attempt.
    Again(Time),
    Up(Box<Link>),
    /// The node is unreachable. Until this time every batch fails without an attempt.
    Gone(Time),
}

struct Posted {
    token: u64,
    region: u16,
    len: usize,
    /// For a batch in several frames, after its first frame: its flight, and the number of bytes of
    /// its first remaining request that were sent.
    begun: Option<(usize, u32)>,
}

/// Messages that found a full inbox and wait to be sent again.
#[derive(Default)]
struct Again {
    messages: VecDeque<(usize, Message)>,
    wait: Duration,
    due: Time,
}

impl Lane {
    pub(crate) fn new(peer: Arc<Peer>, session: [u8; 16], times: Times) -> Self {
        Lane {
            peer,
            session,
            extents: Vec::new(),
            state: State::Idle,
            times,
            queue: VecDeque::new(),
            requests: Requests::default(),
            flights: Slab::new(),
            sent: VecDeque::new(),
            messages: VecDeque::new(),
            again: Again::default(),
            next_seq: 0,
            stamp: (0, Time::ZERO),
            leased: 0,
            heard: Time::ZERO,
            pinged: false,
            doomed: Vec::new(),
            doomed_until: Time::ZERO,
        }
    }

    /// Accepts a checked batch for a region with these lengths.
    pub(crate) fn push(
        &mut self,
        region: u16,
        extent: Extent,
        token: u64,
        requests: &[WorkRequest],
    ) {
        strict_assert!(!requests.is_empty(), "an empty batch is posted");
        self.queue.push_back(Posted { token, region, len: requests.len(), begun: None });
        self.requests.push(extent, requests);
        strict_assert!(
            self.queue.iter().all(|posted| posted.len > 0),
            "a batch of which nothing is left waits"
        );
    }

    /// The lengths of a region of the node, if the process knows them. Known lengths are cached, so
    /// that later calls take no lock.
    pub(crate) fn extent(&mut self, region: u16) -> Option<Extent> {
        let at = usize::from(region);
        if let Some(Some(extent)) = self.extents.get(at) {
            return Some(*extent);
        }
        let extent = self.peer.extent(region)?;
        if self.extents.len() <= at {
            self.extents.resize(at + 1, None);
        }
        self.extents[at] = Some(extent);
        Some(extent)
    }

    /// Whether a batch waits to be sent for the first time.
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a batch waits or is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        !(self.queue.is_empty() && self.flights.is_empty() && self.doomed.is_empty())
    }

    /// The socket events for which this send queue waits; `None` without a connection or without
    /// batches.
    pub(crate) fn awaits(&self) -> Option<PollFd<'_>> {
        match &self.state {
            State::Up(link) if self.is_busy() => Some(link.awaits()),
            _ => None,
        }
    }

    /// Sends and receives as far as possible without waiting. `connect` starts an attempt to
    /// connect.
    pub(crate) fn step(
        &mut self,
        now: Time,
        locals: &Locals,
        connect: &mut dyn FnMut(&Peer, [u8; 16]) -> Attempt,
        done: &mut VecDeque<Completion>,
    ) {
        if self.peer.is_removed() {
            return self.end(now, done);
        }
        if self.peer.is_disconnected() {
            self.give_up_waiting(done);
        }
        match &mut self.state {
            State::Up(_) => {
                if let Err(why) =
                    self.receive(now, locals, done).and_then(|()| self.submit(now, locals))
                {
                    self.fail(now, &why);
                }
            }
            State::Connecting(attempt) => match attempt.try_recv() {
                Ok(Ok(connected)) => {
                    self.stand(now, connected, done);
                    if let Err(why) = self.submit(now, locals) {
                        self.fail(now, &why);
                    }
                }
                Ok(Err(error)) => self.miss(now, &error, done),
                Err(TryRecvError::Empty) => {}
                // The agents' threads have stopped, so this process makes no connections any more.
                Err(TryRecvError::Disconnected) => self.give_up(now, done),
            },
            State::Gone(until) if now < *until => self.give_up_waiting(done),
            State::Again(due) if now < *due => {}
            State::Idle | State::Gone(_) | State::Again(_) => {
                if self.peer.is_disconnected() && self.doomed.is_empty() {
                    return;
                }
                self.state = State::Connecting(connect(&self.peer, self.session));
            }
        }
    }
}
