//! The plan of a run, and its outcome.

use std::time::Duration;

use latchwork_engine::Counters;
use latchwork_runtime::Time;

/// The warm-up of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmup {
    /// For this number of operations of all workers together; 0 is no warm-up.
    Operations(u64),
    /// For this time.
    Time(Duration),
    /// Until the hit ratio is steady: in the last [`Warmup::STEADY`] windows, the highest and the
    /// lowest hit ratio differ by at most 0.01. The warm-up ends after [`Warmup::WINDOWS_MAX`]
    /// windows in any case.
    Steady {
        /// Operations of a window, of all workers together. A good number is the number of frames
        /// of all caches: so many operations can replace the contents of the caches.
        window: u64,
    },
}

impl Warmup {
    /// Number of windows that must have about the same hit ratio.
    pub const STEADY: usize = 3;
    /// Maximum number of windows.
    pub const WINDOWS_MAX: usize = 40;
    /// Maximum difference between the hit ratios of windows.
    pub(super) const APART: f64 = 0.01;

    /// The warm-up in a line for people.
    pub fn in_words(&self) -> String {
        match self {
            Warmup::Operations(0) => "no warm-up".to_owned(),
            Warmup::Operations(count) => format!("warm-up of {count} operations"),
            Warmup::Time(time) => format!("warm-up of {time:?}"),
            Warmup::Steady { .. } => "warm-up until the hit ratio is steady".to_owned(),
        }
    }
}

const _: () = assert!(Warmup::STEADY > 1, "one window agrees with itself");
const _: () = assert!(Warmup::STEADY <= Warmup::WINDOWS_MAX, "no warm-up would be steady");
const _: () = assert!(Warmup::APART > 0.0 && Warmup::APART < 1.0, "hit ratios are 0 to 1");

/// The plan of a run. The measured part ends after a number of operations of all workers together,
/// after a time, or at the earlier of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The warm-up before the measured part.
    pub warmup: Warmup,
    /// Operations in the measured part.
    pub operations: Option<u64>,
    /// Length of the measured part.
    pub time: Option<Duration>,
}

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunPart {
    /// The warm-up, which is not measured.
    WarmUp,
    /// The measured part.
    Measured,
}

/// The outcome of a run, without the workers' own results.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Went {
    /// The start of the measured part.
    pub from: Time,
    /// The end of the measured part. With a time limit, no operation began at or after this time.
    /// Operations in progress ended later, so a rate must use the time until the last of them
    /// ended.
    pub end: Time,
    /// Operations of the warm-up.
    pub warm_ups: u64,
    /// Hit ratios of the windows of a warm-up until steady.
    pub hit_ratios: Vec<f64>,
    /// The counters of each compute node over the measured part, and behind them those of the
    /// agents.
    pub counters: Vec<Counters>,
}

impl Went {
    /// Joins this outcome with the outcome of the process with the next index. The measured part is
    /// from the first start to the last end.
    #[must_use]
    pub fn beside(mut self, other: Went) -> Went {
        self.from = self.from.min(other.from);
        self.end = self.end.max(other.end);
        self.warm_ups += other.warm_ups;
        self.hit_ratios.extend(other.hit_ratios);
        self.counters.extend(other.counters);
        self
    }

    /// The end of the last operation of the measured part. `ends` are those of the workers. An
    /// operation that began in the measured part counts, also if it ended later.
    pub fn last(&self, ends: impl IntoIterator<Item = Time>) -> Time {
        ends.into_iter().fold(self.end, Time::max)
    }
}
