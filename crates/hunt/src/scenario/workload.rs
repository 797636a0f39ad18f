//! [`Workload`]: what the workers of a world do.

use latchwork_workload::properties::Properties;
use latchwork_workload::ycsb::{Builtin, CoreWorkload};
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
    /// Lines that are allocated, used, freed and allocated again.
    Memory(MemoryLoad),
    /// A core workload of YCSB on a B-link tree.
    Ycsb(YcsbLoad),
}

/// The kinds of workloads, for a choice among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkloadKind {
    /// [`Workload::Lines`].
    Lines,
    /// [`Workload::Tree`].
    Tree,
    /// [`Workload::Memory`].
    Memory,
    /// [`Workload::Ycsb`].
    Ycsb,
}

impl WorkloadKind {
    /// All there are.
    pub const ALL: [WorkloadKind; 4] =
        [WorkloadKind::Lines, WorkloadKind::Tree, WorkloadKind::Memory, WorkloadKind::Ycsb];
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

/// Lines that are allocated, used, freed and allocated again, by all nodes: a third of all operations each put
/// a new line into a slot, take one out and free it, and look at one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryLoad {
    /// Slots, each for one line. All stand on one line themselves.
    #[serde(deserialize_with = "within::<_, _, 1, 28>")]
    pub slots: u64,
}

impl Default for MemoryLoad {
    fn default() -> Self {
        MemoryLoad { slots: 8 }
    }
}

/// A core workload of YCSB on a B-link tree, with records of two fields of 16 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct YcsbLoad {
    /// Which: a to f.
    pub mix: String,
    /// Records that are there at first.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub records: u64,
    /// Entries of a page at most; 0 for as many as fit.
    #[serde(deserialize_with = "entries")]
    pub entries_per_page: u64,
}

impl Default for YcsbLoad {
    fn default() -> Self {
        YcsbLoad { mix: "a".to_owned(), records: 20, entries_per_page: 3 }
    }
}

impl YcsbLoad {
    /// The workload, as its properties describe it.
    pub(crate) fn workload(&self) -> Result<CoreWorkload, String> {
        let letters = "a, b, c, d, e and f would do";
        let builtin: Builtin =
            self.mix.parse().map_err(|_| format!("there is no mix {:?}: {letters}", self.mix))?;
        let mut properties = Properties::default();
        builtin.add_to(&mut properties).map_err(|error| error.to_string())?;
        let records = format!("recordcount={}", self.records);
        let others = ["fieldcount=2", "fieldlength=16", "maxscanlength=8", "dataintegrity=true"];
        for assignment in others.into_iter().chain([records.as_str()]) {
            properties.assign(assignment).map_err(|error| error.to_string())?;
        }
        let (workload, _) =
            CoreWorkload::from_properties(&properties).map_err(|error| error.to_string())?;
        Ok(workload)
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
            Workload::Memory(_) => WorkloadKind::Memory,
            Workload::Ycsb(_) => WorkloadKind::Ycsb,
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
            Workload::Tree(_) | Workload::Memory(_) => Ok(()),
            Workload::Ycsb(load) => {
                let problem = load.workload().err();
                problem.map_or(Ok(()), |text| Err(ScenarioError::of_key("workload.ycsb.mix", text)))
            }
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
            Workload::Ycsb(load) => {
                2 * load.records + 8 * tasks + of.total_operations().min(20_000) / 2
            }
            // Freed lines rest for a few ticks, and so few operations take no longer.
            Workload::Memory(load) => load.slots + 4 * tasks + of.total_operations().min(20_000),
        }
    }
}
