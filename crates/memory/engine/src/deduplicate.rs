//! Deduplication: each message carries a message number, and the receiver takes each number once.
//!
//! ```text
//!   sender: worker w of node n                       receiver: all workers of a node
//!   Numbers: w, last[target] ──► (w, number) ──► Seen[n][w]: highest, gaps ──► new or not
//! ```
//!
//! A second copy does harm. For example, an invalidation request that is granted twice can cause a
//! WRITE into a frame that serves another line by then.
//!
//! # State of the receiver
//!
//! For each worker of a sender, the receiver keeps the highest number that has arrived, and the
//! *gaps*: lower numbers that have not arrived. A number that is neither above the highest nor a
//! gap counts as a duplicate. So a number is never taken twice, however late its second copy is.
//!
//! # Why a bounded number of gaps is enough
//!
//! No bound exists on how often one message is overtaken: one message can be late while thousands
//! pass it. But while no connection fails, the number of messages that are late at one time is
//! bounded:
//!
//! 1. A worker numbers its messages to one node in the order of posting.
//! 2. The endpoint submits its batches to one target in that order.
//! 3. Where submitted messages can overtake each other, the fabric bounds the submitted requests of
//!    one worker to one node.
//! 4. So a gap belongs to one of four kinds of messages: (a) a submitted message; (b) a message
//!    that a worker of the receiver has taken out of the inbox and not yet checked, at most one for
//!    each worker; (c) a message that is sent again after a failed connection, behind later
//!    messages; (d) a message that never arrives, because the network lost it, the endpoint was
//!    dropped or the post was refused.
//! 5. [`NodeSettings::gaps_max`](crate::NodeSettings::gaps_max) must be above the number of
//!    messages of the kinds (a) and (b) together. The receiver keeps that many gaps.
//! 6. The kind (c) has no such bound: more messages join with each further failure of the
//!    connection.
//! 7. With more gaps, the receiver forgets the lowest. That message has been overtaken most often,
//!    so it is most likely lost.
//! 8. A forgotten message that arrives after all is dropped like a duplicate. The accesses that
//!    need that message fail at their deadlines. Forgetting a gap never makes the receiver take a
//!    message twice.

use std::cell::Cell;
use std::collections::VecDeque;

use latchwork_runtime::sync::Mutex;
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::ComputeNodeId;

const NUMBER_BITS: u32 = 48;

/// A message number with its worker: worker 16 bits | number 48 bits. The numbers of a worker count
/// from 1 for every target. At a million messages a second, 48 bits last almost nine years.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageNumber(u64);

impl MessageNumber {
    pub(crate) fn new(worker: u16, number: u64) -> Self {
        strict_assert!(number > 0, "zero stands for no number");
        strict_assert!(number >> NUMBER_BITS == 0, "{number} would name the message of another");
        MessageNumber(u64::from(worker) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1))
    }

    /// Reads a message number from its word. `None` for the number 0, which no message has.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        let stamp = MessageNumber(bits);
        (stamp.number() != 0).then_some(stamp)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    fn worker(self) -> u16 {
        (self.0 >> NUMBER_BITS) as u16
    }

    fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// The message numbers of one worker.
#[derive(Debug)]
pub(crate) struct Numbers {
    worker: u16,
    /// The last number for each target.
    last: Box<[Cell<u64>]>,
}

impl Numbers {
    pub(crate) fn next(&self, target: ComputeNodeId) -> MessageNumber {
        let last = &self.last[target.index()];
        last.set(last.get() + 1);
        MessageNumber::new(self.worker, last.get())
    }
}

/// The message numbers that no worker of the node uses at the moment.
///
/// A worker that starts continues the numbers of a worker that has left, if there is one. So a
/// message number never stands for two messages. A receiver keeps only as many windows as the
/// sender had workers at one time.
#[derive(Default)]
pub(crate) struct NumberPool {
    free: Mutex<(Vec<Numbers>, u16)>,
}

