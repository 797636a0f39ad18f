//! [`Workload`]: the work of the workers of a world.

use std::time::Duration;

use latchwork_relaxed::{Consistency, WriteBufferSettings};
use latchwork_verbs::LINE_HEADER;
use latchwork_workload::properties::Properties;
use latchwork_workload::ycsb::{Builtin, CoreWorkload};
use serde::{Deserialize, Serialize};

use super::locks::LocksLoad;
use super::values::within;
use super::{Scenario, ScenarioError, TxnLoad};

/// The work of the workers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Reads, writes, upgrades and dropped accesses of single lines.
    Lines(LinesLoad),
    /// Lines that are written through write buffers.
    Buffered(BufferedLoad),
    /// Transactions that lock lines.
    Locks(LocksLoad),
    /// All operations of a B-link tree.
    Tree(TreeLoad),
    /// Lines that are allocated, used, freed and allocated again.
    Memory(MemoryLoad),
    /// A core workload of YCSB on a B-link tree.
    Ycsb(YcsbLoad),
    /// Boxes that come and go in an R-tree, and queries.
    Rtree(RtreeLoad),
    /// A B-link tree whose keys are queues.
    Queue(QueueLoad),
    /// Transactions over a table.
    Txn(TxnLoad),
}

/// The kinds of workloads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkloadKind {
    /// [`Workload::Lines`].
    Lines,
    /// [`Workload::Buffered`].
    Buffered,
    /// [`Workload::Tree`].
    Tree,
    /// [`Workload::Memory`].
    Memory,
    /// [`Workload::Ycsb`].
    Ycsb,
    /// [`Workload::Locks`].
    Locks,
    /// [`Workload::Rtree`].
    Rtree,
    /// [`Workload::Queue`].
    Queue,
    /// [`Workload::Txn`].
    Txn,
}

impl WorkloadKind {
    /// All kinds.
    pub const ALL: [WorkloadKind; 9] = [
        WorkloadKind::Lines,
        WorkloadKind::Buffered,
        WorkloadKind::Tree,
        WorkloadKind::Memory,
        WorkloadKind::Ycsb,
        WorkloadKind::Locks,
        WorkloadKind::Rtree,
        WorkloadKind::Queue,
        WorkloadKind::Txn,
    ];
}

/// Reads, writes, upgrades and dropped accesses of single lines. The rest of a hundred operations
/// reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinesLoad {
    /// The number of lines.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub lines: u64,
    /// Of a hundred operations, the number that writes.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub writes: u64,
    /// Of a hundred operations, the number that reads a line and then writes what it read.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub upgrades: u64,
    /// Of a hundred operations, the number that is dropped midway.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// Of a hundred operations, the number that adds to a counter by a global atomic.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub atomics: u64,
    /// Whether a few lines get most accesses (zipfian), or all lines the same number.
    pub zipfian: bool,
}

impl Default for LinesLoad {
    fn default() -> Self {
        LinesLoad { lines: 4, writes: 20, upgrades: 20, dropped: 10, atomics: 5, zipfian: false }
    }
}

/// The order in which the writes of one worker become visible; see
/// `latchwork_relaxed::Consistency`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScenarioStoreOrder {
    /// Total store order.
    #[default]
    Tso,
    /// Partial store order.
    Pso,
}

/// Lines that are written through write buffers, one buffer for each worker. The rest of a hundred
/// operations reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BufferedLoad {
    /// The number of lines.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000>")]
    pub lines: u64,
    /// The order in which writes become visible.
    pub order: ScenarioStoreOrder,
    /// Of a hundred operations, the number that writes.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub writes: u64,
    /// Of a hundred operations, the number of fences.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub fences: u64,
    /// Of a hundred operations, the number of atomic updates.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub updates: u64,
    /// Of a hundred operations, the number that is dropped after a short time.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// The writes whose lines are obtained at the same time.
    #[serde(deserialize_with = "within::<_, _, 1, 256>")]
    pub batch: u64,
    /// How long a write waits for other writes to fill its batch, in microseconds.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub linger_us: u64,
    /// The time after which an invisible write is lost, in microseconds. 0 means several times the
    /// deadline of an access; then a write is lost only if accesses may fail.
    #[serde(deserialize_with = "within::<_, _, 0, 600_000_000>")]
    pub write_deadline_us: u64,
    /// Whether a few lines get most accesses (zipfian), or all lines the same number.
    pub zipfian: bool,
}

impl Default for BufferedLoad {
    fn default() -> Self {
        BufferedLoad {
            lines: 4,
            order: ScenarioStoreOrder::Tso,
            writes: 50,
            fences: 3,
            updates: 3,
            dropped: 0,
            batch: 8,
            linger_us: 5,
            write_deadline_us: 0,
            zipfian: false,
        }
    }
}

impl BufferedLoad {
    /// The time of a write in deadlines of accesses, where no access may fail. A write waits for
    /// the writes before it.
    pub(crate) const PATIENCE: u32 = 4;

