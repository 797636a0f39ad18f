//! [`Scenario`]: the complete description of a world.
//!
//! A scenario file is TOML. A missing key has the value of [`Scenario::default`].
//!
//! ```
//! use latchwork_hunt::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     seed = 12
//!     compute_nodes = 4
//!     network = "rough"
//!     [workload.lines]
//!     lines = 3
//!     writes = 60
//!     [faults]
//!     delay_one_in = 20
//!     "#,
//! )?;
//! assert_eq!(scenario.compute_nodes, 4);
//! let error = Scenario::parse("seed = 1\ncompute_nodes = 80").unwrap_err().to_string();
//! assert_eq!(error, "line 2: compute_nodes: 80 is out of range: 1 to 58 would do");
//! # Ok::<(), latchwork_hunt::ScenarioError>(())
//! ```

mod checks;
mod error;
mod faults;
mod locks;
mod network;
mod parse;
mod seeded_bug;
mod swarm;
mod txn;
mod values;
mod variants;
mod workload;

pub use checks::Checks;
pub use error::ScenarioError;
pub use faults::FaultPlan;
pub use locks::LocksLoad;
pub use network::Network;
pub use seeded_bug::SeededBug;
pub use swarm::SwarmChoice;
pub use txn::TxnLoad;
pub use variants::{Overrides, Vary, in_words, variants};
pub use workload::{
    BufferedLoad, LinesLoad, MemoryLoad, QueueLoad, RtreeLoad, ScenarioStoreOrder, TreeIndex,
    TreeLoad, Workload, WorkloadKind, YcsbLoad,
};

use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Protocol};
use latchwork_memnode::Geometry;
use latchwork_workload::random::WorkloadRandom;
use serde::{Deserialize, Serialize};

use values::within;

/// The complete description of a world: the scenario and the code decide all its events.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of compute nodes, 1 to 58.
    #[serde(deserialize_with = "within::<_, _, 1, 58>")]
    pub compute_nodes: usize,
    /// The number of memory nodes, 1 to 64.
    #[serde(deserialize_with = "within::<_, _, 1, 64>")]
    pub memory_nodes: usize,
    /// The workers of each compute node, 1 to 64.
    #[serde(deserialize_with = "within::<_, _, 1, 64>")]
    pub workers: usize,
    /// The tasks of each worker, 1 to 64. A task does one operation after the other.
    #[serde(deserialize_with = "within::<_, _, 1, 64>")]
    pub tasks: usize,
    /// The operations of each task.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000_000>")]
    pub operations: u64,
    /// The coherence protocol.
    #[serde(with = "values::protocol")]
    pub protocol: Protocol,
    /// The times of the network.
    pub network: Network,
    /// The frames of each compute node's cache, at least 4. Where the workload `txn` needs more, as
    /// many as it needs.
    #[serde(deserialize_with = "within::<_, _, 4, 1_048_576>")]
    pub frames: usize,
    /// The size of a line in bytes, a power of two from 512 to 65536.
    #[serde(deserialize_with = "values::line_size")]
    pub line_size: u32,
    /// The deadline of an access to a line, in microseconds.
    #[serde(deserialize_with = "within::<_, _, 100, 600_000_000>")]
    pub deadline_us: u64,
    /// The seeded bug of the world, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plant: Option<SeededBug>,
    /// The checks of the world.
    #[serde(skip_serializing_if = "Checks::are_all")]
    pub checks: Checks,
    /// READs and WRITEs copy only the first bytes of their payloads, which makes worlds fast enough
    /// to measure the simulator itself. The contents of lines are then wrong, so this needs `checks
    /// = "none"` and the workload `lines`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub elide_payloads: bool,
    /// The settings of the protocol that differ from the defaults, by name.
    #[serde(skip_serializing_if = "Overrides::is_empty")]
    pub settings: Overrides,
    /// The workload of the workers.
    pub workload: Workload,
    /// The faults of the world.
    pub faults: FaultPlan,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            seed: 1,
            compute_nodes: 3,
            memory_nodes: 1,
            workers: 1,
            tasks: 2,
            operations: 40,
            protocol: Protocol::default(),
            network: Network::Calm,
            frames: 8,
            line_size: 512,
            deadline_us: 20_000,
            plant: None,
            checks: Checks::All,
            elide_payloads: false,
            settings: Overrides::new(),
            workload: Workload::default(),
            faults: FaultPlan::default(),
        }
    }
}

