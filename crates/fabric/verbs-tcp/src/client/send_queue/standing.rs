//! The begin and the failure of a connection, and the outcome of its batches.

use std::collections::VecDeque;
use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::{Completion, Target, VerbError};

use super::{Again, Lane, Posted, State};
use crate::client::connect::Connected;
use crate::client::link::Link;
use crate::error::TcpError;

/// The time for which a node counts as unreachable before the next attempt.
const GONE_FOR: Duration = Duration::from_millis(500);
/// The time between attempts while doomed batches have no outcome: a new connection makes them
/// ambiguous, and the end of all attempts makes them disconnected.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
const _: () = assert!(AGAIN_AFTER.as_nanos() < GONE_FOR.as_nanos());

impl Lane {
    /// Begins with a new connection. The outcome of the batches whose frames went over the old
    /// connection is ambiguous.
    pub(super) fn stand(
        &mut self,
        now: Time,
        connected: Connected,
        done: &mut VecDeque<Completion>,
    ) {
        strict_assert!(
            self.sent.is_empty() && self.messages.is_empty(),
            "a new connection is expected to answer old frames"
        );
        self.peer.learn(&connected.welcome, &connected.lengths);
        // The local time is read again, because `now` is the start of this step and may be before
        // the agent sent its clock.
        self.stamp = (connected.welcome.clock, self.times.clock.now());
        (self.leased, self.pinged, self.heard) = (0, false, now);
        self.state = State::Up(Box::new(Link::new(connected)));
        let peer = &self.peer;
        for (token, region) in self.doomed.drain(..) {
            let result = Err(VerbError::Ambiguous { target: peer.target(region) });
            done.push_back(Completion { token, result });
        }
        strict_assert!(self.doomed.is_empty() && !self.pinged);
    }

    /// Handles a failed connection. A batch of which a frame was sent is *doomed*: it ends with an
    /// error later. All other batches stay in the queue for the next connection.
    pub(super) fn fail(&mut self, now: Time, why: &str) {
        tracing::warn!(node = ?self.peer.node, addr = %self.peer.addr, "connection lost: {why}");
        if let Some(Posted { len, begun: Some(_), .. }) = self.queue.front() {
            self.requests.pop(*len);
            self.queue.pop_front();
        }
        // A flight is a batch of which a frame was sent. The agent may have answered all of its
        // frames and lacked room for its messages only. The lane keeps no state of each request,
        // so it cannot report that outcome. Such a flight fails like the other flights.
        for flight in self.flights.drain() {
            self.doomed.push((flight.token, flight.region));
        }
        self.sent.clear();
        self.messages.clear();
        self.again = Again::default();
        self.doomed_until = self.doomed_until.max(self.stamp.1 + self.times.patience);
        strict_assert!(
            self.doomed_until >= self.stamp.1,
            "a batch is reported while the agent may begin it"
        );
        self.state = State::Again(now);
    }

    /// Handles a failed attempt to connect.
    pub(super) fn miss(&mut self, now: Time, error: &TcpError, done: &mut VecDeque<Completion>) {
        // The agent may be alive although no connection reaches it. Then it may still begin the
        // batches of the failed connection, until their batch lease ends (`doomed_until`). So they
        // are reported only after that. After an error that will not pass, there is no such wait.
        if error.is_passing() && !self.doomed.is_empty() && now < self.doomed_until {
            self.state = State::Again(now + AGAIN_AFTER);
            return;
        }
        tracing::warn!(node = ?self.peer.node, "node gone: {error}");
        self.give_up(now, done);
    }

    pub(super) fn give_up(&mut self, now: Time, done: &mut VecDeque<Completion>) {
        self.state = State::Gone(now + GONE_FOR);
        for (token, region) in self.doomed.drain(..) {
            done.push_back(gone(token, self.peer.target(region)));
        }
        self.give_up_waiting(done);
    }

    /// Fails all batches, because the node was removed and this start of the node never comes back.
    pub(super) fn end(&mut self, now: Time, done: &mut VecDeque<Completion>) {
        if matches!(self.state, State::Up(_)) {
            self.fail(now, "the node is gone");
        }
        self.give_up(now, done);
    }

    /// Fails all batches and messages that have not been sent, or are not accepted by the agent.
    pub(super) fn give_up_waiting(&mut self, done: &mut VecDeque<Completion>) {
        let Lane { queue, requests, flights, peer, again, .. } = self;
        requests.clear();
        // No further frame of a partly sent batch is sent, so its flight never becomes whole. The
        // batch ends after the replies to its sent frames.
        for posted in queue.drain(..).filter(|posted| posted.begun.is_none()) {
            let result = Err(VerbError::Unreachable { target: peer.target(posted.region) });
            done.push_back(Completion { token: posted.token, result });
        }
        for (flight, _) in again.messages.drain(..) {
            flights[flight].open -= 1;
            flights[flight].whole = false;
        }
        self.cut_off(done);
    }

    /// Fails the flights that no reply can complete: those without an open frame. A whole flight,
    /// of which all frames were sent, leaves the table with its last reply.
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
