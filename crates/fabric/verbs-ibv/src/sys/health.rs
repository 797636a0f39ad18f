//! [`Health`]: the failures of a device.

use std::collections::VecDeque;

use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// The most failed queue pairs that are stored for workers that have not checked yet.
const KEPT: usize = 256;

/// The failures of a device so far.
#[derive(Default)]
pub(crate) struct Health {
    is_dead: AtomicBool,
    // The number of failures. It grows after the failure is stored.
    troubles: AtomicU64,
    failed: Mutex<VecDeque<(u64, u32)>>,
}

/// The failures since a worker's last check.
pub(crate) enum Troubles {
    None,
    /// These queue pairs have failed.
    Pairs(Vec<u32>),
    /// Nothing on the device works any more.
    Dead,
}

impl Health {
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// The failures since `seen`, which is set to the current number.
    pub(crate) fn look(&self, seen: &mut u64) -> Troubles {
        let now = self.troubles.load(Ordering::Acquire);
        let before = std::mem::replace(seen, now);
        if now == before {
            return Troubles::None;
        }
        if self.is_dead() {
            return Troubles::Dead;
        }
        let failed = self.failed.lock();
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

    #[test]
    fn troubles_that_nobody_looks_at_take_little_memory() {
        let health = Health::default();
        (0..10_000).for_each(|pair| health.pair_failed(pair));
        assert!(matches!(health.look(&mut 0), Troubles::Pairs(pairs) if pairs.len() == KEPT));
    }
}
