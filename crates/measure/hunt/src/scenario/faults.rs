//! [`FaultPlan`]: the kinds and the rates of the faults of a world.

use std::time::Duration;

use latchwork_verbs_sim::Faults;
use serde::{Deserialize, Serialize};

use super::values::within;

/// The faults of a world. A rate of `n` means one in `n` on average, and 0 means never. The seed
/// decides which nodes, batches and messages get faults, and when.
///
/// All faults begin within `until_us` after the start of the workload. At that time paused nodes
/// have woken up, and slow nodes become fast again. Dead nodes stay dead. The other nodes may be
/// notified of a death later.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultPlan {
    /// The time in which faults begin, in microseconds after the start of the workload.
    #[serde(deserialize_with = "within::<_, _, 0, 60_000_000>")]
    pub until_us: u64,
    /// One batch in this number is delayed.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub delay_one_in: u64,
    /// The longest delay, in microseconds. This value also bounds the delay of the second copy of a
    /// duplicated message.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub delay_us: u64,
    /// One message in this number is lost.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub lose_one_in: u64,
    /// One message in this number arrives twice.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub repeat_one_in: u64,
    /// One batch in this number completes with an error. Some or all of its requests may have taken
    /// effect.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000_000>")]
    pub fail_one_in: u64,
    /// The number of pauses of compute nodes.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000>")]
    pub pauses: u32,
    /// The longest pause, in microseconds.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub pause_us: u64,
    /// The number of compute nodes that crash.
    #[serde(deserialize_with = "within::<_, _, 0, 57>")]
    pub deaths: u32,
    /// The number of compute nodes that lose their lease while they run. For the other nodes, such
    /// a node is dead. Its own verbs fail.
    #[serde(deserialize_with = "within::<_, _, 0, 57>", skip_serializing_if = "is_none")]
    pub lapses: u32,
    /// The number of lost compute nodes, at most, whose ids other nodes get after the recovery.
    #[serde(deserialize_with = "within::<_, _, 0, 57>", skip_serializing_if = "is_none")]
    pub replacements: u32,
    /// The time, in microseconds, within which all members are notified of a lost node. Each member
    /// fences the lost node at a time of its own, and forgets it later. When all members have
    /// fenced the lost node, it is reclaimed. With 0 no member is notified.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>", skip_serializing_if = "is_never")]
    pub told_us: u64,
    /// The number of memory nodes that are lost.
    #[serde(deserialize_with = "within::<_, _, 0, 64>")]
    pub lost_memory: u32,
    /// The number of compute nodes that become slow.
    #[serde(deserialize_with = "within::<_, _, 0, 58>")]
    pub slow: u32,
    /// The factor by which slow nodes are slower.
    #[serde(deserialize_with = "within::<_, _, 2, 1_000>")]
    pub slow_factor: u32,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

fn is_never(us: &u64) -> bool {
    *us == 0
}

/// If a batch fails more often than once in this number, operations may fail. With one failure in
/// 8, nine failures in a row occur once in about a hundred million tries.
const FAILING_IN_ROWS: u64 = 8;
const _: () = assert!(FAILING_IN_ROWS > 1, "operations that fail in rows fail often");

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
            replacements: 0,
            told_us: 0,
            lost_memory: 0,
            slow: 0,
            slow_factor: 10,
        }
    }
}

impl FaultPlan {
    /// Whether there are any faults.
    pub fn any(&self) -> bool {
        let by_chance =
            self.delay_one_in + self.lose_one_in + self.repeat_one_in + self.fail_one_in;
        by_chance > 0 || self.pauses + self.departures() + self.lost_memory + self.slow > 0
    }

    /// Whether operations may fail, because the protocol cannot hide some of these faults from its
    /// callers. The protocol must hide all other faults.
    pub fn may_fail_operations(&self) -> bool {
        self.lose_one_in > 0 || self.fails_in_rows() || self.departures() + self.lost_memory > 0
    }

    /// The number of compute nodes that die or lose their lease.
    pub fn departures(&self) -> u32 {
        self.deaths + self.lapses
    }

    /// Whether a word operation may fail more often in a row than the protocol retries it.
    fn fails_in_rows(&self) -> bool {
        (1..FAILING_IN_ROWS).contains(&self.fail_one_in)
    }

    /// The time in which faults begin, since the start of the workload.
    pub(crate) fn until(&self) -> Duration {
        Duration::from_micros(self.until_us)
    }

    /// The faults of batches and messages.
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
