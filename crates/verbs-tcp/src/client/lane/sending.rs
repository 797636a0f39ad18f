//! Towards the agent: batches become frames, as far as there is room.

use latchwork_runtime::Time;
use latchwork_verbs::{BATCH_MAX, LocalBuffer, Request, Words};

use super::{Lane, State};
use crate::client::endpoint::Locals;
use crate::client::flights::{Flight, Sent, piece};
use crate::wire::{DATA_MAX, begin_batch, end_batch, put_lease, put_ping, put_request};

/// Frames without a reply at most: about what a NIC's queue pair has room for.
const SENT_MAX: usize = 256;

/// Bytes that wait for the socket at most, before a batch is put behind them.
const OUT_MAX: usize = 256 << 10;

impl Lane {
    /// Puts batches into frames, as far as there is room, and writes.
    pub(super) fn submit(&mut self, now: Time, locals: &Locals) -> Result<(), String> {
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
        words: impl Fn(LocalBuffer) -> Words<'a>,
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
