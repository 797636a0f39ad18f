//! [`LoopTime`]: the handling of time in a loop of operations, in real time or in a simulated
//! world.

use std::time::Duration;

use latchwork_runtime::{Handle, Time};

use crate::PhaseProgress;

/// In real time, a task that waits for a later time checks at this interval whether the run is
/// over.
const LOOK: Duration = Duration::from_millis(100);

/// The kind of time of a loop of operations.
/// [`RunCluster::loop_time`](crate::RunCluster::loop_time) gives the kind, and the methods here
/// hide the difference. So one loop serves real time and simulated worlds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopTime {
    /// Each worker has a thread, and its clock is the real clock.
    Real,
    /// All workers run on one thread in virtual time. A worker's clock runs ahead of the world's
    /// time by the work that the worker has done.
    Virtual,
}

impl LoopTime {
    /// The time to record in a history for an operation that begins or ends now. `clock` is the
    /// worker's own clock. In a world, the world's time is recorded, because it orders all effects.
    #[inline]
    pub fn instant(self, handle: &Handle, clock: Time) -> Time {
        match self {
            LoopTime::Real => clock,
            LoopTime::Virtual => handle.instant(),
        }
    }

    /// The end of the next sleep of a task that waits for `until`. In real time the task wakes up
    /// every 100 ms and checks whether the run is over. In virtual time the task sleeps until the
    /// end, because each check would be an event.
    pub fn next_look(self, handle: &Handle, until: Time) -> Time {
        match self {
            LoopTime::Real => until.min(handle.now() + LOOK),
            LoopTime::Virtual => until,
        }
    }

    /// Ends an operation at the time `end`. In virtual time this waits until the world's time has
    /// reached the worker's clock, and reports `end` as the progress of the phase.
    #[inline]
    pub async fn end_operation(self, handle: &Handle, phase: &PhaseProgress, end: Time) {
        if self == LoopTime::Virtual {
            handle.catch_up().await;
            phase.reach(end);
        }
    }

    /// The number of operations that a worker takes at once from the shared count of all workers.
    /// `even` is the number to take for good balance, without regard to contention.
    pub(crate) fn chunk(self, even: u64) -> u64 {
        match self {
            LoopTime::Real => even.clamp(1, 64),
            // Workers of a world do not contend, so chunks of one operation give the best balance.
            LoopTime::Virtual => 1,
        }
    }
}