    /// The settings of the buffers.
    pub(crate) fn settings(&self, of: &Scenario) -> WriteBufferSettings {
        let deadline = match self.write_deadline_us {
            0 => Duration::from_micros(of.deadline_us) * Self::PATIENCE,
            given => Duration::from_micros(given),
        };
        let batch = self.batch as usize;
        let consistency = match self.order {
            ScenarioStoreOrder::Tso => Consistency::Tso,
            ScenarioStoreOrder::Pso => Consistency::Pso,
        };
        let linger = Duration::from_micros(self.linger_us);
        // The buffers are small, so that writers sometimes wait for room.
        WriteBufferSettings {
            consistency,
            deadline,
            linger,
            batch,
            entries: batch.max(8),
            ..WriteBufferSettings::default()
        }
    }

    fn check(&self, of: &Scenario) -> Result<(), ScenarioError> {
        let wrong = |key: &str, text: String| {
            Err(ScenarioError::of_key(&format!("workload.buffered{key}"), text))
        };
        let sum = self.writes + self.fences + self.updates;
        if sum > 100 {
            let text =
                format!("writes, fences and updates make {sum} of a hundred: at most 100 would do");
            return wrong("", text);
        }
        let (tasks, payload) =
            (of.compute_nodes * of.workers * of.tasks, of.line_size as usize - LINE_HEADER);
        if tasks > payload / 8 {
            let text = format!(
                "{tasks} tasks have no place in a line of {} bytes: up to {}, or larger lines, would do",
                of.line_size,
                payload / 8
            );
            return wrong("", text);
        }
        let fits = self.settings(of).check(payload);
        fits.or_else(|error| wrong(".linger_us", error.to_string()))
    }
}

/// All operations of a B-link tree: point reads, inserts, whole and partial updates, removals,
/// changes in place, and scans in both directions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TreeLoad {
    /// The number of keys.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub keys: u64,
    /// The number of keys that are there at first, loaded in bulk.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>")]
    pub loaded: u64,
    /// Of a hundred operations, the number that is dropped at a random await.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// The most entries of a page, so that pages split often; 0 for as many as fit.
    #[serde(deserialize_with = "entries")]
    pub entries_per_page: u64,
    /// The index.
    #[serde(skip_serializing_if = "TreeIndex::is_blink")]
    pub index: TreeIndex,
    /// The lock words of each chunk, for an index without a coherent cache; 0 for as many as there
    /// are.
    #[serde(deserialize_with = "within::<_, _, 0, 1_000_000>", skip_serializing_if = "is_zero")]
    pub locks: u64,
}

/// The index of the workload `tree`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeIndex {
    /// The B-link tree over coherent memory.
    #[default]
    Blink,
    /// Sherman's tree, with a check of torn reads that is right.
    Sherman,
    /// Sherman's tree with the published check, which misses torn reads.
    Published,
    /// FG+.
    FgPlus,
    /// FG.
    Fg,
}

impl TreeIndex {
    /// All indexes.
    pub const ALL: [TreeIndex; 5] = [
        TreeIndex::Blink,
        TreeIndex::Sherman,
        TreeIndex::Published,
        TreeIndex::FgPlus,
        TreeIndex::Fg,
    ];

    fn is_blink(&self) -> bool {
        *self == TreeIndex::Blink
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// 0, or at least as many entries as a page needs to be split.
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
        TreeLoad {
            keys: 30,
            loaded: 0,
            dropped: 0,
            entries_per_page: 3,
            index: TreeIndex::Blink,
            locks: 0,
        }
    }
}

/// A B-link tree whose keys are queues, one range of keys after the other. Each queue gets its keys
/// in ascending order, and loses the lowest ones, so leaves become empty all the time. After its
/// last key a queue begins again at its first, where removals have emptied the leaves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueLoad {
    /// The number of keys of all queues.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub keys: u64,
    /// The number of queues.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000>")]
    pub queues: u64,
    /// Of a hundred operations, the number that is dropped at a random await.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// The most entries of a page, so that pages split often; 0 for as many as fit.
    #[serde(deserialize_with = "entries")]
    pub entries_per_page: u64,
}

impl Default for QueueLoad {
    fn default() -> Self {
        QueueLoad { keys: 40, queues: 2, dropped: 0, entries_per_page: 3 }
    }
}

impl QueueLoad {
    /// The tree that holds the queues.
    pub(crate) fn tree(&self) -> TreeLoad {
        let QueueLoad { keys, dropped, entries_per_page, .. } = *self;
        TreeLoad { keys, dropped, entries_per_page, ..TreeLoad::default() }
    }
}