/// The number of the random stream that decides whether the network reports unsent batches.
const TELLS: u64 = (1 << 40) + 15;

/// The number of the random stream that decides up to which length a WRITE is whole.
const WHOLE_WRITES: u64 = (1 << 40) + 19;

/// The lengths in bytes up to which a WRITE is whole: on shared memory, RDMA devices and sockets.
const WHOLE: [u32; 3] = [8, 256, 256 << 10];

/// The smallest chunk size, in bytes. Chunks are small, so that several nodes have chunks even in a
/// small pool.
const CHUNK_MIN: u64 = Geometry::MIN_CHUNK;

/// The minimum number of lines of a chunk. For large lines, the chunk size follows from it.
const LINES_PER_CHUNK_MIN: u64 = 32;

/// An upper bound of the lines of a chunk that the workload cannot use: the latch table, and the
/// reserve of the chunk's owner.
const LINES_LOST_PER_CHUNK: u64 = 8;
const _: () = assert!(LINES_PER_CHUNK_MIN > LINES_LOST_PER_CHUNK, "a chunk without a line of use");

impl Scenario {
    /// Parses a scenario file.
    ///
    /// # Errors
    /// The first mistake, with its line and the valid values. Mistakes are text that is not TOML,
    /// unknown keys, values out of range, and values that do not fit together.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        parse::parse(text)
    }

    /// The scenario as the text of a file.
    pub fn to_toml(&self) -> String {
        parse::to_toml(self)
    }

    /// Checks each value against its range, and all values together.
    ///
    /// # Errors
    /// The first value that is out of range or does not fit.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |key: &str, text: String| Err(ScenarioError::of_key(key, text));
        // A program may have built this scenario without a file, so the ranges are checked here,
        // too.
        parse::values(self)?;
        if self.faults.departures() as usize >= self.compute_nodes {
            let most = self.compute_nodes - 1;
            let given = self.faults.departures();
            let key = if self.faults.lapses > 0 { "faults.lapses" } else { "faults.deaths" };
            return wrong(
                key,
                format!(
                    "{given} of {} compute nodes cannot die and leave one to look: 0 to {most} would do",
                    self.compute_nodes
                ),
            );
        }
        if self.faults.lost_memory as usize > self.memory_nodes {
            let (given, most) = (self.faults.lost_memory, self.memory_nodes);
            return wrong(
                "faults.lost_memory",
                format!("{given} memory nodes cannot be lost: there are {most}"),
            );
        }
        if self.faults.lost_memory > 0 && self.has_compute_homes() {
            return wrong(
                "faults.lost_memory",
                "with home = compute, memory is lost with its compute node: deaths would do".into(),
            );
        }
        if self.elide_payloads && self.checks != Checks::None {
            return wrong(
                "elide_payloads",
                "what is not copied cannot be checked: checks = \"none\" would do".into(),
            );
        }
        if self.elide_payloads && !matches!(self.workload, Workload::Lines(_)) {
            return wrong(
                "elide_payloads",
                "this workload needs what it reads: the workload lines would do".into(),
            );
        }
        if self.faults.until_us == 0 && self.faults.any() {
            return wrong(
                "faults.until_us",
                "with faults, it must be more than 0: the time for which they strike".into(),
            );
        }
        let mut settings = ClusterConfig { protocol: self.protocol, ..ClusterConfig::default() };
        for (name, value) in &self.settings {
            let key = format!("settings.{name}");
            if let Err(error) = settings.set(name, value) {
                return wrong(&key, error.to_string());
            }
            if let Err(error) = settings.check_setting(name) {
                return wrong(&key, error.to_string());
            }
        }
        self.network.config()?;
        self.workload.check(self)?;
        self.config()
            .check()
            .map_err(|error| ScenarioError::of_key("line_size", error.to_string()))?;
        Ok(())
    }

    /// Whether each compute node is the home of the lines of its own memory node. The number of
    /// memory nodes is then that of the compute nodes, whatever `memory_nodes` is.
    pub(crate) fn has_compute_homes(&self) -> bool {
        self.protocol.has_homes() && self.settings.get("home").is_some_and(|at| at == "compute")
    }

    /// Whether faults lose memory nodes.
    pub(crate) fn loses_memory(&self) -> bool {
        let plan = &self.faults;
        plan.lost_memory > 0 || self.has_compute_homes() && plan.departures() > 0
    }

    /// Whether the lines of dead nodes are recovered, so that no operation of a survivor may fail.
    pub(crate) fn recovers(&self) -> bool {
        let survives = self.settings.get("survive").is_some_and(|value| value == "on");
        survives && !self.protocol.has_homes() && !self.loses_memory() && self.faults.told_us > 0
    }

    /// The length in bytes up to which a WRITE is whole, if its sender dies or its connection
    /// fails. Where no line is recovered, a failing connection may tear any WRITE.
    pub(crate) fn whole_write(&self) -> u32 {
        let draw = || WorkloadRandom::for_stream(self.seed, WHOLE_WRITES).below(WHOLE.len() as u64);
        if self.recovers() { WHOLE[draw() as usize] } else { u32::MAX }
    }

    /// Whether operations may fail, because the protocol cannot hide some of the faults.
    pub(crate) fn may_fail_operations(&self) -> bool {
        let plan = self.faults.clone();
        match self.recovers() {
            true => FaultPlan { deaths: 0, lapses: 0, ..plan }.may_fail_operations(),
            false => plan.may_fail_operations(),
        }
    }

    /// The number of operations of all tasks.
    pub fn total_operations(&self) -> u64 {
        self.tasks_in_all() as u64 * self.operations
    }

    /// The number of tasks, with those of nodes that replace others.
    pub(crate) fn tasks_in_all(&self) -> usize {
        self.compute_nodes_in_all() * self.workers * self.tasks
    }

    /// The number of compute nodes, with those that replace others.
    fn compute_nodes_in_all(&self) -> usize {
        let may_return = self.recovers();
        self.compute_nodes + if may_return { self.faults.replacements as usize } else { 0 }
    }

    /// The number of frames, with those that the workload needs at least.
    pub(crate) fn frames_at_least(&self) -> usize {
        match &self.workload {
            Workload::Txn(load) => self.frames.max(load.frames_min(self.workers * self.tasks)),
            _ => self.frames,
        }
    }

    /// Whether the network reports batches that the network did not send. This is so in about half
    /// of the worlds with death notices.
    pub(crate) fn tells_unsent(&self) -> bool {
        self.faults.told_us > 0 && WorkloadRandom::for_stream(self.seed, TELLS).below(2) == 0
    }

    /// The configuration of this world's cluster.
    pub(crate) fn config(&self) -> ClusterConfig {
        let line = u64::from(self.line_size);
        let chunk_size = CHUNK_MIN.max(line * LINES_PER_CHUNK_MIN);
        let lines_per_chunk = chunk_size / line - LINES_LOST_PER_CHUNK;
        // Beside the data, each compute node may need two chunks of its own. Two more chunks for
        // each memory node are spare. The pool itself uses one chunk of the first memory node.
        let data = self.workload.lines(self).div_ceil(lines_per_chunk);
        let chunks = 2 * self.compute_nodes_in_all() as u64 + data;
        let memory_nodes =
            if self.has_compute_homes() { self.compute_nodes } else { self.memory_nodes };
        // With a journal, a chunk of each memory node for each compute node.
        let all = self.compute_nodes_in_all();
        let journals = if self.whole_write() < self.line_size { all } else { 0 };
        let each = chunks.div_ceil(memory_nodes as u64) + 2 + journals as u64;
        let mut config = ClusterConfig {
            compute_nodes: self.compute_nodes,
            memory_nodes,
            workers: self.workers,
            inflight: self.tasks.max(1),
            memory_bytes: each * chunk_size,
            cache_bytes: Cache::footprint(self.frames_at_least(), self.line_size as usize),
            line_size: self.line_size,
            chunk_size,
            seed: self.seed,
            ..ClusterConfig::default()
        };
        config.protocol = self.protocol;
        let deadline = Duration::from_micros(self.deadline_us);
        (config.node.deadline, config.pool.deadline) = (deadline, deadline);
        for (name, value) in &self.settings {
            // `check` reports settings that are not valid.
            let _ = config.set(name, value);
        }
        if let Some(plant) = self.plant {
            plant.change(&mut config);
        }
        config
    }
}
