//! [`Cpu`]: the clock of one simulated worker.

use std::cell::Cell;
use std::time::Duration;

use latchwork_strict::{strict_assert, strict_assert_ne};

use crate::{Kernel, Time};

/// The CPU time of one worker: a clock that runs ahead of the world while the worker computes.
///
/// All work of a worker inside one event happens at one instant of the world. [`Cpu::charge`] adds
/// the time that the work would have taken. Until the world reaches the worker's clock,
/// [`Cpu::busy_until`] is `Some`, and the worker must not continue.
pub struct Cpu {
    kernel: Kernel,
    free_at: Cell<Time>,
    slowness: Cell<u32>,
    /// The share of the core, in percent.
    share: Cell<u32>,
    /// The sum of all charged time.
    charged: Cell<Duration>,
}

impl Cpu {
    /// Makes an idle CPU in the world of `kernel`.
    pub fn new(kernel: &Kernel) -> Self {
        Cpu {
            kernel: kernel.clone(),
            free_at: Cell::new(Time::ZERO),
            slowness: Cell::new(1),
            share: Cell::new(100),
            charged: Cell::new(Duration::ZERO),
        }
    }

    /// The worker's own time: the time of the world, or a later time when work was charged. This
    /// time does not go backwards.
    #[inline]
    pub fn now(&self) -> Time {
        self.kernel.now().max(self.free_at.get())
    }

    /// The time of the world, at which the worker's actions take effect.
    pub fn world_now(&self) -> Time {
        self.kernel.now()
    }

    /// Adds `cost` to the worker's clock, multiplied if the CPU was slowed down or the worker has
    /// only a share of it.
    #[inline]
    pub fn charge(&self, cost: Duration) {
        strict_assert!(self.slowness.get() >= 1, "work does not take less than its time");
        let mut cost = cost.saturating_mul(self.slowness.get());
        if self.share.get() != 100 {
            cost = cost.saturating_mul(100) / self.share.get();
        }
        let before = self.now();
        self.free_at.set(self.now() + cost);
        strict_assert!(self.free_at.get() >= before, "the clock of a worker runs backwards");
        strict_assert!(
            self.free_at.get() >= self.kernel.now(),
            "charged work ends after it begins"
        );
        self.charged.set(self.charged.get().saturating_add(cost));
    }

    /// The CPU time that the worker has used: the charged time, minus the part that lies in the
    /// world's future. During a pause, the rest of the pause is subtracted, too, so the result is
    /// too small.
    pub fn worked(&self) -> Duration {
        let ahead = self.busy_until().map_or(Duration::ZERO, |until| until - self.kernel.now());
        strict_assert!(ahead == Duration::ZERO || self.free_at.get() > self.kernel.now());
        self.charged.get().saturating_sub(ahead)
    }

    /// Multiplies by `times` the cost of all work that is charged from now on. The default is 1,
    /// and 0 counts as 1.
    pub fn slow_down(&self, times: u32) {
        self.slowness.set(times.max(1));
        strict_assert_ne!(self.slowness.get(), 0);
    }

    /// Gives the worker `percent` percent of the core, 1 to 100: the cost of work that is charged
    /// from now on is multiplied by 100 / `percent`. The default is 100.
    pub fn take_share(&self, percent: u32) {
        self.share.set(percent.clamp(1, 100));
    }

    /// Pauses the worker for `duration`, from the end of the work charged so far. The duration does
    /// not depend on the CPU's speed.
    pub fn stop_for(&self, duration: Duration) {
        let before = self.now();
        self.free_at.set(self.now() + duration);
        strict_assert!(self.now() >= before, "a pause moves the clock backwards");
    }

    /// The time at which the world reaches the worker's clock; `None` when the clock is not ahead.
    #[inline]
    pub fn busy_until(&self) -> Option<Time> {
        let free_at = self.free_at.get();
        (free_at > self.kernel.now()).then_some(free_at)
    }
}
