//! [`Waiters`]: the accesses that wait for one line.

use std::task::Waker;

use latchwork_cache::{Frame, Ownership};
use latchwork_coherence::{AccessMode, Need};
use latchwork_runtime::Time;
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::VerbError;

/// The outcome of an access that waits for a line.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The access still waits.
    Waiting,
    /// The line is here in the needed mode, and reserved.
    Granted,
    /// An upgrade has lost its copy.
    GaveWay,
    /// Another node has locked the line or it counts as locked, and the access does not wait for
    /// locks.
    Locked,
    /// The fabric failed.
    Failed(VerbError),
}

/// What an access needs, and when the access ends without the line.
#[derive(Clone, Copy, Debug)]
pub struct LineAccess {
    /// The line and the mode.
    pub need: Need,
    /// An upgrade: the access ends when the copy is lost.
    pub upgrade: bool,
    /// Deadline: the result is useless after this time.
    pub by: Option<Time>,
    /// The access does not wait for locks: it ends when another node has locked the line.
    pub no_wait: bool,
}

impl LineAccess {
    /// An access that waits for the line until its deadline.
    pub(crate) fn patient(need: Need) -> LineAccess {
        LineAccess { need, upgrade: false, by: None, no_wait: false }
    }
}

/// A waiter: an access that waits for the line.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) mode: AccessMode,
    /// Set for an upgrade, which ends when the copy is lost.
    pub(crate) upgrade: bool,
    pub(crate) outcome: Outcome,
    /// The node has sent an invalidation request since the access began to wait.
    pub(crate) asked: bool,
    /// Deadline: the result is useless after this time.
    pub(crate) by: Option<Time>,
    /// The access does not wait for locks: it ends when another node has locked the line.
    pub(crate) no_wait: bool,
    pub(crate) waker: Option<Waker>,
}

impl Waiter {
    fn is_waiting(&self) -> bool {
        matches!(self.outcome, Outcome::Waiting)
    }