impl NumberPool {
    pub(crate) fn take(&self) -> Numbers {
        let (free, made) = &mut *self.free.lock();
        strict_assert!(free.len() <= usize::from(*made), "more numbers are free than were made");
        free.pop().unwrap_or_else(|| {
            let worker = *made;
            // No machine has threads for 65536 workers of one node at one time.
            *made = made.wrapping_add(1);
            Numbers { worker, last: vec![Cell::new(0); usize::from(ComputeNodeId::MAX)].into() }
        })
    }

    pub(crate) fn give_back(&self, numbers: Numbers) {
        let (free, made) = &mut *self.free.lock();
        // A worker gives its numbers back when it ends, also while its thread unwinds.
        strict_assert!(
            free.iter().all(|other| other.worker != numbers.worker) || std::thread::panicking(),
            "the numbers of worker {} are free already",
            numbers.worker
        );
        strict_assert!(
            numbers.worker < *made || std::thread::panicking(),
            "the numbers of worker {} were never made",
            numbers.worker
        );
        free.push(numbers);
    }
}

/// The numbers of one worker that have arrived.
#[derive(Default)]
struct Window {
    highest: u64,
    /// Lower numbers that have not arrived, in order.
    gaps: VecDeque<u64>,
}

impl Window {
    /// The gaps are distinct, lie below the highest number, and are few.
    fn check(&self, gaps_max: usize) {
        assert!(self.gaps.len() <= gaps_max, "{} gaps, and room for {gaps_max}", self.gaps.len());
        assert!(self.gaps.iter().is_sorted_by(|a, b| a < b), "a search would miss a gap");
        assert!(
            self.gaps.back().is_none_or(|&last| last < self.highest),
            "the highest number has arrived, and is a gap"
        );
        assert!(self.gaps.front().is_none_or(|&first| first > 0), "zero is no number");
    }

    /// Takes `number`. Returns whether it has arrived for the first time.
    fn take(&mut self, number: u64, gaps_max: usize) -> bool {
        if number == self.highest + 1 {
            self.highest = number;
            return true;
        }
        if number > self.highest {
            // Not more gaps than are kept: the number in a peer's message must not decide how long
            // this takes.
            let first = number.saturating_sub(gaps_max as u64).max(self.highest + 1);
            self.gaps.extend(first..number);
            let surplus = self.gaps.len().saturating_sub(gaps_max);
            self.gaps.drain(..surplus);
            self.highest = number;
            return true;
        }
        match self.gaps.binary_search(&number) {
            Ok(at) => self.gaps.remove(at).is_some(),
            Err(_) => false,
        }
    }
}

/// The message numbers that have arrived from all other nodes.
///
/// Each sending node has one lock, which a worker holds for a short time. So only workers that
/// receive from the same node at the same moment contend.
pub(crate) struct Seen {
    nodes: Box<[Windows]>,
    gaps_max: usize,
}

#[derive(Default)]
#[repr(align(128))]
struct Windows(Mutex<Vec<Window>>);

impl Seen {
    pub(crate) fn new(gaps_max: usize) -> Self {
        let nodes = (0..ComputeNodeId::MAX).map(|_| Windows::default()).collect();
        Seen { nodes, gaps_max }
    }

    /// Forgets the numbers of `from`: the next node of that id starts its numbers anew.
    pub(crate) fn forget(&self, from: ComputeNodeId) {
        self.nodes[from.index()].0.lock().clear();
    }

