//! [`Health`]: the failures of a device.

use std::collections::VecDeque;

use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// The largest number of failed queue pairs that are stored. A worker that does not check for
/// longer misses older failures.
const KEPT: usize = 256;

/// The failures of a device so far.
#[derive(Default)]
pub(crate) struct Health {
    is_dead: AtomicBool,
    // The number of failures. The number grows only after the failure is stored.
    troubles: AtomicU64,
    failed: Mutex<VecDeque<(u64, u32)>>,
}

/// The failures since a worker's last check.
pub(crate) enum Troubles {
    None,
    /// These queue pairs have failed.
    Pairs(Vec<u32>),
    /// The device has failed, and no batch on it completes any more.
    Dead,
}

impl Health {
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// The failures with numbers above `seen`. Sets `seen` to the current number.
    pub(crate) fn look(&self, seen: &mut u64) -> Troubles {
        if self.troubles.load(Ordering::Acquire) == *seen {
            return Troubles::None;
        }
        let failed = self.failed.lock();
        // The number is read again under the lock, so that it is the number of all failures that
        // are reported now.
        let before = std::mem::replace(seen, self.troubles.load(Ordering::Relaxed));
        if self.is_dead() {
            return Troubles::Dead;
        }
        let new = failed.iter().filter(|(number, _)| *number > before);
        Troubles::Pairs(new.map(|(_, pair)| *pair).collect())
    }

    pub(super) fn pair_failed(&self, pair: u32) {
        let mut failed = self.failed.lock();
        let number = self.troubles.load(Ordering::Relaxed) + 1;
        failed.push_back((number, pair));
        while failed.len() > KEPT {
            failed.pop_front();
        }
        self.troubles.store(number, Ordering::Release);
    }

    pub(super) fn died(&self) {
        let _failed = self.failed.lock();
        self.is_dead.store(true, Ordering::Release);
        self.troubles.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn each_worker_hears_of_each_trouble_once() {
        let health = Health::default();
        let (mut one, mut other) = (0, 0);
        assert!(matches!(health.look(&mut one), Troubles::None));
        health.pair_failed(7);
        assert!(matches!(health.look(&mut one), Troubles::Pairs(pairs) if pairs == [7]));
        health.pair_failed(9);
        assert!(matches!(health.look(&mut one), Troubles::Pairs(pairs) if pairs == [9]));
        assert!(matches!(health.look(&mut other), Troubles::Pairs(pairs) if pairs == [7, 9]));
        assert!(matches!(health.look(&mut other), Troubles::None));
        health.died();
        assert!(matches!(health.look(&mut one), Troubles::Dead) && health.is_dead());
    }

    /// Bug: a worker learned of a failed queue pair twice. Mechanism: the number of failures was
    /// read before the lock, and a failure stored in between was above that number. Fix: the number
    /// is read again under the lock.
    #[test]
    fn a_failure_that_is_stored_during_a_check_is_reported_once() {
        const FAILURES: u32 = 3_000_000;
        let (health, start) = (Health::default(), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                (1..=FAILURES).for_each(|pair| health.pair_failed(pair));
            });
            start.wait();
            let (mut seen, mut last) = (0, 0);
            while last < FAILURES {
                if let Troubles::Pairs(pairs) = health.look(&mut seen) {
                    for pair in pairs {
                        assert!(pair > last, "failure {pair} was reported before");
                        last = pair;
                    }
                }
            }
        });
    }

    #[test]
    fn troubles_that_no_task_looks_at_take_little_memory() {
        let health = Health::default();
        (0..10_000).for_each(|pair| health.pair_failed(pair));
        assert!(matches!(health.look(&mut 0), Troubles::Pairs(pairs) if pairs.len() == KEPT));
    }
}
