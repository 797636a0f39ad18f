//! [`Lane`]: an endpoint's way to one node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use latchwork_runtime::sync::{Ordering, fence};
use latchwork_runtime::{Clock, Time};
use latchwork_verbs::{BATCH_MAX, Completion, Message, Request, Target, VerbError, WORD, Words};
use slab::Slab;

use super::connect::Connected;
use super::endpoint::Locals;
use super::flights::{Expect, Flight, Sent, piece};
use super::link::Link;
use crate::error::TcpError;
use crate::peers::Peer;
use crate::wire::{
    DATA_MAX, FromAgent, Reply, begin_batch, end_batch, put_lease, put_ping, put_request,
};

/// Frames without a reply at most: about what a NIC's queue pair has room for.
const SENT_MAX: usize = 256;

/// Bytes that wait for the socket at most, before a batch is put behind them.
const OUT_MAX: usize = 256 << 10;

/// How long a node counts as gone before it is tried again, and how long between attempts while the fate of
/// batches hangs on it.
const GONE_FOR: Duration = Duration::from_millis(500);
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Between two attempts at an inbox that is full: the first, and no more than.
const FULL_FIRST: Duration = Duration::from_micros(20);
const FULL_MAX: Duration = Duration::from_millis(1);

/// What lanes do with time, from [`Config`](crate::Config).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// See [`Config::patience`](crate::Config::patience).
    pub(crate) patience: Duration,
    pub(crate) clock: Clock,
}

impl Times {
    /// How long after the agent's last word it may still begin a batch. Less than the patience, so that clocks
    /// need not run alike, nor an agent stop in the middle of a chunk.
    fn lease(self) -> Duration {
        self.patience * 3 / 4
    }
}

/// What comes of an attempt to connect.
pub(crate) type Attempt = Receiver<Result<Connected, TcpError>>;

/// An endpoint's connection to one node, and all that waits for it.
pub(crate) struct Lane {
    pub(crate) peer: Arc<Peer>,
    session: [u8; 16],
    lengths: Vec<Option<u64>>,
    state: State,
    times: Times,
    queue: VecDeque<Posted>,
    /// The requests of the batches in the queue.
    requests: VecDeque<Request>,
    flights: Slab<Flight>,
    sent: VecDeque<Sent>,
    /// The messages in the frames of `sent`.
    messages: VecDeque<Message>,
    again: Again,
    next_seq: u32,
    /// The agent's clock as it was last told, and when that was here, or later.
    stamp: (u64, Time),
    /// The lease that the agent was last told.
    leased: u64,
    /// When something was last heard, or first expected.
    heard: Time,
    pinged: bool,
    /// Batches of a connection that failed: what is said of them depends on whether the next one stands.
    doomed: Vec<(u64, u16)>,
    /// Until when the agent may still begin what the failed connection had brought.
    doomed_until: Time,
}

enum State {
    /// Nobody has wanted anything yet.
    Idle,
    Connecting(Attempt),
    /// An attempt has failed, and the next one is due.
    Again(Time),
    Up(Box<Link>),
    /// Everything fails until then.
    Gone(Time),
}

struct Posted {
    token: u64,
    region: u16,
    len: usize,
    /// Of a batch that takes several frames: its flight, and bytes of its first request that are through.
    begun: Option<(usize, u32)>,
}