    pub(crate) fn end(&mut self, outcome: Outcome) {
        strict_assert!(self.is_waiting(), "a wait ends twice: {self:?}");
        self.outcome = outcome;
        strict_assert!(!self.is_waiting(), "the end of a wait is no outcome");
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The accesses that wait for one line. Each waiter stands for a future, which owns no waiter.
#[derive(Debug, Default)]
pub struct Waiters {
    list: Vec<Waiter>,
    next: u64,
    /// The last waiter was dropped, and it would not have waited for a lock.
    forsaken: bool,
}

impl Waiters {
    /// Adds a waiter for the access. Returns the number of the waiter.
    #[inline]
    pub(crate) fn wait(&mut self, access: LineAccess, waker: &Waker) -> u64 {
        let LineAccess { need: Need { mode, .. }, upgrade, by, no_wait } = access;
        strict_assert!(
            !upgrade || mode == AccessMode::Exclusive,
            "an upgrade ends with the right to write"
        );
        strict_assert!(!(upgrade && no_wait), "an upgrade holds a copy, and needs no early end");
        self.forsaken = false;
        let id = self.next;
        self.next += 1;
        let (outcome, waker) = (Outcome::Waiting, Some(waker.clone()));
        self.list.push(Waiter { id, mode, upgrade, outcome, asked: false, by, no_wait, waker });
        id
    }

    /// The number of waiters, including those with an outcome that their accesses have not taken.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether no waiter is left.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The waiter of this number.
    #[inline]
    pub(crate) fn get(&mut self, id: u64) -> Option<&mut Waiter> {
        self.list.iter_mut().find(|waiter| waiter.id == id)
    }

    /// Removes the waiter of this number, whose wait has ended.
    #[inline]
    pub(crate) fn remove(&mut self, id: u64) -> Option<Waiter> {
        let at = self.list.iter().position(|waiter| waiter.id == id)?;
        Some(self.list.swap_remove(at))
    }

    /// Removes the waiter of this number, whose access was dropped.
    pub(crate) fn drop(&mut self, id: u64) -> Option<Waiter> {
        let waiter = self.remove(id)?;
        strict_assert!(!self.forsaken, "the line already has no waiter");
        self.forsaken = waiter.no_wait && self.list.is_empty();
        Some(waiter)
    }

    /// The relations of the fields between two steps of the line.
    pub(crate) fn check(&self) {
        assert!(
            !self.forsaken || self.list.is_empty(),
            "a waiter is left, so the dropped one was not the last: {self:?}"
        );
        for waiter in &self.list {
            assert!(waiter.id < self.next, "the number of {waiter:?} will be given again");
            assert_eq!(
                waiter.is_waiting(),
                waiter.waker.is_some(),
                "a wait that goes on has a waker, and one that has ended has woken: {waiter:?}"
            );
            assert!(
                !matches!(waiter.outcome, Outcome::GaveWay) || waiter.upgrade,
                "an access without a copy gave way: {waiter:?}"
            );
            assert!(
                !matches!(waiter.outcome, Outcome::Locked) || waiter.no_wait,
                "an access that waits for locks ended at one: {waiter:?}"
            );
        }
    }

    fn waiting(&mut self) -> impl Iterator<Item = &mut Waiter> {
        self.list.iter_mut().filter(|waiter| waiter.is_waiting())
    }

    /// The strongest mode that a waiter still waits for.
    #[inline]
    pub fn wanted(&self) -> Option<AccessMode> {
        let waiting = self.list.iter().filter(|w| matches!(w.outcome, Outcome::Waiting));
        waiting.map(|waiter| waiter.mode).max()
    }

    /// The earliest time at which the result is useless to an access that still waits.
    #[inline]
    pub fn earliest_deadline(&self) -> Option<Time> {
        let waiting = self.list.iter().filter(|w| matches!(w.outcome, Outcome::Waiting));
        waiting.filter_map(|waiter| waiter.by).min()
    }

    /// Notes that the node has sent an invalidation request. Returns the number of waiters for
    /// which it is the first one.
    pub fn note_request(&mut self) -> u64 {
        let mut first = 0;
        for waiter in self.list.iter_mut().filter(|waiter| !waiter.asked) {
            waiter.asked = true;
            first += 1;
        }
        first
    }

    /// Grants the line in `frame`, with the ownership `hold`, to the waiters that this serves.
    ///
    /// The line is reserved in the same step. A request that is served next must not take the line
    /// before each waiter has used it once, or before the reservations expire.
    #[inline]
    pub fn grant(&mut self, frame: &Frame, hold: Ownership) {
        strict_assert_eq!(
            frame.state().ownership(),
            hold,
            "a grant has the ownership of the frame, which the record's lock keeps"
        );
        for waiter in self.waiting().filter(|waiter| meets(hold, waiter.mode)) {
            frame.reserve();
            waiter.end(Outcome::Granted);
        }
    }

    /// Ends the upgrades, which have lost the copy that they saw.
    #[inline]
    pub(crate) fn give_way(&mut self) {
        self.waiting().filter(|waiter| waiter.upgrade).for_each(|w| w.end(Outcome::GaveWay));
    }

    /// Ends the accesses that do not wait for locks, because another node has locked the line.
    /// Returns the strongest mode that the remaining accesses want; `mode`, if no access has ended.
    pub(crate) fn lock_out(&mut self, mode: AccessMode) -> Option<AccessMode> {
        let mut ended = self.forsaken;
        for waiter in self.waiting().filter(|waiter| waiter.no_wait) {
            waiter.end(Outcome::Locked);
            ended = true;
        }
        if ended { self.wanted() } else { Some(mode) }
    }

    /// Fails the accesses that still wait. A waiter with an earlier grant has a reservation, and
    /// may still use the line.
    pub fn fail(&mut self, error: VerbError) {
        self.waiting().for_each(|waiter| waiter.end(Outcome::Failed(error)));
    }

    /// Fails the accesses with a grant that have not used the line yet: they lose their
    /// reservations of `frame`.
    pub(crate) fn fail_granted(&mut self, frame: &Frame, error: VerbError) {
        let granted = |waiter: &&mut Waiter| matches!(waiter.outcome, Outcome::Granted);
        for waiter in self.list.iter_mut().filter(granted) {
            strict_assert!(frame.is_reserved(), "a grant is a reservation until it is used");
            strict_assert!(waiter.waker.is_none(), "the grant has woken the access");
            frame.unreserve();
            waiter.outcome = Outcome::Failed(error);
        }
    }
}

/// Whether this ownership is enough for an access of this mode.
#[inline]
pub(crate) fn meets(hold: Ownership, mode: AccessMode) -> bool {
    match mode {
        AccessMode::Shared => hold >= Ownership::Shared,
        AccessMode::Exclusive => hold == Ownership::Exclusive,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn waiters() -> (Waiters, u64) {
        let mut waiters = Waiters::default();
        let need =
            Need { addr: latchwork_verbs::GlobalAddr::from_bits(4096), mode: AccessMode::Shared };
        let id = waiters.wait(LineAccess::patient(need), Waker::noop());
        waiters.check();
        (waiters, id)
    }

    /// Mistake: a step ends a wait and forgets the waker. The access would sleep until its
    /// deadline.
    #[test]
    #[should_panic(expected = "one that has ended has woken")]
    fn a_wait_that_ends_without_a_wake_is_found() {
        let (mut waiters, id) = waiters();
        waiters.get(id).expect("it waits").outcome = Outcome::Granted;
        waiters.check();
    }

    /// Mistake: a line serves a waiter that it has served. The second grant would be a reservation
    /// that no access ends.
    #[test]
    #[should_panic(expected = "a wait ends twice")]
    fn a_wait_that_ends_twice_is_found() {
        let (mut waiters, id) = waiters();
        let waiter = waiters.get(id).expect("it waits");
        waiter.end(Outcome::Granted);
        waiter.end(Outcome::Granted);
    }
}
