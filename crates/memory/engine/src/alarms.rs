//! Alarms: the actions of a node for a line at a later time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::GlobalAddr;

/// The reason of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Alarm {
    /// An alarm of the protocol, by the protocol's number.
    Protocol(u8),
    /// A local writer that held the line has released it, in virtual time.
    LetGo,
    /// The next step of the node's [cleaner](crate::cleaner), about no line.
    Clean,
}

/// The alarms of a node. Alarms belong to the node and not to the worker that set them, so that any
/// worker that polls serves them.
#[derive(Debug)]
pub struct Timers {
    heap: Mutex<BinaryHeap<Reverse<(Time, GlobalAddr, Alarm)>>>,
    /// The time of the first alarm, in nanoseconds: a hint that saves the lock.
    next: AtomicU64,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Timers { heap: Mutex::new(BinaryHeap::new()), next: AtomicU64::new(u64::MAX) }
    }

    /// Sets an alarm for a line. A worker serves the alarm on its first sweep at or after `at`.
    pub fn set(&self, at: Time, addr: GlobalAddr, alarm: Alarm) {
        strict_assert!(at < Time::MAX, "an alarm at the end of time is read as no alarm");
        strict_assert!(addr.is_null() == (alarm == Alarm::Clean), "an alarm rings for a line");
        let mut heap = self.heap.lock();
        strict_check!(self, &heap);
        heap.push(Reverse((at, addr, alarm)));
        self.publish(&heap);
    }

    /// Removes and returns an alarm that is due.
    pub(crate) fn pop_due(&self, now: Time) -> Option<(GlobalAddr, Alarm)> {
        if now.as_nanos() < self.next.load(Ordering::Relaxed) {
            return None;
        }
        let mut heap = self.heap.lock();
        strict_check!(self, &heap);
        let due = heap.peek().is_some_and(|Reverse((at, ..))| *at <= now);
        let taken = if due { heap.pop() } else { None };
        self.publish(&heap);
        taken.map(|Reverse((_, addr, alarm))| (addr, alarm))
    }

    /// The time of the first alarm.
    pub(crate) fn next(&self) -> Option<Time> {
        match self.next.load(Ordering::Relaxed) {
            u64::MAX => None,
            at => Some(Time::from_nanos(at)),
        }
    }

    /// The hint is the time of the first alarm. It changes only under the heap's lock.
    fn check(&self, heap: &BinaryHeap<Reverse<(Time, GlobalAddr, Alarm)>>) {
        let first = heap.peek().map_or(u64::MAX, |Reverse((at, ..))| at.as_nanos());
        let hint = self.next.load(Ordering::Relaxed);
        assert_eq!(hint, first, "workers would wait past the first alarm, or poll for none");
    }

    // The caller holds the heap's lock. So the hint fits the heap whenever the lock is free.
    fn publish(&self, heap: &BinaryHeap<Reverse<(Time, GlobalAddr, Alarm)>>) {
        let next = heap.peek().map_or(u64::MAX, |Reverse((at, ..))| at.as_nanos());
        self.next.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn alarms_come_in_order_and_not_before_their_time() {
        let timers = Timers::new();
        let at = Time::from_nanos;
        let line = GlobalAddr::from_bits;
        timers.set(at(20), line(2), Alarm::Protocol(0));
        timers.set(at(10), line(1), Alarm::Protocol(1));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(15)), Some((line(1), Alarm::Protocol(1))));
        assert_eq!(timers.pop_due(at(15)), None);
        assert_eq!(timers.pop_due(at(20)), Some((line(2), Alarm::Protocol(0))));
        assert_eq!(timers.next(), None);
    }

    /// Mistake: the hint is not published after a change of the heap. The alarm would ring when
    /// another one is set.
    #[test]
    #[should_panic(expected = "workers would wait past the first alarm")]
    fn a_hint_that_is_late_is_found() {
        let timers = Timers::new();
        timers.set(Time::from_nanos(20), GlobalAddr::from_bits(8), Alarm::Protocol(0));
        timers.next.store(30, Ordering::Relaxed);
        timers.pop_due(Time::from_nanos(40));
    }
}
