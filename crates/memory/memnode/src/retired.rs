//! [`Limbo`]: the retired lines of a compute node, until no operation can know their addresses.

use std::collections::VecDeque;

use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_strict::{STRICT, strict_assert, strict_assert_eq};
use latchwork_verbs::GlobalAddr;

use crate::epoch::Epoch;

/// The freed lines of a compute node.
///
/// ```text
///  retire ──► fresh ──stamp(e)──► stamped (e, line), oldest first ──release(safe > e)──► ready ──► allocate
/// ```
///
/// *Fresh* lines have no epoch yet. The verb that reads the epoch `e` for their mark is posted
/// after these lines were freed. The proof in [`crate::epoch`] needs that order.
#[derive(Default)]
pub(crate) struct Limbo {
    state: Mutex<State>,
    /// The number of fresh and stamped lines. A tick without such lines need not take the mutex.
    waiting: AtomicUsize,
    /// The number of ready lines. An allocation without ready lines need not take the mutex.
    ready: AtomicUsize,
}

#[derive(Default)]
struct State {
    fresh: VecDeque<GlobalAddr>,
    stamped: VecDeque<(Epoch, GlobalAddr)>,
    ready: Vec<GlobalAddr>,
}

/// The most lines that are checked one by one at every change.
const CHECKED_MAX: usize = 64;

impl State {
    fn len(&self) -> usize {
        self.fresh.len() + self.stamped.len() + self.ready.len()
    }

    /// Each line is here once, and the marks are in order.
    fn check(&self) {
        let stamped = || self.stamped.iter();
        assert!(stamped().is_sorted_by_key(|&(epoch, _)| epoch), "marks out of order");
        assert!(stamped().all(|&(epoch, _)| epoch < Epoch::NONE_OLDER), "a mark no bound passes");
        let all = self.fresh.iter().chain(stamped().map(|(_, line)| line)).chain(&self.ready);
        let mut lines: Vec<u64> = all.map(|line| line.bits()).collect();
        lines.sort_unstable();
        assert!(lines.is_sorted_by(|one, next| one < next), "a line is freed twice");
        assert!(lines.first().is_none_or(|&line| line != 0), "the null address is freed");
    }
}

impl Limbo {
    /// Adds a freed line.
    pub(crate) fn retire(&self, line: GlobalAddr) {
        strict_assert!(!line.is_null(), "the null address is freed");
        let mut state = self.state.lock();
        strict_assert!(
            !state.ready.contains(&line),
            "line {line} is freed while it is ready for reuse"
        );
        strict_assert!(
            !state.fresh.contains(&line) && !state.stamped.iter().any(|&(_, other)| other == line),
            "line {line} is freed twice"
        );
        state.fresh.push_back(line);
        self.count(&state);
    }

    /// The number of fresh lines. Only `stamp` makes that number smaller.
    pub(crate) fn fresh(&self) -> usize {
        if self.waiting() == 0 { 0 } else { self.state.lock().fresh.len() }
    }

    /// Marks the oldest `count` fresh lines with `epoch`. The epoch was read after these lines were
    /// retired, and is not below that of an earlier mark.
    pub(crate) fn stamp(&self, count: usize, epoch: Epoch) {
        if count > 0 {
            let state = &mut *self.state.lock();
            strict_assert!(count <= state.fresh.len(), "more lines are marked than wait");
            strict_assert!(
                epoch.get() > 0 && epoch < Epoch::NONE_OLDER,
                "no bound can pass the mark"
            );
            debug_assert!(state.stamped.back().is_none_or(|(last, _)| *last <= epoch));
            state.stamped.extend(state.fresh.drain(..count).map(|line| (epoch, line)));
            strict_assert_eq!(
                self.waiting.load(Ordering::Relaxed),
                state.fresh.len() + state.stamped.len(),
                "a mark changes no count"
            );
        }
    }

    /// Whether marked lines wait for the end of older operations.
    pub(crate) fn has_stamped(&self) -> bool {
        self.waiting() > 0 && !self.state.lock().stamped.is_empty()
    }

