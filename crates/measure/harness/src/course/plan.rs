//! What is asked of a run, and how it went.

use std::time::Duration;

use latchwork_engine::Counters;
use latchwork_runtime::Time;

/// How a run warms up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmup {
    /// For so many operations of all workers together; 0 is none.
    Operations(u64),
    /// For so long.
    Time(Duration),
    /// Until the hit ratio is steady: over [`Warmup::STEADY`] windows of so many operations the
    /// highest and the lowest are no further apart than a hundredth. At most
    /// [`Warmup::WINDOWS_MAX`] windows.
    Steady {
        /// Operations of all workers together: about as many as all caches have frames, so that in
        /// a window everything that is cached could be replaced.
        window: u64,
    },
}

impl Warmup {
    /// Windows that must agree.
    pub const STEADY: usize = 3;
    /// Windows at most.
    pub const WINDOWS_MAX: usize = 40;
    /// How far the hit ratios of windows may be apart.
    pub(super) const APART: f64 = 0.01;
}

/// When a run is measured and when it ends: after so many operations of all workers together, after
/// so much time, or whatever comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What comes before.
    pub warmup: Warmup,
    /// Operations in the measured part.
    pub operations: Option<u64>,
    /// Length of the measured part.
    pub time: Option<Duration>,
}

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// It does not count.
    WarmUp,
    /// It does.
    Measured,
}

/// How a run went, apart from what its workers know.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Went {
    /// When the measured part began.
    pub from: Time,
    /// When it ended by the plan. No operation of a limited time began at or after this time.
    /// Workers' last operations end later, and a rate is of the time until then.
    pub end: Time,
    /// Operations of the warm-up.
    pub warm_ups: u64,
    /// Hit ratios of the windows of a warm-up until steady.
    pub hit_ratios: Vec<f64>,
    /// What each compute node counted in between.
    pub counters: Vec<Counters>,
}

impl Went {
    /// This run and the part of it that went on in another process, whose place is behind this
    /// one's: from when the first was measured to the end of the last.
    #[must_use]
    pub fn beside(mut self, other: Went) -> Went {
        self.from = self.from.min(other.from);
        self.end = self.end.max(other.end);
        self.warm_ups += other.warm_ups;
        self.hit_ratios.extend(other.hit_ratios);
        self.counters.extend(other.counters);
        self
    }

    /// Seconds of the measured part.
    pub fn elapsed_s(&self) -> f64 {
        (self.end - self.from).as_secs_f64()
    }
}
