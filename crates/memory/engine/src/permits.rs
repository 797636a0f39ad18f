//! Permits: the bound on the lines of a node that transactions lock. Each locked line takes a
//! permit.
//!
//! A worker draws several permits at once and keeps returned permits for its next locks, so that
//! locking mostly shares no memory. The bound is never exceeded: the permits that a worker keeps
//! count as taken. But a lock can fail while other workers keep permits.

use std::cell::Cell;
use std::sync::Arc;

use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_check};

/// The permits of a node.
pub(crate) struct Share {
    /// The number of permits.
    most: usize,
    taken: Taken,
    /// The permits that the workers keep. Read to count the locked lines.
    kept: Mutex<Vec<Arc<Kept>>>,
}

// Alone on its CPU cache lines: workers read the fields beside it all the time.
#[derive(Default)]
#[repr(align(128))]
struct Taken(AtomicUsize);

/// The permits that one worker keeps. Only that worker writes the number.
#[derive(Default)]
#[repr(align(128))]
struct Kept(AtomicUsize);

impl Kept {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, permits: usize) {
        self.0.store(permits, Ordering::Relaxed);
    }
}

/// The most permits of one draw.
const DRAW_MAX: usize = 32;
/// The workers together keep at most 1/N of the permits (N is this number), while the number of
/// workers does not grow.
const KEPT_SHARE: usize = 8;
const _: () = assert!(KEPT_SHARE >= 2 && DRAW_MAX > 0, "draws leave permits to other workers");

impl Share {
    pub(crate) fn new(most: usize) -> Share {
        Share { most: most.max(1), taken: Taken::default(), kept: Mutex::default() }
    }

    /// The number of locked lines. Exact while no task locks or unlocks a line.
    pub(crate) fn locked(&self) -> usize {
        let kept: usize = self.kept.lock().iter().map(|kept| kept.get()).sum();
        self.taken.0.load(Ordering::Relaxed).saturating_sub(kept)
    }

    /// Takes up to `wanted` permits. Returns the number taken.
    fn take(&self, wanted: usize) -> usize {
        let mut got = 0;
        let next = |taken: usize| {
            strict_assert!(taken <= self.most, "{taken} of {} permits are taken", self.most);
            got = wanted.min(self.most - taken);
            (got > 0).then_some(taken + got)
        };
        // Relaxed: the number orders nothing else.
        let end = self.taken.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if end.is_ok() { got } else { 0 }
    }

    fn give_back(&self, permits: usize) {
        let taken = self.taken.0.fetch_sub(permits, Ordering::Relaxed);
        // A worker that ends returns its permits, also while its thread unwinds.
        strict_assert!(
            taken >= permits || std::thread::panicking(),
            "{permits} permits come back, and {taken} are taken"
        );
    }
}

/// One worker's permits.
pub(crate) struct Permits {
    kept: Arc<Kept>,
    /// The planned size of the last draw. The worker keeps at most twice as many permits. Zero:
    /// each draw is one permit, and the worker keeps none.
    draft: Cell<usize>,
}

impl Permits {
    pub(crate) fn new(share: &Share) -> Permits {
        let kept = Arc::new(Kept::default());
        share.kept.lock().push(kept.clone());
        Permits { kept, draft: Cell::new(0) }
    }

    /// Provides a permit. `workers`: the number of workers of the node. False when the worker keeps
    /// no permit and none is left to draw. After true, callers call [`use_one`](Permits::use_one)
    /// or [`settle`](Permits::settle).
    #[inline]
    pub(crate) fn provide(&self, share: &Share, workers: impl FnOnce() -> u32) -> bool {
        self.kept.get() > 0 || self.draw(share, workers())
    }

    #[cold]
    fn draw(&self, share: &Share, workers: u32) -> bool {
        // Zero when there are few permits: then a worker draws only the permit that it uses at
        // once.
        strict_assert_eq!(self.kept.get(), 0, "a draw forgets the permits that the worker has");
        let draft = share.most / KEPT_SHARE / 2 / workers.max(1) as usize;
        self.draft.set(draft.min(DRAW_MAX));
        let got = share.take(self.draft.get().max(1));
        self.kept.set(got);
        strict_check!(self, share);
        got > 0
    }