    /// Makes the lines with an epoch below `safe` ready, and returns their number.
    pub(crate) fn release(&self, safe: Epoch) -> usize {
        let state = &mut *self.state.lock();
        let count = state.stamped.partition_point(|(epoch, _)| *epoch < safe);
        strict_assert!(
            state.stamped.iter().take(count).all(|(epoch, _)| *epoch < safe),
            "a line is ready too early"
        );
        state.ready.extend(state.stamped.drain(..count).map(|(_, line)| line));
        strict_assert!(
            state.stamped.front().is_none_or(|(epoch, _)| *epoch >= safe),
            "a line waits although it is safe"
        );
        self.count(state);
        count
    }

    /// Adds a line whose address no other task ever had: the line is ready at once.
    pub(crate) fn give_back(&self, line: GlobalAddr) {
        let mut state = self.state.lock();
        strict_assert!(!state.ready.contains(&line), "line {line} is given back twice");
        state.ready.push(line);
        self.count(&state);
    }

    /// Returns a ready line, the one that was released last: that line is most likely still cached.
    pub(crate) fn take(&self) -> Option<GlobalAddr> {
        if self.ready.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut state = self.state.lock();
        let line = state.ready.pop();
        strict_assert!(
            line.is_none_or(|line| !state.ready.contains(&line)),
            "a line was ready twice"
        );
        self.count(&state);
        line
    }

    /// The number of freed lines that are not ready.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// The number of freed lines that are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    fn count(&self, state: &State) {
        if STRICT && state.len() <= CHECKED_MAX {
            state.check();
        }
        // Ready first: a reader that finds no waiting lines then also finds the ready lines.
        self.ready.store(state.ready.len(), Ordering::Relaxed);
        self.waiting.store(state.fresh.len() + state.stamped.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(k: u64) -> GlobalAddr {
        GlobalAddr::from_bits(k * 512)
    }

    #[test]
    fn a_line_is_ready_only_when_the_safe_epoch_is_beyond_its_stamp() {
        let limbo = Limbo::default();
        limbo.retire(line(1));
        limbo.retire(line(2));
        let fresh = limbo.fresh();
        limbo.retire(line(3));
        limbo.stamp(fresh, Epoch(5));
        assert_eq!((limbo.release(Epoch(5)), limbo.waiting(), limbo.take()), (0, 3, None));
        limbo.stamp(limbo.fresh(), Epoch(6));
        assert_eq!((limbo.release(Epoch(6)), limbo.waiting(), limbo.ready()), (2, 1, 2));
        assert_eq!(
            (limbo.take(), limbo.take(), limbo.take()),
            (Some(line(2)), Some(line(1)), None)
        );
        assert_eq!((limbo.release(Epoch::NONE_OLDER), limbo.take()), (1, Some(line(3))));
        assert!(!limbo.has_stamped() && limbo.waiting() == 0 && limbo.fresh() == 0);
    }

    #[test]
    fn lines_without_a_stamp_are_never_released() {
        let limbo = Limbo::default();
        limbo.retire(line(1));
        assert_eq!(limbo.release(Epoch::NONE_OLDER), 0);
        assert_eq!(limbo.take(), None);
    }

    #[test]
    #[should_panic(expected = "is freed twice")]
    fn a_line_that_is_freed_twice_is_found() {
        let limbo = Limbo::default();
        limbo.retire(line(1));
        limbo.retire(line(1));
    }

    #[test]
    #[should_panic(expected = "is given back twice")]
    fn a_line_that_is_given_back_twice_is_found() {
        let limbo = Limbo::default();
        limbo.give_back(line(1));
        limbo.give_back(line(1));
    }

    #[test]
    #[should_panic(expected = "marks out of order")]
    fn a_mark_that_runs_backwards_is_found() {
        let stamped = [(Epoch(6), line(1)), (Epoch(5), line(2))];
        State { stamped: stamped.into(), ..State::default() }.check();
    }
}