/// Boxes that come and go in an R-tree, and queries of all kinds. Each box has one task that
/// inserts it; any task removes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RtreeLoad {
    /// The number of boxes.
    #[serde(deserialize_with = "within::<_, _, 1, 10_000>")]
    pub boxes: u64,
    /// Of a hundred operations, the number that is dropped at a random await.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub dropped: u64,
    /// The most entries of a page, so that pages split often; 0 for as many as fit.
    #[serde(deserialize_with = "entries")]
    pub entries_per_page: u64,
}

impl Default for RtreeLoad {
    fn default() -> Self {
        RtreeLoad { boxes: 40, dropped: 0, entries_per_page: 3 }
    }
}

/// Lines that are allocated, used, freed and allocated again, by all nodes. A third of the
/// operations puts a new line into a slot. A third takes a line out and frees it, and a third reads
/// one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryLoad {
    /// The number of slots, each for one line. All slots are in one line of their own.
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
    /// The name of the workload, such as a or write-only.
    pub mix: String,
    /// The records that are there at first.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub records: u64,
    /// The most entries of a page; 0 for as many as fit.
    #[serde(deserialize_with = "entries")]
    pub entries_per_page: u64,
}

impl Default for YcsbLoad {
    fn default() -> Self {
        YcsbLoad { mix: "a".to_owned(), records: 20, entries_per_page: 3 }
    }
}

impl YcsbLoad {
    /// The workload with its properties.
    pub(crate) fn workload(&self) -> Result<CoreWorkload, String> {
        let parsed = self.mix.parse::<Builtin>();
        let builtin =
            parsed.map_err(|error| format!("there is no mix {:?}: it {error}", self.mix))?;
        let mut properties = Properties::default();
        builtin.add_to(&mut properties).map_err(|error| error.to_string())?;
        let records = format!("recordcount={}", self.records);
        let others = [
            "fieldcount=2",
            "fieldlength=16",
            "minscanlength=1",
            "maxscanlength=8",
            "dataintegrity=true",
        ];
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
    /// The kind of the workload.
    pub fn kind(&self) -> WorkloadKind {
        match self {
            Workload::Lines(_) => WorkloadKind::Lines,
            Workload::Buffered(_) => WorkloadKind::Buffered,
            Workload::Locks(_) => WorkloadKind::Locks,
            Workload::Tree(_) => WorkloadKind::Tree,
            Workload::Memory(_) => WorkloadKind::Memory,
            Workload::Ycsb(_) => WorkloadKind::Ycsb,
            Workload::Rtree(_) => WorkloadKind::Rtree,
            Workload::Queue(_) => WorkloadKind::Queue,
            Workload::Txn(_) => WorkloadKind::Txn,
        }
    }

    pub(super) fn check(&self, of: &Scenario) -> Result<(), ScenarioError> {
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
            Workload::Buffered(load) => load.check(of),
            Workload::Locks(load) => load.check(of),
            Workload::Txn(load) => load.check(),
            Workload::Tree(load) if load.loaded > load.keys => {
                let (loaded, keys) = (load.loaded, load.keys);
                let text =
                    format!("{loaded} of {keys} keys cannot be loaded: 0 to {keys} would do");
                Err(ScenarioError::of_key("workload.tree.loaded", text))
            }
            Workload::Queue(load) if load.queues > load.keys => {
                let (queues, keys) = (load.queues, load.keys);
                let text =
                    format!("{queues} queues cannot share {keys} keys: 1 to {keys} would do");
                Err(ScenarioError::of_key("workload.queue.queues", text))
            }
            Workload::Tree(_) | Workload::Queue(_) | Workload::Memory(_) | Workload::Rtree(_) => {
                Ok(())
            }
            Workload::Ycsb(load) => {
                let problem = load.workload().err();
                problem.map_or(Ok(()), |text| Err(ScenarioError::of_key("workload.ycsb.mix", text)))
            }
        }
    }

    /// The most lines of the pool that the workload takes.
    pub(super) fn lines(&self, of: &Scenario) -> u64 {
        let tasks = (of.compute_nodes * of.workers * of.tasks) as u64;
        match self {
            Workload::Lines(load) => load.lines + 1,
            Workload::Buffered(load) => load.lines,
            Workload::Locks(load) => load.lines,
            // A page has at least one entry of its own. Each task may have lines in reserve, and
            // freed lines are not reused at once.
            Workload::Tree(load) => 2 * load.keys + 8 * tasks,
            Workload::Ycsb(load) => {
                2 * load.records + 8 * tasks + of.total_operations().min(20_000) / 2
            }
            Workload::Rtree(load) => 2 * load.boxes + 8 * tasks + of.total_operations().min(20_000),
            // Each append may take a line, and each removal may free one.
            Workload::Queue(load) => 2 * load.keys + 8 * tasks + of.total_operations().min(20_000),
            Workload::Txn(load) => load.lines(of, tasks),
            // Freed lines are not reused for a few ticks, and this small number of operations takes
            // no longer.
            Workload::Memory(load) => load.slots + 4 * tasks + of.total_operations().min(20_000),
        }
    }
}
