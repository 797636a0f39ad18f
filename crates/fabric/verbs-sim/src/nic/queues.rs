//! The queues of a NIC, and the queue pairs on which batches keep their order.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use latchwork_strict::strict_assert;

use super::times::{NicTimes, PS_PER_NS, Ps};

/// The queues of one NIC.
#[derive(Default)]
pub(crate) struct NicQueues {
    pub(super) issuing: Queue,
    /// The queue of the second engine, on a NIC with two engines.
    pub(super) serving: Queue,
    /// The two directions of the wire.
    pub(super) outgoing: Queue,
    pub(super) incoming: Queue,
    /// The used buckets of atomics, by the low bits of the address. Atomics of one bucket are
    /// serialised (Sherman 3.2.2).
    pub(super) buckets: RefCell<BTreeMap<u64, Bucket>>,
    pub(super) places: Places,
}

/// The places of a responder for atomics that wait for their bucket. While all places are taken,
/// the responder takes in no request.
#[derive(Default)]
pub(super) struct Places {
    /// The times at which the last atomics leave their places, in order; not more times than
    /// places.
    leave: RefCell<VecDeque<Ps>>,
}

impl Places {
    /// The time at which the responder takes in a request that arrives at `at`. Without places
    /// there is no limit.
    #[inline]
    pub(super) fn take_in(&self, places: usize, at: Ps) -> Ps {
        if places == 0 {
            return at;
        }
        let leave = self.leave.borrow();
        match leave.front() {
            Some(first) if leave.len() == places => at.max(*first),
            _ => at,
        }
    }

    /// Keeps a place for an atomic that was taken in, until its turn at `until`.
    pub(super) fn keep_until(&self, places: usize, until: Ps) {
        if places == 0 {
            return;
        }
        let mut leave = self.leave.borrow_mut();
        if leave.len() == places {
            // The atomic was taken in when the first of them left.
            leave.pop_front();
        }
        let behind = leave.partition_point(|other| *other <= until);
        leave.insert(behind, until);
        strict_assert!(leave.len() <= places, "more atomics wait than there are places");
    }
}

/// The atomics of one bucket, which exclude each other.
#[derive(Default)]
pub(super) struct Bucket {
    pub(super) queue: Queue,
    /// The offset of the word of the last atomic. This word is in the CPU's cache, so an atomic on
    /// it is faster.
    pub(super) last: Option<u64>,
    /// The time so far of atomics on the same word as the atomic before.
    pub(super) same: Ps,
}

impl NicQueues {
    /// The queue of the engine that serves.
    pub(super) fn serving(&self, times: &NicTimes) -> &Queue {
        if times.shared_engine { &self.issuing } else { &self.serving }
    }
}

/// The queue of a part that works on one thing at a time.
///
/// The simulator adds work in the order of events. The work arrives later than its event, by the
/// time of a wire or a memory. So the simulator may add an earlier arrival after a later arrival.
///
/// If the queue kept the time at which it becomes free, the earlier arrival would wait for the
/// later arrival, while the part is idle. So the queue keeps its backlog: the work in front of the
/// next arrival. Passing time reduces the backlog.
#[derive(Default)]
pub(super) struct Queue {
    backlog: Cell<Ps>,
    /// The latest time up to which the backlog was worked off.
    at: Cell<Ps>,
    /// The sum of all work so far.
    came: Cell<Ps>,
}

impl Queue {
    /// Adds work that arrives at `at` and takes the time `takes`. Returns the time at which the
    /// work is done.
    #[inline]
    pub(super) fn pass(&self, at: Ps, takes: Ps) -> Ps {
        let passed = at.saturating_sub(self.at.get());
        let backlog = self.backlog.get().saturating_sub(passed);
        self.at.set(self.at.get().max(at));
        let backlog = backlog.saturating_add(takes);
        self.backlog.set(backlog);
        strict_assert!(backlog >= takes, "a queue forgets its work");
        self.came.set(self.came.get().saturating_add(takes));
        strict_assert!(self.came.get() >= self.backlog.get(), "more work waits than came");
        at.saturating_add(backlog)
    }

    /// The time for which the part has worked until `now`: all work so far minus the backlog at
    /// `now`.
    pub(super) fn worked(&self, now: Ps) -> Ps {
        let passed = now.saturating_sub(self.at.get());
        self.came.get().saturating_sub(self.backlog.get().saturating_sub(passed))
    }

