//! [`Workload`]: what the workers of a world do.

use serde::{Deserialize, Serialize};

use super::values::within;
use super::{Scenario, ScenarioError};

/// What the workers do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Reads, writes, upgrades and dropped accesses of single lines.
    Lines(LinesLoad),
}

/// The kinds of workloads, for a choice among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkloadKind {
    /// [`Workload::Lines`].
    Lines,
}

/// Reads, writes, upgrades and dropped accesses of single lines. What is left of a hundred reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinesLoad {
    /// How many lines there are.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub lines: u64,
    /// Of a hundred operations, how many write.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub writes: u64,
    /// Of a hundred operations, how many read, and write what they saw.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub upgrades: u64,
    /// Of a hundred operations, how many are dropped midway.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// Of a hundred operations, how many add to a counter by a global atomic.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub atomics: u64,
    /// Whether few lines are wanted most (zipfian), or all alike.
    pub zipfian: bool,
}

impl Default for LinesLoad {
    fn default() -> Self {
        LinesLoad { lines: 4, writes: 20, upgrades: 20, dropped: 10, atomics: 5, zipfian: false }
    }
}

impl Default for Workload {
    fn default() -> Self {
        Workload::Lines(LinesLoad::default())
    }
}

impl Workload {
    /// Which kind.
    pub fn kind(&self) -> WorkloadKind {
        match self {
            Workload::Lines(_) => WorkloadKind::Lines,
        }
    }

    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        match self {
            Workload::Lines(load) => {
                let sum = load.writes + load.upgrades + load.dropped + load.atomics;
                if sum <= 100 {
                    return Ok(());
                }
                let text = format!(
                    "writes, upgrades, dropped and atomics make {sum} of a hundred: at most 100 would do"
                );
                Err(ScenarioError::of_key("workload.lines", text))
            }
        }
    }

    /// How many lines of the pool it takes at most.
    pub(super) fn lines(&self, _of: &Scenario) -> u64 {
        match self {
            Workload::Lines(load) => load.lines + 1,
        }
    }
}
