//! [`Cpu`]: the clock of one simulated worker.

use std::cell::Cell;
use std::time::Duration;

use crate::{Kernel, Time};

/// The CPU time of one worker: a clock that runs ahead of the world while the worker computes.
///
/// What a worker does inside one event is one instant for the world. [`Cpu::charge`] says how long
/// it would have taken; until the world has caught up, [`Cpu::busy_until`] is `Some` and the worker
/// must not go on.
pub struct Cpu {
    kernel: Kernel,
    free_at: Cell<Time>,
    slowness: Cell<u32>,
    /// All that was charged.
    charged: Cell<Duration>,
}

impl Cpu {
    /// An idle CPU in `kernel`'s world.
    pub fn new(kernel: &Kernel) -> Self {
        Cpu {
            kernel: kernel.clone(),
            free_at: Cell::new(Time::ZERO),
            slowness: Cell::new(1),
            charged: Cell::new(Duration::ZERO),
        }
    }

    /// The worker's own time: the world's, or later when work was charged. Never goes backwards.
    #[inline]
    pub fn now(&self) -> Time {
        self.kernel.now().max(self.free_at.get())
    }

    /// The world's time, in which what the worker does takes effect.
    pub fn world_now(&self) -> Time {
        self.kernel.now()
    }

    /// Adds `cost` to the worker's clock, or more on a CPU that was slowed down.
    #[inline]
    pub fn charge(&self, cost: Duration) {
        let cost = cost.saturating_mul(self.slowness.get());
        self.free_at.set(self.now() + cost);
        self.charged.set(self.charged.get().saturating_add(cost));
    }

    /// How long it has computed until now: what was charged, less what the world has not caught up
    /// with.
    pub fn worked(&self) -> Duration {
        let ahead = self.busy_until().map_or(Duration::ZERO, |until| until - self.kernel.now());
        self.charged.get().saturating_sub(ahead)
    }

    /// Makes all that is charged from now on take `times` as long; 1 is as usual.
    pub fn slow_down(&self, times: u32) {
        self.slowness.set(times.max(1));
    }

    /// Takes the CPU away from the worker for `duration`, whatever its speed.
    pub fn stop_for(&self, duration: Duration) {
        self.free_at.set(self.now() + duration);
    }

    /// When the world will have caught up with this worker; `None` when it has.
    #[inline]
    pub fn busy_until(&self) -> Option<Time> {
        let free_at = self.free_at.get();
        (free_at > self.kernel.now()).then_some(free_at)
    }
}