    /// Like [`pass`](Queue::pass), for a stream of bytes whose last byte arrives at `at`. The bytes
    /// arrive during the time `takes`, and during this time the queue works on earlier bytes.
    pub(super) fn pass_on(&self, at: Ps, takes: Ps) -> Ps {
        if takes == 0 { at } else { self.pass(at.saturating_sub(takes), takes).max(at) }
    }
}

/// The queue pairs of one endpoint to one target, used in turn.
#[derive(Default)]
pub(crate) struct QueuePairs {
    next: Cell<usize>,
    pairs: RefCell<Vec<QueuePair>>,
}

/// The times, on one queue pair, at which the last batch arrived, was expected to take effect, took
/// effect, and completed. A batch that waits for a full inbox or at a gate does not delay the next
/// batches.
#[derive(Clone, Copy, Default)]
pub(super) struct QueuePair {
    pub(super) arrived: Ps,
    pub(super) expected: Ps,
    pub(super) effective: Ps,
    pub(super) completed: Ps,
}

/// Returns the later of `at` and one nanosecond after `last`. The result becomes the new `last`.
pub(super) fn behind(at: Ps, last: &mut Ps) -> Ps {
    *last = at.max(*last + PS_PER_NS);
    strict_assert!(*last >= at, "a queue pair overtakes itself");
    *last
}

impl QueuePairs {
    pub(super) fn take_turn(&self, count: usize) -> usize {
        let turn = self.next.get() % count;
        self.next.set(turn + 1);
        strict_assert!(turn < count, "no queue pair has number {turn}");
        turn
    }

    #[inline]
    pub(super) fn with<T>(&self, pair: usize, act: impl FnOnce(&mut QueuePair) -> T) -> T {
        let mut pairs = self.pairs.borrow_mut();
        if pairs.len() <= pair {
            pairs.resize(pair + 1, QueuePair::default());
        }
        act(&mut pairs[pair])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_the_queue_is_busy_waits_for_the_work_in_front_of_it() {
        let queue = Queue::default();
        assert_eq!(queue.pass(100, 10), 110);
        assert_eq!(queue.pass(100, 10), 120);
        assert_eq!(queue.pass(105, 10), 130);
        assert_eq!(queue.pass(130, 10), 140, "idle since 130");
        assert_eq!(queue.pass(1_000, 10), 1_010);
        let passed = (0..1_000).map(|i| queue.pass(2_000 + i, 10)).last();
        assert_eq!(passed, Some(2_000 + 10_000), "no time is lost, and none is gained");
    }

    #[test]
    fn a_queue_knows_how_long_it_has_worked() {
        let queue = Queue::default();
        assert_eq!(queue.worked(50), 0);
        queue.pass(100, 30);
        queue.pass(100, 30);
        assert_eq!([100, 120, 160, 900].map(|now| queue.worked(now)), [0, 20, 60, 60]);
        queue.pass(1_000, 10);
        assert_eq!(queue.worked(2_000), 70, "idle in between");
    }

    #[test]
    fn what_is_late_does_not_hold_up_what_is_early() {
        let queue = Queue::default();
        assert_eq!(queue.pass(1_000, 10), 1_010);
        assert_eq!(queue.pass(100, 10), 120, "not behind 1010");
        assert_eq!(queue.pass(1_000, 10), 1_030);
    }

    #[test]
    fn a_request_is_taken_in_when_an_atomic_leaves_its_place() {
        let places = Places::default();
        places.keep_until(2, 300);
        assert_eq!(places.take_in(2, 10), 10, "one place is free");
        places.keep_until(2, 200);
        assert_eq!([10, 250].map(|at| places.take_in(2, at)), [200, 250]);
        places.keep_until(2, 500);
        assert_eq!([10, 300].map(|at| places.take_in(2, at)), [300, 300]);
        assert_eq!(places.take_in(0, 10), 10, "no limit");
    }

    #[test]
    fn bytes_pass_while_they_come() {
        let queue = Queue::default();
        assert_eq!(queue.pass_on(100, 50), 100);
        assert_eq!(queue.pass_on(100, 50), 150);
        assert_eq!(queue.pass_on(500, 0), 500);
    }

    #[test]
    fn nothing_comes_at_the_time_of_what_it_must_not_overtake() {
        let mut last = 0;
        assert_eq!(behind(5_000, &mut last), 5_000);
        assert_eq!(behind(5_000, &mut last), 5_000 + PS_PER_NS);
        assert_eq!(behind(9_000, &mut last), 9_000);
    }
}
