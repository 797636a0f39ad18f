//! Sending to the agent: puts batches into frames, as far as there is room.

use std::collections::VecDeque;

use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::{LocalBuffer, Message, Words, WorkRequest};

use super::{Lane, State};
use crate::client::flights::{Flight, Requests, Sent, piece};
use crate::client::locals::Locals;
use crate::wire::{DATA_MAX, begin_batch, end_batch, put_lease, put_ping, put_request};

/// The largest number of frames without a reply: about the number of requests that a NIC's queue
/// pair holds.
const SENT_MAX: usize = 256;

/// The number of bytes waiting for the socket from which no further batch is put into a frame.
const OUT_MAX: usize = 256 << 10;
const _: () =
    assert!(SENT_MAX > 0 && OUT_MAX >= DATA_MAX, "a piece of the longest length is sent at once");

impl Lane {
    /// Puts batches into frames, as far as there is room, and writes the frames.
    pub(super) fn submit(&mut self, now: Time, locals: &Locals) -> Result<(), String> {
        let State::Up(link) = &mut self.state else { return Ok(()) };
        let sent = self.sent.len();
        if self.stamp.1 + self.times.patience / 2 < now {
            // The last known value of the agent's clock is old. So the batch lease would be short,
            // and the agent might refuse a batch that is sent now. The pong to this ping brings a
            // new value.
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
            // The flight already counts this message as open.
            let (mut frames, _) = self.frames();
            frames.put(flight, 0, &[WorkRequest::Send(message)], |_| Words::new(&[]));
        }
    }

    fn send_queued(&mut self, locals: &Locals) {
        while self.has_room()
            && let Some(front) = self.queue.front()
        {
            let (region, token, begun) = (front.region, front.token, front.begun.is_some());
            let batch = self.requests.front(front.len);
            strict_assert!(!batch.is_empty(), "a batch of which nothing is left waits");
            let sizes = Sizes::of(batch);
            if sizes.sends && !self.again.messages.is_empty() {
                // A batch with a message stays behind the messages that found a full inbox, so that
                // not every message tries the full inbox.
                return;
            }
            if begun || !sizes.fit() {
                let first = batch[0];
                self.send_piece(region, &first, locals);
                continue;
            }
            let flight = self.flights.insert(Flight::in_one_frame(token, region));
            strict_assert!(self.sent.len() < SENT_MAX, "more frames are under way than the bound");
            let len = batch.len();
            let (mut frames, requests) = self.frames();
            frames.put(flight, region, requests.front(len), |local| locals.words(local));
            self.queue.pop_front();
            self.requests.pop(len);
        }
    }

    /// Splits the send queue into the parts that a new frame changes, and the waiting requests.
    fn frames(&mut self) -> (Frames<'_>, &Requests) {
        let Lane { state, sent, messages, next_seq, requests, .. } = self;
        let out = match state {
            State::Up(link) => Some(&mut link.out),
            _ => None,
        };
        (Frames { out, sent, messages, next_seq }, requests)
    }

    /// The key of the flight of the batch at the front of the queue. Makes the flight before the
    /// batch's first frame.
    fn begin(&mut self) -> usize {
        let front = self.queue.front().expect("looked at");
        match front.begun {
            Some((flight, _)) => flight,
            None => self.flights.insert(Flight::new(front.token, front.region)),
        }
    }

    /// Sends the next frame of a batch that is too large for one frame. The agent executes frames
    /// in their order, so the pieces of a request also take effect in order.
    fn send_piece(&mut self, region: u16, request: &WorkRequest, locals: &Locals) {
        let flight = self.begin();
        let front = self.queue.front_mut().expect("looked at");
        let done = front.begun.map_or(0, |(_, done)| done);
        strict_assert!(front.len > 0, "a batch is sent beyond its end");
        let (part, len, of) = piece(request, done, DATA_MAX as u32);
        strict_assert!(done + len <= of, "a piece ends behind its request");
        strict_assert!(len as usize <= DATA_MAX, "a piece is longer than a frame carries");
        front.begun = Some((flight, done + len));
        if done + len == of {
            front.begun = Some((flight, 0));
            front.len -= 1;
            self.requests.pop(1);
        }
        self.flights[flight].open += 1;
        if front.len == 0 {
            self.flights[flight].whole = true;
            self.queue.pop_front();
        }
        let (mut frames, _) = self.frames();
        frames.put(flight, region, &[part], |local| locals.words(local));
    }
}

/// The parts of a send queue that a new frame changes.
struct Frames<'a> {
    /// `None` without a connection. In this case no frame is made.
    out: Option<&'a mut Vec<u8>>,
    sent: &'a mut VecDeque<Sent>,
    messages: &'a mut VecDeque<Message>,
    next_seq: &'a mut u32,
}

impl Frames<'_> {
    #[inline]
    fn put<'w>(
        &mut self,
        flight: usize,
        region: u16,
        requests: &[WorkRequest],
        words: impl Fn(LocalBuffer) -> Words<'w>,
    ) {
        let Some(out) = &mut self.out else { return };
        strict_assert!(!requests.is_empty() && requests.len() <= latchwork_verbs::BATCH_MAX);
        let seq = *self.next_seq;
        *self.next_seq = seq.wrapping_add(1);
        let start = begin_batch(out, requests.len(), region, seq);
        for request in requests {
            put_request(out, request, &words);
            if let WorkRequest::Send(message) = request {
                self.messages.push_back(*message);
            }
        }
        end_batch(out, start);
        strict_assert!(
            self.sent.back().is_none_or(|last| last.seq.wrapping_add(1) == seq),
            "frames are numbered in another order than sent"
        );
        self.sent.push_back(Sent::new(seq, flight, requests));
    }
}

/// The bytes of data that a batch has in a frame and in its reply.
#[derive(Default)]
struct Sizes {
    read: usize,
    written: usize,
    sends: bool,
}

impl Sizes {
    #[inline]
    fn of(batch: &[WorkRequest]) -> Self {
        let mut sizes = Sizes::default();
        for request in batch {
            match request {
                WorkRequest::Read { local, .. } | WorkRequest::ReadIf { local, .. } => {
                    sizes.read += local.len as usize;
                }
                WorkRequest::Write { local, .. } => sizes.written += local.len as usize,
                WorkRequest::Send(_) => sizes.sends = true,
                _ => {}
            }
        }
        sizes
    }

    /// Whether the batch fits into one frame, and its reply into one reply frame.
    fn fit(&self) -> bool {
        self.read <= DATA_MAX && self.written <= DATA_MAX
    }
}
