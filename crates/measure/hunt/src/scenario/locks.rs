//! [`LocksLoad`]: the settings of the workload with transactions that lock lines.

use serde::{Deserialize, Serialize};

use super::values::within;
use super::{Scenario, ScenarioError};

/// Transactions that lock lines and wait for no lock. Of a hundred operations, those that no field
/// below counts are transfers: they move an amount from one line to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LocksLoad {
    /// The number of lines.
    #[serde(deserialize_with = "within::<_, _, 1, 64>")]
    pub lines: u64,
    /// The maximum number of lines that a transfer locks.
    #[serde(deserialize_with = "within::<_, _, 1, 64>")]
    pub most: u64,
    /// Of a hundred written lines, the number that is first locked to read, then upgraded.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub upgrades: u64,
    /// Of a hundred operations, the number of audits: an audit locks all lines to read.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub audits: u64,
    /// Of a hundred operations, the number that locks only the line that it writes, and reads
    /// another line without a lock.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub flags: u64,
    /// Of a hundred operations, the number that reads without a lock.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub looks: u64,
    /// Of a hundred lock attempts, the number that is cancelled after a short time.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
}

impl Default for LocksLoad {
    fn default() -> Self {
        LocksLoad { lines: 6, most: 3, upgrades: 40, audits: 10, flags: 20, looks: 0, dropped: 5 }
    }
}

impl LocksLoad {
    /// The number of frames that a node with `tasks` tasks needs, so that accesses can wait for
    /// locks. Half of all frames may be locked, and refused accesses may keep a quarter. The last
    /// quarter must have a frame for each task.
    pub(super) fn frames_to_look(tasks: usize) -> usize {
        4 * tasks + 4
    }

    pub(super) fn check(&self, of: &Scenario) -> Result<(), ScenarioError> {
        let wrong = |key: &str, text: String| {
            Err(ScenarioError::of_key(&format!("workload.locks{key}"), text))
        };
        let sum = self.audits + self.flags + self.looks;
        if sum > 100 {
            let text =
                format!("audits, flags and looks make {sum} of a hundred: at most 100 would do");
            return wrong("", text);
        }
        let (frames, least) = (of.frames, Self::frames_to_look(of.workers * of.tasks));
        if self.looks > 0 && frames < least {
            let text = format!(
                "looks wait for locks, each with a frame, and {frames} frames are too few: {least} frames, or looks = 0, would do"
            );
            return wrong(".looks", text);
        }
        Ok(())
    }
}