/// Messages for which the inbox had no room.
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
            lengths: Vec::new(),
            state: State::Idle,
            times,
            queue: VecDeque::new(),
            requests: VecDeque::new(),
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

    pub(crate) fn push(&mut self, region: u16, token: u64, requests: &[Request]) {
        self.queue.push_back(Posted { token, region, len: requests.len(), begun: None });
        self.requests.extend(requests);
    }

    /// The length of a region of the node, in bytes, as far as is known. Asked anew while it is not.
    pub(crate) fn length(&mut self, region: u16) -> Option<u64> {
        let at = usize::from(region);
        if let Some(Some(length)) = self.lengths.get(at) {
            return Some(*length);
        }
        let length = self.peer.length(region)?;
        if self.lengths.len() <= at {
            self.lengths.resize(at + 1, None);
        }
        self.lengths[at] = Some(length);
        Some(length)
    }

    /// Whether anything waits to be sent for the first time.
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether anything is expected or waits.
    pub(crate) fn is_busy(&self) -> bool {
        !(self.queue.is_empty() && self.flights.is_empty() && self.doomed.is_empty())
    }

    /// Goes on as far as it can without waiting. `connect` starts an attempt to connect.
    pub(crate) fn step(
        &mut self,
        now: Time,
        locals: &Locals,
        connect: &mut dyn FnMut(&Peer, [u8; 16]) -> Attempt,
        done: &mut VecDeque<Completion>,
    ) {
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
                // The threads that connect have stopped: so has the process, as far as verbs go.
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

    // ---- to the agent ------------------------------------------------------------------------------

    /// Puts batches into frames, as far as there is room, and writes.
    fn submit(&mut self, now: Time, locals: &Locals) -> Result<(), String> {
        let State::Up(link) = &mut self.state else { return Ok(()) };
        let sent = self.sent.len();
        if self.stamp.1 + self.times.patience / 2 < now {
            // Whatever was sent now would be begun late or not at all; the pong brings the time.
            if !self.pinged {
                put_ping(&mut link.out, self.next_seq);
                (self.pinged, self.heard) = (true, now);
            }
        } else {
            let lease = self.stamp.0.saturating_add(self.times.lease().as_nanos() as u64);
            if lease > self.leased.saturating_add(self.times.patience.as_nanos() as u64 / 16) {
                put_lease(&mut link.out, lease);
                self.leased = lease;
            }
            if now >= self.again.due {
                self.send_again();
            }
            self.send_queued(locals);
        }
        if sent == 0 && !self.sent.is_empty() {
            self.heard = now;
        }
        let State::Up(link) = &mut self.state else { return Ok(()) };
        if link.waiting() > 0 { link.flush().map_err(|error| error.to_string()) } else { Ok(()) }
    }

    fn has_room(&self) -> bool {
        let State::Up(link) = &self.state else { return false };
        self.sent.len() < SENT_MAX && link.waiting() < OUT_MAX
    }

    fn send_again(&mut self) {
        while self.has_room()
            && let Some((flight, message)) = self.again.messages.pop_front()
        {
            // It counts as open already.
            self.frame(flight, 0, &[Request::Send(message)], |_| Words::new(&[]));
        }
    }

    fn send_queued(&mut self, locals: &Locals) {
        while self.has_room()
            && let Some(front) = self.queue.front()
        {
            let (len, region) = (front.len, front.region);
            let mut batch = [Request::WriteWord { remote: 0, value: 0 }; BATCH_MAX];
            for (place, request) in batch.iter_mut().zip(self.requests.range(..len)) {
                *place = *request;
            }
            let batch = &batch[..len];
            let sends = batch.iter().any(|request| matches!(request, Request::Send(_)));
            if sends && !self.again.messages.is_empty() {
                // Behind those that wait: an inbox that is full is not asked by all of them.
                return;
            }
            if front.begun.is_none() && fits(batch) {
                let flight = self.begin();
                self.flights[flight].open += 1;
                self.flights[flight].whole = true;
                self.frame(flight, region, batch, |local| locals.words(local));
                self.queue.pop_front();
                self.requests.drain(..len);
            } else {
                self.send_piece(region, &batch[0], locals);
            }
        }
    }

    /// The flight of the batch at the front of the queue.
    fn begin(&mut self) -> usize {
        let front = self.queue.front().expect("looked at");
        match front.begun {
            Some((flight, _)) => flight,
            None => self.flights.insert(Flight::new(front.token, front.region)),
        }
    }

    /// Sends a frame of a batch that is too large for one. Frames are executed in their order, so a request
    /// in pieces is in order as well.
    fn send_piece(&mut self, region: u16, request: &Request, locals: &Locals) {
        let flight = self.begin();
        let front = self.queue.front_mut().expect("looked at");
        let done = front.begun.map_or(0, |(_, done)| done);
        let (part, len, of) = piece(request, done, DATA_MAX as u32);
        front.begun = Some((flight, done + len));
        if done + len == of {
            front.begun = Some((flight, 0));
            front.len -= 1;
            self.requests.pop_front();
        }
        self.flights[flight].open += 1;
        if front.len == 0 {
            self.flights[flight].whole = true;
            self.queue.pop_front();
        }
        self.frame(flight, region, &[part], |local| locals.words(local));
    }

    fn frame<'a>(
        &mut self,
        flight: usize,
        region: u16,
        requests: &[Request],
        words: impl Fn(latchwork_verbs::LocalBuffer) -> Words<'a>,
    ) {
        let State::Up(link) = &mut self.state else { return };
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        let start = begin_batch(&mut link.out, requests.len(), region, seq);
        for request in requests {
            put_request(&mut link.out, request, &words);
            if let Request::Send(message) = request {
                self.messages.push_back(*message);
            }
        }
        end_batch(&mut link.out, start);
        self.sent.push_back(Sent::new(seq, flight, requests));
    }

    // ---- from the agent ----------------------------------------------------------------------------

    fn receive(
        &mut self,
        now: Time,
        locals: &Locals,
        done: &mut VecDeque<Completion>,
    ) -> Result<(), String> {
        let State::Up(link) = &mut self.state else { return Ok(()) };
        if !link.fill().map_err(|error| error.to_string())? {
            return self.mind_silence(now);
        }
        // Looked at behind the read: what has arrived was sent before.
        let here = self.times.clock.now();
        (self.heard, self.pinged) = (here, false);
        // Taken out so that replies can borrow from it; put back in any case.
        let mut input = std::mem::replace(&mut link.input, crate::buffer::Buffer::new());
        let end = loop {
            match FromAgent::parse(input.bytes()) {
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.to_string()),
                Ok(Some((frame, used))) => {
                    let end = match frame {
                        FromAgent::Time(clock) | FromAgent::Pong(_, clock) => {
                            self.stamp = (clock, here);
                            Ok(())
                        }
                        FromAgent::Reply(reply) => self.reply(now, reply, locals, done),
                    };
                    if let Err(why) = end {
                        break Err(why.into());
                    }
                    input.consume(used);
                }
            }
        };
        input.settle();
        if let State::Up(link) = &mut self.state {
            link.input = input;
        }
        end
    }

    fn mind_silence(&mut self, now: Time) -> Result<(), String> {
        let State::Up(link) = &mut self.state else { return Ok(()) };
        let silent = now - self.heard;
        if self.sent.is_empty() && !self.pinged {
            return Ok(());
        }
        if silent >= self.times.patience {
            return Err("the agent is silent".into());
        }
        if silent >= self.times.patience / 4 && !self.pinged {
            put_ping(&mut link.out, self.next_seq);
            self.pinged = true;
        }
        Ok(())
    }

    fn reply(
        &mut self,
        now: Time,
        reply: Reply<'_>,
        locals: &Locals,
        done: &mut VecDeque<Completion>,
    ) -> Result<(), &'static str> {
        let sent = self.sent.pop_front().ok_or("a reply to nothing")?;
        if sent.seq != reply.seq {
            // What became of the batch is unknown, as with all others on this connection.
            self.sent.push_front(sent);
            return Err("a reply to another batch");
        }
        if reply.expired {
            // What came before it is unknown no more, but this did not happen. It is not known whether the
            // agent had begun others: the connection goes, and with it the doubt.
            self.sent.push_front(sent);
            return Err("the agent had no time for a batch before its lease ended");
        }
        let end = self.take_reply(now, &sent, reply, locals);
        if end.is_err() {
            self.sent.push_front(sent);
            return end;
        }
        let flight = &mut self.flights[sent.flight];
        if flight.is_done() {
            let (token, result) = (flight.token, Ok(flight.outcome));
            done.push_back(Completion { token, result });
            self.flights.remove(sent.flight);
        }
        Ok(())
    }

    fn take_reply(
        &mut self,
        now: Time,
        sent: &Sent,
        reply: Reply<'_>,
        locals: &Locals,
    ) -> Result<(), &'static str> {
        let flight = &mut self.flights[sent.flight];
        let mut body = reply.body;
        let mut take = |len: usize| {
            let (head, rest) = body.split_at_checked(len).ok_or("a reply that is too short")?;
            body = rest;
            Ok::<_, &'static str>(head)
        };
        for (i, expect) in sent.expects().iter().enumerate() {
            let undone = reply.undone >> i & 1 == 1;
            match *expect {
                Expect::Data { optional: true, .. } if undone => {}
                Expect::Delivery => {
                    let message = self.messages.pop_front().ok_or("a reply to no message")?;
                    if undone {
                        let again = &mut self.again;
                        again.messages.push_back((sent.flight, message));
                        again.wait = (again.wait * 2).clamp(FULL_FIRST, FULL_MAX);
                        again.due = now + again.wait;
                        flight.open += 1;
                    } else {
                        self.again.wait = Duration::ZERO;
                    }
                }
                _ if undone => return Err("a request undone that is always done"),
                Expect::Done => {}
                Expect::Old => {
                    let old = take(WORD)?.try_into().map_err(|_| "not a word")?;
                    flight.outcome.old[flight.atomics] = u64::from_le_bytes(old);
                    flight.atomics += 1;
                }
                Expect::Data { local, .. } => {
                    let data = take(local.len as usize)?;
                    // Who sees a byte of it also sees what this worker did to the place before.
                    fence(Ordering::Release);
                    locals.words(local).write_bytes(0, data);
                }
            }
        }
        flight.open -= 1;
        if body.is_empty() { Ok(()) } else { Err("a reply that is too long") }
    }

    // ---- connections that come and go --------------------------------------------------------------

    fn stand(&mut self, now: Time, connected: Connected, done: &mut VecDeque<Completion>) {
        self.peer.learn(&connected.welcome, &connected.lengths);
        // Not the start of this step, which may have been before the agent's word.
        self.stamp = (connected.welcome.clock, self.times.clock.now());
        (self.leased, self.pinged, self.heard) = (0, false, now);
        self.state = State::Up(Box::new(Link::new(connected)));
        let peer = &self.peer;
        for (token, region) in self.doomed.drain(..) {
            let result = Err(VerbError::Ambiguous { target: peer.target(region) });
            done.push_back(Completion { token, result });
        }
    }

    /// The connection has failed. What was sent may have taken effect or not; what was not begun stays.
    fn fail(&mut self, now: Time, why: &str) {
        tracing::warn!(node = ?self.peer.node, addr = %self.peer.addr, "connection lost: {why}");
        if let Some(Posted { len, begun: Some(_), .. }) = self.queue.front() {
            let len = *len;
            self.requests.drain(..len);
            self.queue.pop_front();
        }
        // A flight of which only messages are left that found no room is not in doubt, but all of it would
        // have to be told apart: it shares the fate.
        for flight in self.flights.drain() {
            self.doomed.push((flight.token, flight.region));
        }
        self.sent.clear();
        self.messages.clear();
        self.again = Again::default();
        self.doomed_until = self.doomed_until.max(self.stamp.1 + self.times.patience);
        self.state = State::Again(now);
    }

    /// An attempt to connect has failed.
    fn miss(&mut self, now: Time, error: &TcpError, done: &mut VecDeque<Completion>) {
        // The agent may be alive although nobody gets through to it: as long as it may begin what was sent,
        // nothing is said of that.
        if error.is_passing() && !self.doomed.is_empty() && now < self.doomed_until {
            self.state = State::Again(now + AGAIN_AFTER);
            return;
        }
        tracing::warn!(node = ?self.peer.node, "node gone: {error}");
        self.give_up(now, done);
    }

    fn give_up(&mut self, now: Time, done: &mut VecDeque<Completion>) {
        self.state = State::Gone(now + GONE_FOR);
        for (token, region) in self.doomed.drain(..) {
            done.push_back(gone(token, self.peer.target(region)));
        }
        self.give_up_waiting(done);
    }

    /// Fails what is not in the hands of the agent.
    fn give_up_waiting(&mut self, done: &mut VecDeque<Completion>) {
        let Lane { queue, requests, flights, peer, again, .. } = self;
        requests.clear();
        // A batch of which a part was sent goes no further, and ends with the replies to that: its flight is
        // never whole.
        for posted in queue.drain(..).filter(|posted| posted.begun.is_none()) {
            done.push_back(gone(posted.token, peer.target(posted.region)));
        }
        for (flight, _) in again.messages.drain(..) {
            flights[flight].open -= 1;
            flights[flight].whole = false;
        }
        self.cut_off(done);
    }

    /// Fails flights that will get no further: with nothing open, and not whole.
    fn cut_off(&mut self, done: &mut VecDeque<Completion>) {
        let Lane { flights, peer, .. } = self;
        flights.retain(|_, flight| {
            let over = flight.open == 0;
            if over {
                done.push_back(gone(flight.token, peer.target(flight.region)));
            }
            !over
        });
    }
}

fn gone(token: u64, target: Target) -> Completion {
    Completion { token, result: Err(VerbError::Disconnected { target }) }
}

/// Whether a batch fits into one frame, and its reply.
fn fits(batch: &[Request]) -> bool {
    let (mut read, mut written) = (0, 0);
    for request in batch {
        match request {
            Request::Read { local, .. } | Request::ReadIf { local, .. } => {
                read += local.len as usize
            }
            Request::Write { local, .. } => written += local.len as usize,
            _ => {}
        }
    }
    read <= DATA_MAX && written <= DATA_MAX
}
