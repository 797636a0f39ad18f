//! [`FaultPlan`]: what goes wrong in a world, and for how long.

use std::time::Duration;

use latchwork_verbs_sim::Faults;
use serde::{Deserialize, Serialize};

use super::values::within;

/// What goes wrong in a world. Rates say one in so many, and 0 means never; the seed draws which
/// nodes are struck, and when.
///
/// All faults strike between the moment when the workload begins and `until_us` later; by then
/// whoever was paused is awake and whoever was slow is not any more. The dead stay dead, and the
/// others may be told of them later.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultPlan {
    /// For how long faults strike, in microseconds.
    #[serde(deserialize_with = "within::<_, _, 0, 60_000_000>")]
    pub until_us: u64,
    /// Batches that are late.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub delay_one_in: u64,
    /// By how much at most, in microseconds. Also how late the second copy of a repeated message
    /// is.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub delay_us: u64,
    /// Messages that are lost.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub lose_one_in: u64,
    /// Messages that arrive twice.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub repeat_one_in: u64,
    /// Batches that complete with an error, whether they took effect or not.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub fail_one_in: u64,
    /// How often a compute node pauses, and wakes up as a zombie.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000>")]
    pub pauses: u32,
    /// For how long at most, in microseconds.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub pause_us: u64,
    /// Compute nodes that die.
    #[serde(deserialize_with = "within::<_, _, 0, 57>")]
    pub deaths: u32,
    /// Compute nodes that lose their lease while they run: dead for the others, and barred
    /// themselves.
    #[serde(deserialize_with = "within::<_, _, 0, 57>", skip_serializing_if = "is_none")]
    pub lapses: u32,
    /// Within how many microseconds everybody else has heard of a node that is dead or has lost its
    /// lease: each member at a time of its own keeps it out and gives it up, and then it is buried.
    /// With 0 nobody is told.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>", skip_serializing_if = "is_never")]
    pub told_us: u64,
    /// Memory nodes that are lost.
    #[serde(deserialize_with = "within::<_, _, 0, 64>")]
    pub lost_memory: u32,
    /// Compute nodes that are slow from some time on.
    #[serde(deserialize_with = "within::<_, _, 0, 58>")]
    pub slow: u32,
    /// How many times as long they take.
    #[serde(deserialize_with = "within::<_, _, 2, 1_000>")]
    pub slow_factor: u32,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

fn is_never(us: &u64) -> bool {
    *us == 0
}

/// At one in so many, nine failures in a row are one in a hundred million.
const FAILING_IN_ROWS: u64 = 8;

impl Default for FaultPlan {
    fn default() -> Self {
        FaultPlan {
            until_us: 1_000,
            delay_one_in: 0,
            delay_us: 200,
            lose_one_in: 0,
            repeat_one_in: 0,
            fail_one_in: 0,
            pauses: 0,
            pause_us: 300,
            deaths: 0,
            lapses: 0,
            told_us: 0,
            lost_memory: 0,
            slow: 0,
            slow_factor: 10,
        }
    }
}

impl FaultPlan {
    /// Whether anything goes wrong.
    pub fn any(&self) -> bool {
        let by_chance =
            self.delay_one_in + self.lose_one_in + self.repeat_one_in + self.fail_one_in;
        by_chance > 0 || self.pauses + self.departures() + self.lost_memory + self.slow > 0
    }

    /// Whether operations may fail: some of these faults are more than the protocol can make up
    /// for. What else there is here must go unnoticed.
    pub fn may_fail_operations(&self) -> bool {
        self.lose_one_in > 0 || self.fails_in_rows() || self.departures() + self.lost_memory > 0
    }

    /// Compute nodes that are gone in the end.
    pub fn departures(&self) -> u32 {
        self.deaths + self.lapses
    }

    /// Whether one operation on a word may fail more often in a row than is made up for.
    fn fails_in_rows(&self) -> bool {
        (1..FAILING_IN_ROWS).contains(&self.fail_one_in)
    }

    /// How long faults strike.
    pub(crate) fn until(&self) -> Duration {
        Duration::from_micros(self.until_us)
    }

    /// What strikes by chance.
    pub(crate) fn by_chance(&self) -> Faults {
        Faults {
            delay_one_in: self.delay_one_in,
            delay: Duration::from_micros(self.delay_us),
            lose_one_in: self.lose_one_in,
            repeat_one_in: self.repeat_one_in,
            fail_one_in: self.fail_one_in,
        }
    }
}
