//! Batches in flight on one send queue: their expected replies and their outcomes.

use latchwork_strict::strict_assert;
use latchwork_verbs::{AtomicOutcome, BATCH_MAX, Extent, LocalBuffer, WorkRequest};

/// A batch from its first frame to its completion.
pub(crate) struct Flight {
    pub(crate) token: u64,
    /// The target's region, which the error of a completion names.
    pub(crate) region: u16,
    pub(crate) outcome: AtomicOutcome,
    /// The number of atomics whose old values have arrived.
    pub(crate) atomics: usize,
    /// The number of this batch's frames without a reply, plus the number of its messages that wait
    /// to be sent again.
    pub(crate) open: usize,
    /// Whether the whole batch has been put into frames.
    pub(crate) whole: bool,
}

impl Flight {
    pub(crate) fn new(token: u64, region: u16) -> Self {
        let outcome = AtomicOutcome::default();
        Flight { token, region, outcome, atomics: 0, open: 0, whole: false }
    }

    /// Makes the flight of a batch that fits into one frame.
    pub(crate) fn in_one_frame(token: u64, region: u16) -> Self {
        Flight { open: 1, whole: true, ..Flight::new(token, region) }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.whole && self.open == 0
    }
}

/// The part of a reply that belongs to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// No bytes.
    Done,
    /// The eight bytes of an old value.
    Old,
    /// As many bytes as the buffer has. With `optional`, no bytes if the condition of the READ was
    /// false.
    Data { local: LocalBuffer, optional: bool },
    /// No bytes. The reply may report that the message was not delivered, because the inbox was
    /// full.
    Delivery,
}

impl Expect {
    fn of(request: &WorkRequest) -> Self {
        match *request {
            WorkRequest::Read { local, .. } => Expect::Data { local, optional: false },
            WorkRequest::ReadIf { local, .. } => Expect::Data { local, optional: true },
            WorkRequest::Write { .. } | WorkRequest::WriteWord { .. } => Expect::Done,
            WorkRequest::CompareSwap { .. } | WorkRequest::FetchAdd { .. } => Expect::Old,
            WorkRequest::Send(_) => Expect::Delivery,
        }
    }
}

/// A frame without its reply. Replies come in the order of the frames.
pub(crate) struct Sent {
    pub(crate) seq: u32,
    /// The key of the batch's flight in the slab of flights.
    pub(crate) flight: usize,
    expects: [Expect; BATCH_MAX],
    len: usize,
}

impl Sent {
    pub(crate) fn new(seq: u32, flight: usize, requests: &[WorkRequest]) -> Self {
        strict_assert!(
            !requests.is_empty() && requests.len() <= BATCH_MAX,
            "a frame holds one to {BATCH_MAX} requests"
        );
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

/// The requests of all waiting batches, in the order of posting. The requests of each batch are
/// contiguous.
#[derive(Default)]
pub(crate) struct Requests {
    all: Vec<WorkRequest>,
    first: usize,
}

impl Requests {
    /// Appends checked requests. In the queue they address the region of the node, which has both
    /// ranges of a memory node.
    #[inline]
    pub(crate) fn push(&mut self, extent: Extent, requests: &[WorkRequest]) {
        strict_assert!(!requests.is_empty(), "an empty batch is posted");
        if self.first == self.all.len() {
            self.clear();
        } else if self.first > self.all.len() / 2 {
            // This move costs less than the pops since the last move, because fewer requests move
            // than were popped.
            self.all.drain(..self.first);
            self.first = 0;
        }
        let behind = self.all.len();
        self.all.extend_from_slice(requests);
        self.all[behind..].iter_mut().for_each(|request| request.place(extent));
        strict_assert!(self.first < self.all.len(), "what was posted is not there");
    }

    /// The first `count` requests.
    #[inline]
    pub(crate) fn front(&self, count: usize) -> &[WorkRequest] {
        strict_assert!(self.first + count <= self.all.len(), "more requests are read than wait");
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

/// The piece of `request` that begins `done` bytes behind its start and has at most `max` bytes.
/// Returns the piece, its length, and the length of the whole request.
pub(crate) fn piece(request: &WorkRequest, done: u32, max: u32) -> (WorkRequest, u32, u32) {
    let cut = |remote: u64, local: LocalBuffer| {
        strict_assert!(done <= local.len, "more of a request was sent than it has");
        let len = (local.len - done).min(max);
        strict_assert!(len > 0 || local.len == done, "an empty piece of a request that goes on");
        let offset = local.offset + u64::from(done);
        (remote + u64::from(done), LocalBuffer { region: local.region, offset, len }, len)
    };
    match *request {
        WorkRequest::Write { remote, local } => {
            let (remote, part, len) = cut(remote, local);
            (WorkRequest::Write { remote, local: part }, len, local.len)
        }
        // A `ReadIf` becomes a READ, because the atomic of its condition is in another frame.
        WorkRequest::Read { remote, local } | WorkRequest::ReadIf { remote, local, .. } => {
            let (remote, part, len) = cut(remote, local);
            (WorkRequest::Read { remote, local: part }, len, local.len)
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
        let word = |value| WorkRequest::WriteWord { remote: 0, value };
        for round in 0..1000_u64 {
            for len in 0..round % 7 {
                let batch: Vec<_> = (0..=len % 4).map(|i| word(next + i)).collect();
                next += batch.len() as u64;
                requests.push(Extent::of(1 << 20), &batch);
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

    #[test]
    #[should_panic(expected = "more requests are read than wait")]
    fn a_batch_that_is_sent_twice_is_found() {
        let mut requests = Requests::default();
        requests.push(Extent::of(8), &[WorkRequest::FetchAdd { remote: 0, add: 1 }]);
        requests.pop(1);
        let _ = requests.front(1);
    }
}