    /// Uses a permit that was provided.
    #[inline]
    pub(crate) fn use_one(&self) {
        strict_assert!(self.kept.get() > 0, "a lock is taken without a permit");
        self.kept.set(self.kept.get() - 1);
    }

    /// Returns a permit.
    #[inline]
    pub(crate) fn put_back(&self, share: &Share) {
        self.kept.set(self.kept.get() + 1);
        self.settle(share);
    }

    /// Returns the surplus permits to the node.
    #[inline]
    pub(crate) fn settle(&self, share: &Share) {
        let (kept, draft) = (self.kept.get(), self.draft.get());
        if kept > 2 * draft {
            self.kept.set(draft);
            share.give_back(kept - draft);
        }
        strict_check!(self, share);
    }

    /// The permits of this worker between two steps. Only the worker changes them.
    fn check(&self, share: &Share) {
        let (kept, draft) = (self.kept.get(), self.draft.get());
        assert!(draft <= DRAW_MAX, "a draw of {draft} permits");
        assert!(
            kept <= (2 * draft).max(1),
            "a worker keeps {kept} permits from others after a draw of {draft}"
        );
        assert!(kept <= share.most, "a worker keeps {kept} of {} permits", share.most);
    }

    /// Returns all permits when the worker ends.
    pub(crate) fn leave(&self, share: &Share) {
        share.give_back(self.kept.get());
        self.kept.set(0);
        share.kept.lock().retain(|kept| !Arc::ptr_eq(kept, &self.kept));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_there_are() {
        for (most, workers) in [(1, 1), (3, 2), (16, 4), (1000, 3), (100_000, 16)] {
            let share = Share::new(most);
            let all: Vec<Permits> = (0..workers).map(|_| Permits::new(&share)).collect();
            let mut used = vec![0; workers as usize];
            let mut random = 1_u64;
            for step in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 40) as usize % all.len();
                // More permits are wanted for a while, then fewer.
                let wants = (random >> 33) % 8 < if step % 8_000 < 4_000 { 6 } else { 2 };
                if wants && all[at].provide(&share, || workers) {
                    all[at].use_one();
                    used[at] += 1;
                } else if !wants && used[at] > 0 {
                    // Another worker ends the lock that this worker has begun.
                    used[at] -= 1;
                    all[(at + 1) % all.len()].put_back(&share);
                }
                let locked: usize = used.iter().sum();
                assert_eq!(share.locked(), locked);
                let taken = share.taken.0.load(Ordering::Relaxed);
                assert!(locked <= taken && taken <= most && taken - locked <= most / KEPT_SHARE);
            }
            all.iter().for_each(|permits| permits.leave(&share));
            assert_eq!(share.taken.0.load(Ordering::Relaxed), used.iter().sum());
        }
    }

    /// Mistake: the end of a lock returns its permit twice. More lines would be locked than the
    /// bound allows.
    #[test]
    #[should_panic(expected = "permits come back")]
    fn a_permit_that_is_returned_twice_is_found() {
        let share = Share::new(4);
        let worker = Permits::new(&share);
        assert!(worker.provide(&share, || 1));
        worker.use_one();
        worker.put_back(&share);
        worker.put_back(&share);
    }

    #[test]
    fn one_worker_can_have_nearly_all_and_the_last_of_a_few() {
        let share = Share::new(1000);
        let (idle, busy) = (Permits::new(&share), Permits::new(&share));
        assert!(idle.provide(&share, || 2));
        let got =
            (0..2000).take_while(|_| busy.provide(&share, || 2).then(|| busy.use_one()).is_some());
        assert!(got.count() >= 1000 - 1000 / KEPT_SHARE);
        let few = Share::new(4);
        let (idle, busy) = (Permits::new(&few), Permits::new(&few));
        assert!(idle.provide(&few, || 2));
        idle.use_one();
        idle.put_back(&few);
        let got = (0..9).take_while(|_| busy.provide(&few, || 2).then(|| busy.use_one()).is_some());
        assert_eq!(got.count(), 4, "where there are few, nobody keeps any");
    }
}
