//! [`LoopTime`]: how a driver's loop of operations follows time.

use std::time::Duration;

use latchwork_runtime::{Handle, Time};

use crate::PhaseProgress;

/// How long a task that waits for a time sleeps between two checks whether the run is over.
const LOOK: Duration = Duration::from_millis(100);

/// The time of a loop of operations. [`Cluster::loop_time`](crate::RunCluster::loop_time) chooses
/// it once, so that a loop is the same in real time and in a simulated world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopTime {
    /// Each worker has a thread. Reading its clock takes time, and other threads see what it does
    /// at once.
    Real,
    /// All workers have one thread. A worker's clock runs ahead of the world's time by the work
    /// that the worker has done, and a wait takes no time.
    Virtual,
}

impl LoopTime {
    /// The time for histories of an operation that begins or ends when the worker's own clock shows
    /// `clock`: the time that orders effects.
    #[inline]
    pub fn instant(self, handle: &Handle, clock: Time) -> Time {
        match self {
            LoopTime::Real => clock,
            LoopTime::Virtual => handle.instant(),
        }
    }

    /// The end of the next sleep of a task that waits for `until`. In real time the task wakes up
    /// in between and checks whether the run is over. In virtual time each such check would be an
    /// event.
    pub fn next_look(self, handle: &Handle, until: Time) -> Time {
        match self {
            LoopTime::Real => until.min(handle.now() + LOOK),
            LoopTime::Virtual => until,
        }
    }

    /// Ends an operation at the time `end`. In virtual time the next operation then begins when the
    /// world has reached the worker's clock, and the progress of the phase shows that time.
    #[inline]
    pub async fn end_operation(self, handle: &Handle, phase: &PhaseProgress, end: Time) {
        if self == LoopTime::Virtual {
            handle.catch_up().await;
            phase.reach(end);
        }
    }

    /// The number of operations that a worker takes at once from those of all workers, when an even
    /// share of the run has `even` operations.
    pub(crate) fn chunk(self, even: u64) -> u64 {
        match self {
            LoopTime::Real => even.clamp(1, 64),
            // The workers of a world contend for no counter, and chunks of one are the most even.
            LoopTime::Virtual => 1,
        }
    }
}