    /// Takes the message of `from` with this message number. Returns whether it has arrived for the
    /// first time.
    pub(crate) fn take(&self, from: ComputeNodeId, stamp: MessageNumber) -> bool {
        let mut windows = self.nodes[from.index()].0.lock();
        let worker = usize::from(stamp.worker());
        if windows.len() <= worker {
            windows.resize_with(worker + 1, Window::default);
        }
        let window = &mut windows[worker];
        let is_new = window.take(stamp.number(), self.gaps_max);
        strict_check!(window, self.gaps_max);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    proptest! {
        /// For any numbers in any order: while no gap was forgotten, a number is taken if and only
        /// if a set of all numbers does not contain it. With forgotten gaps, no number is taken
        /// twice either.
        #[test]
        fn a_window_knows_what_a_set_knows(
            steps in prop::collection::vec((0u64..40, any::<bool>()), 1..300),
            gaps_max in 1usize..64,
        ) {
            let (mut window, mut seen) = (Window::default(), BTreeSet::new());
            let mut forgot = false;
            let mut base = 1;
            for (near, goes_on) in steps {
                let number = (base + near).saturating_sub(20).max(1);
                base += u64::from(goes_on);
                let unseen = |below: u64| below - 1 - seen.range(..below).count() as u64;
                let above = seen.last().is_none_or(|&highest| number > highest);
                forgot |= above && unseen(number) > gaps_max as u64;
                let taken = window.take(number, gaps_max);
                let new = seen.insert(number);
                prop_assert!(!taken || new, "{number} was taken twice");
                prop_assert!(taken == new || forgot, "{number} was refused the first time");
                prop_assert!(window.gaps.len() <= gaps_max);
            }
        }
    }

    /// The bound is on the number of late messages, not on their lateness.
    #[test]
    fn one_late_message_may_be_overtaken_by_any_number_of_others() {
        let mut window = Window::default();
        assert!((2..100_000).all(|number| window.take(number, 4)));
        assert!(window.take(1, 4) && !window.take(1, 4) && !window.take(99_999, 4));
    }

    #[test]
    fn a_leap_of_any_size_costs_no_more_than_the_gaps_that_are_kept() {
        let mut window = Window::default();
        let far = (1 << NUMBER_BITS) - 1;
        assert!(window.take(far, 8) && window.gaps.len() == 8);
        assert!(window.take(far - 8, 8) && !window.take(far - 9, 8), "the lowest is forgotten");
    }

    #[test]
    fn workers_and_nodes_have_numbers_of_their_own() {
        let (pool, seen) = (NumberPool::default(), Seen::new(8));
        let (first, second) = (pool.take(), pool.take());
        let stamps = [first.next(node(2)), second.next(node(2)), first.next(node(3))];
        assert_eq!(stamps[0].bits() & 0xffff, stamps[1].bits() & 0xffff);
        assert!(seen.take(node(1), stamps[0]) && seen.take(node(1), stamps[1]));
        assert!(seen.take(node(4), stamps[0]) && !seen.take(node(1), stamps[0]));
        // A worker that starts continues the numbers of one that left.
        pool.give_back(first);
        let third = pool.take();
        assert!(seen.take(node(1), third.next(node(2))));
        assert!(seen.take(node(1), pool.take().next(node(2))), "nobody's numbers yet");
    }

    /// Mistake: a worker gives its numbers back and goes on. Two workers would give their messages
    /// the same numbers, and the receiver would drop one of each two.
    #[test]
    #[should_panic(expected = "are free already")]
    fn numbers_that_are_given_back_twice_are_found() {
        let pool = NumberPool::default();
        let numbers = pool.take();
        let copy = Numbers { worker: numbers.worker, last: numbers.last.clone() };
        pool.give_back(numbers);
        pool.give_back(copy);
    }

    /// Mistake: the number of a gap that has arrived stays a gap. The receiver would act twice on
    /// one message.
    #[test]
    #[should_panic(expected = "has arrived, and is a gap")]
    fn a_gap_that_stays_after_its_message_is_found() {
        let mut window = Window { highest: 7, gaps: VecDeque::from([3, 7]) };
        window.take(3, 8);
        window.check(8);
    }

    #[test]
    fn a_stamp_survives_its_word_and_none_is_none() {
        let stamp = MessageNumber::new(u16::MAX, 77);
        assert_eq!(MessageNumber::from_bits(stamp.bits()), Some(stamp));
        assert_eq!((stamp.worker(), stamp.number()), (u16::MAX, 77));
        assert_eq!(MessageNumber::from_bits(5 << NUMBER_BITS), None);
    }
}
