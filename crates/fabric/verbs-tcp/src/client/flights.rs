//! Batches under way: what is expected of the agent, and what came of it.

use latchwork_verbs::{BATCH_MAX, LocalBuffer, Outcome, Request};

/// A batch from its post to its completion.
pub(crate) struct Flight {
    pub(crate) token: u64,
    /// The target's region, which the completion's error names.
    pub(crate) region: u16,
    pub(crate) outcome: Outcome,
    /// Atomics whose old values have come.
    pub(crate) atomics: usize,
    /// Frames whose replies have not come, and messages that wait to be sent again.
    pub(crate) open: usize,
    /// Whether all of it has been put into frames.
    pub(crate) whole: bool,
}

impl Flight {
    pub(crate) fn new(token: u64, region: u16) -> Self {
        let outcome = Outcome::default();
        Flight { token, region, outcome, atomics: 0, open: 0, whole: false }
    }

    /// One whose only frame has all of it.
    pub(crate) fn in_one_frame(token: u64, region: u16) -> Self {
        Flight { open: 1, whole: true, ..Flight::new(token, region) }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.whole && self.open == 0
    }
}

/// What the reply has for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// Nothing.
    Done,
    /// Eight bytes.
    Old,
    /// As many bytes as the buffer has; perhaps none at all if the READ had a condition.
    Data { local: LocalBuffer, optional: bool },
    /// Nothing; the message may be undone, for want of room in the inbox.
    Delivery,
}

impl Expect {
    fn of(request: &Request) -> Self {
        match *request {
            Request::Read { local, .. } => Expect::Data { local, optional: false },
            Request::ReadIf { local, .. } => Expect::Data { local, optional: true },
            Request::Write { .. } | Request::WriteWord { .. } => Expect::Done,
            Request::CompareSwap { .. } | Request::FetchAdd { .. } => Expect::Old,
            Request::Send(_) => Expect::Delivery,
        }
    }
}

/// A frame whose reply has not come. Replies come in the order of the frames.
pub(crate) struct Sent {
    pub(crate) seq: u32,
    /// Its batch, in the slab of flights.
    pub(crate) flight: usize,
    expects: [Expect; BATCH_MAX],
    len: usize,
}

impl Sent {
    pub(crate) fn new(seq: u32, flight: usize, requests: &[Request]) -> Self {
        let mut expects = [Expect::Done; BATCH_MAX];
        for (expect, request) in expects.iter_mut().zip(requests) {
            *expect = Expect::of(request);
        }
        Sent { seq, flight, expects, len: requests.len() }
    }

    pub(crate) fn expects(&self) -> &[Expect] {
        &self.expects[..self.len]
    }
}

/// Requests of batches that wait, one batch behind the other, each in one piece.
#[derive(Default)]
pub(crate) struct Requests {
    all: Vec<Request>,
    first: usize,
}

impl Requests {
    #[inline]
    pub(crate) fn push(&mut self, requests: &[Request]) {
        if self.first == self.all.len() {
            self.clear();
        } else if self.first > self.all.len() / 2 {
            // What moves is less than what has gone since the last time.
            self.all.drain(..self.first);
            self.first = 0;
        }
        self.all.extend_from_slice(requests);
    }

    /// The first so many.
    #[inline]
    pub(crate) fn front(&self, count: usize) -> &[Request] {
        &self.all[self.first..][..count]
    }

    #[inline]
    pub(crate) fn pop(&mut self, count: usize) {
        self.first += count;
        debug_assert!(self.first <= self.all.len());
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.first = 0;
    }
}

/// The piece of `request` that begins `done` bytes behind its start and has `max` bytes at most;
/// and how many it has, of how many.
pub(crate) fn piece(request: &Request, done: u32, max: u32) -> (Request, u32, u32) {
    let cut = |remote: u64, local: LocalBuffer| {
        let len = (local.len - done).min(max);
        let offset = local.offset + u64::from(done);
        (remote + u64::from(done), LocalBuffer { region: local.region, offset, len }, len)
    };
    match *request {
        Request::Write { remote, local } => {
            let (remote, part, len) = cut(remote, local);
            (Request::Write { remote, local: part }, len, local.len)
        }
        // Its condition is on an atomic in another frame.
        Request::Read { remote, local } | Request::ReadIf { remote, local, .. } => {
            let (remote, part, len) = cut(remote, local);
            (Request::Read { remote, local: part }, len, local.len)
        }
        other => (other, 0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stay_in_order_and_take_no_more_than_twice_their_room() {
        let (mut requests, mut next, mut seen, mut most) = (Requests::default(), 0, 0, 0);
        let word = |value| Request::WriteWord { remote: 0, value };
        for round in 0..1000_u64 {
            for len in 0..round % 7 {
                let batch: Vec<_> = (0..=len % 4).map(|i| word(next + i)).collect();
                next += batch.len() as u64;
                requests.push(&batch);
            }
            while next - seen > 40 {
                let count = 1 + seen % 4;
                for (i, request) in (0..).zip(requests.front(count as usize)) {
                    assert_eq!(*request, word(seen + i));
                }
                requests.pop(count as usize);
                seen += count;
            }
            most = most.max(requests.all.len());
        }
        assert!(seen > 1000 && most <= 2 * 64, "{seen}, {most}");
    }
}
