//! The start and the end of a repetition's measured part.

use std::sync::OnceLock;
use std::time::Duration;

use core_affinity::CoreId;
use latchwork_runtime::{Clock, Time};

/// One thread's stopwatch.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    counts_from: Time,
    time: Duration,
    begun: Option<Time>,
    operations: u64,
    elapsed: Duration,
}

impl Timer {
    /// Starts now: counts for `time`, after a warm-up of a quarter of `time`.
    pub(crate) fn start(clock: Clock, time: Duration) -> Timer {
        let counts_from = clock.now() + time / 4;
        let (begun, operations, elapsed) = (None, 0, Duration::ZERO);
        Timer { clock, counts_from, time, begun, operations, elapsed }
    }

    /// Counts a batch of operations. Returns whether there is time for another.
    #[inline]
    pub(crate) fn go_on(&mut self, operations: usize) -> bool {
        let now = self.clock.now();
        let Some(begun) = self.begun else {
            if now >= self.counts_from {
                self.begun = Some(now);
            }
            return true;
        };
        self.operations += operations as u64;
        self.elapsed = now - begun;
        self.elapsed < self.time
    }

    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Pins the calling thread to the `index`-th core, in a cycle. If the system refuses, it chooses
/// the core.
pub(crate) fn pin(index: usize) {
    // Looked up before the first thread is pinned: a thread inherits the cores of its parent.
    static CORES: OnceLock<Vec<CoreId>> = OnceLock::new();
    let cores = CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default());
    if !cores.is_empty() {
        let _ = core_affinity::set_for_current(cores[index % cores.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: threads of a pinned thread all ran on its core. Mechanism: they asked for the cores of
    /// their process, and got those of their parent. Fix: the cores are looked up once.
    #[test]
    fn the_threads_of_a_pinned_thread_have_cores_of_their_own() {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let here = || core_affinity::get_core_ids().unwrap_or_default();
        pin(0);
        let other = std::thread::spawn(move || {
            pin(1);
            here()
        });
        let other = other.join().expect("no panic");
        assert!(cores.len() < 2 || other == [cores[1]], "{other:?} of {cores:?}");
    }

    #[test]
    fn the_warm_up_does_not_count_and_the_time_is_kept() {
        let clock = Clock::start();
        let (start, mut calls) = (clock.now(), 1);
        let mut timer = Timer::start(clock, Duration::from_millis(20));
        while timer.go_on(3) {
            calls += 1;
        }
        let whole = clock.now() - start;
        assert!(whole >= Duration::from_millis(25), "{whole:?}");
        assert!(timer.operations < 3 * calls && timer.operations > 0);
        let counted = timer.operations as f64 / timer.rate();
        assert!((0.02..whole.as_secs_f64()).contains(&counted), "{counted}");
    }
}
