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
    /// All operations of a B-link tree.
    Tree(TreeLoad),
}

/// The kinds of workloads, for a choice among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkloadKind {
    /// [`Workload::Lines`].
    Lines,
    /// [`Workload::Tree`].
    Tree,
}

impl WorkloadKind {
    /// All there are.
    pub const ALL: [WorkloadKind; 2] = [WorkloadKind::Lines, WorkloadKind::Tree];
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

/// All operations of a B-link tree: point reads, inserts, updates in whole and in part, removals, changes in
/// place, scans both ways.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TreeLoad {
    /// Keys are numbered below this.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub keys: u64,
    /// How many of them are there at first, loaded in bulk.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub loaded: u64,
    /// Of a hundred operations, how many are dropped at a random await.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// Entries of a page at most, so that pages split as often as they can; 0 for as many as fit.
    #[serde(deserialize_with = "entries")]
    pub entries_per_page: u64,
}

/// None, or as many as a page needs to be split.
fn entries<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let given = within::<_, u64, 0, 1_000>(deserializer)?;
    if given == 0 || given >= 3 {
        return Ok(given);
    }
    let text = format!(
        "{given} entries are too few to split a page: 0 for as many as fit, or 3 to 1000 would do"
    );
    Err(serde::de::Error::custom(text))
}

impl Default for TreeLoad {
    fn default() -> Self {
        TreeLoad { keys: 30, loaded: 0, dropped: 0, entries_per_page: 3 }
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
            Workload::Tree(_) => WorkloadKind::Tree,
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
            Workload::Tree(load) if load.loaded > load.keys => {
                let (loaded, keys) = (load.loaded, load.keys);
                let text =
                    format!("{loaded} of {keys} keys cannot be loaded: 0 to {keys} would do");
                Err(ScenarioError::of_key("workload.tree.loaded", text))
            }
            Workload::Tree(_) => Ok(()),
        }
    }

    /// How many lines of the pool it takes at most.
    pub(super) fn lines(&self, of: &Scenario) -> u64 {
        let tasks = (of.compute_nodes * of.workers * of.tasks) as u64;
        match self {
            Workload::Lines(load) => load.lines + 1,
            // A page has at least one entry of its own; every task may have lines in reserve, and freed
            // ones rest for a while.
            Workload::Tree(load) => 2 * load.keys + 8 * tasks,
        }
    }
}
