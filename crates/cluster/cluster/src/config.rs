//! [`ClusterConfig`]: the settings of a cluster, and the checks before any memory is taken.

use std::str::FromStr;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_engine::NodeSettings;
use latchwork_homes::{HomeAt, HomeSettings, Percent, Rules};
use latchwork_memnode::{Geometry, PoolSettings};
use latchwork_selcc::SelccSettings;
use latchwork_verbs::ComputeNodeId;
use thiserror::Error;

use crate::protocol::{ARENA_MAX, Protocol};

/// The settings of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The number of compute nodes, 1 to 58.
    pub compute_nodes: usize,
    /// The number of memory nodes, 1 to 65536.
    pub memory_nodes: usize,
    /// The number of workers of each compute node.
    pub workers: usize,
    /// The highest number of operations that a worker has in flight.
    pub inflight: usize,
    /// The highest number of tasks that a worker polls in one sweep, by default 2. A simulated
    /// worker ignores this setting, because its sweeps poll all ready tasks.
    ///
    /// A doorbell on shared memory costs almost nothing, but other nodes wait for the end of a
    /// sweep. So few tasks per sweep are best. A worker keeps a line that arrived for a task for
    /// the time [`lapse`](NodeSettings::lapse). With many long operations in flight, one round of
    /// all tasks can take longer than that time. Then the node may lose a contended line before the
    /// line's task runs.
    pub sweep_tasks: usize,
    /// The size of each memory node in bytes.
    pub memory_bytes: u64,
    /// The size of the on-chip memory of each memory node's NIC in bytes, a multiple of 8. By
    /// default there is none. In a cluster of processes each memory node has a size of its own, and
    /// [`Port::extent`](latchwork_fabric::Port::extent) gives it.
    pub chip_bytes: u64,
    /// Whether each compute node shares the NIC of the memory node with its index, as on servers
    /// that have both. The two then also share the faults of a NIC. Only a simulation has NICs.
    pub colocate: bool,
    /// The size of each compute node's cache in bytes, with all its metadata.
    pub cache_bytes: usize,
    /// The number of lines in each compute node's cache. If it is set, `cache_bytes` is ignored.
    pub cache_frames: Option<usize>,
    /// Whether a process touches all its memory at the start of its nodes. The start then takes
    /// longer, and no page fault slows a first access. Off by default. A simulated cluster ignores
    /// this setting.
    pub prefault: bool,
    /// The size of a line in bytes.
    pub line_size: u32,
    /// The size of a chunk in bytes.
    pub chunk_size: u64,
    /// The seed of all random choices of the cluster.
    pub seed: u64,
    /// The CPU cost of a sweep that made progress, without the cost of the work in the sweep. Only
    /// simulated workers use this setting.
    pub sweep_cost: Duration,
    /// The protocol of the cluster.
    pub protocol: Protocol,
    /// The settings of each compute node. [`ClusterConfig::set`] sets these and the settings of the
    /// protocols by name.
    pub node: NodeSettings,
    /// The settings of each compute node that only SELCC and SEL have.
    pub selcc: SelccSettings,
    /// The settings of the agents and of the rules that only GAM and ScaleStore have.
    pub homes: HomeSettings,
    /// A mistake in the rules of GAM and ScaleStore that a test plants, to show that checks detect
    /// the harm.
    pub directory_plant: Option<fn(&mut Rules)>,
    /// The settings of each compute node's part of the memory pool.
    pub pool: PoolSettings,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        ClusterConfig {
            compute_nodes: 2,
            memory_nodes: 1,
            workers: 1,
            inflight: 8,
            sweep_tasks: 2,
            memory_bytes: 1 << 30,
            chip_bytes: 0,
            colocate: false,
            cache_bytes: 256 << 20,
            cache_frames: None,
            prefault: false,
            line_size: Geometry::DEFAULT_LINE,
            chunk_size: Geometry::DEFAULT_CHUNK,
            seed: 1,
            sweep_cost: Duration::from_nanos(100),
            protocol: Protocol::default(),
            node: NodeSettings::default(),
            selcc: SelccSettings::default(),
            homes: HomeSettings::default(),
            directory_plant: None,
            pool: PoolSettings::default(),
        }
    }
}

/// A mistake in a configuration. The text says which values are possible.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The number of compute nodes is not 1 to 58.
    #[error(
        "{given} compute nodes are impossible: a latch word has room for 1 to {}",
        ComputeNodeId::MAX
    )]
    ComputeNodes {
        /// The given number.
        given: usize,
    },
    /// The number of memory nodes is not 1 to 65536.
    #[error("{given} memory nodes are impossible: 1 to 65536 would do")]
    MemoryNodes {
        /// The given number.
        given: usize,
    },
    /// The agents of the memory nodes and the compute nodes are too many.
    #[error(
        "{protocol} with {given} compute and memory nodes is impossible: each memory node has an agent, and {} nodes and \
         agents have ids",
        ComputeNodeId::MAX
    )]
    Agents {
        /// The protocol.
        protocol: Protocol,
        /// The given number of nodes of both kinds.
        given: usize,
    },
    /// The homes are at compute nodes, and not each has a memory node.
    #[error(
        "home compute with {compute} compute and {memory} memory nodes is impossible: each compute node has one memory \
         node, so use {compute} memory nodes"
    )]
    ComputeHomes {
        /// The compute nodes.
        compute: usize,
        /// The memory nodes.
        memory: usize,
    },
    /// Compute nodes are to share NICs with memory nodes, and not each has a memory node.
    #[error(
        "colocate with {compute} compute and {memory} memory nodes is impossible: each compute node shares the NIC of one \
         memory node, so use {compute} memory nodes or more"
    )]
    Colocate {
        /// The compute nodes.
        compute: usize,
        /// The memory nodes.
        memory: usize,
    },
    /// Nodes share NICs only in a simulation.
    #[error("colocate needs a simulation: leave it out")]
    ColocateElsewhere,
    /// A setting of agents was changed, and there are none.
    #[error("{setting} needs agents: use home memory, or leave it out")]
    NoAgents {
        /// The setting.
        setting: &'static str,
    },
    /// The protocol lacks a setting that was changed.
    #[error("{protocol} has no setting {setting}: use {having}, or leave it out")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The protocol.
        protocol: Protocol,
        /// The protocols that have the setting.
        having: String,
    },
    /// Threads cannot get a part of a core.
    #[error("home-share {given} needs a simulation: use 100, or leave it out")]
    HomeShare {
        /// The given percentage.
        given: u32,
    },
    /// A process has a compute node or a memory node.
    #[error("home compute is for a cluster in one process: use home memory, or leave it out")]
    ComputeHomesElsewhere,
    /// There is no worker.
    #[error("a compute node needs at least one worker")]
    Workers,
    /// The limit of operations in flight is zero.
    #[error("a worker needs at least one operation in flight")]
    Inflight,
    /// The cache is too small.
    #[error(
        "a cache of {given} bytes is below the working minimum of {least} bytes, which is {frames} lines of {line_size} bytes"
    )]
    Cache {
        /// The given bytes.
        given: usize,
        /// The least bytes that suffice.
        least: usize,
        /// The number of frames in the least bytes.
        frames: usize,
        /// The line size.
        line_size: u32,
    },
    /// The cache has too few lines.
    #[error("a cache of {given} lines is below the working minimum of {least} lines")]
    Frames {
        /// The given lines.
        given: usize,
        /// The least lines that suffice.
        least: usize,
    },
    /// The cache is too large.
    #[error("a cache of {given} bytes is too large: a message can name the frames of {most} bytes")]
    CacheTooLarge {
        /// The given bytes.
        given: usize,
        /// The most bytes that are possible.
        most: u64,
    },
    /// The protocol does not exist.
    #[error("there is no protocol {given}: {} are possible", Protocol::names())]
    Protocol {
        /// The given name.
        given: String,
    },
    /// The sizes of lines and chunks do not fit together.
    #[error("{0}")]
    Geometry(String),
}

impl FromStr for Protocol {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name)
            .ok_or_else(|| ConfigError::Protocol { given: name.to_owned() })
    }
}

/// The fewest frames of a cache. With one frame, an operation could wait for its second line
/// forever.
const FRAMES_MIN: usize = 4;
const _: () = assert!(FRAMES_MIN >= 2, "an operation holds two lines at a time");

impl ClusterConfig {
    /// The size of each compute node's cache in bytes, from `cache_frames` or `cache_bytes`.
    pub(crate) fn cache_size(&self) -> usize {
        let Some(frames) = self.cache_frames else { return self.cache_bytes };
        let line_size = self.line_size.max(1) as usize;
        // `check` refuses more frames than this, so the bound changes no valid configuration. It
        // keeps `footprint` from an overflow.
        let most = ARENA_MAX as usize / line_size + 1;
        Cache::footprint(frames.min(most), line_size)
    }

    /// The fewest bytes of a cache with lines of this size: four frames and their metadata. Only
    /// `line_size` matters.
    pub(crate) fn cache_bytes_min(&self) -> usize {
        Cache::footprint(self.frames_min(), self.line_size as usize)
    }

    /// The handlers of each agent. An agent without one would serve no request.
    pub(crate) fn home_cores(&self) -> u8 {
        self.homes.home_cores.max(1)
    }

    /// Whether each compute node is the home of the lines of a memory node in its process.
    pub fn has_compute_homes(&self) -> bool {
        self.protocol.has_homes() && self.homes.home == HomeAt::Compute
    }

    /// What changes the rules of GAM and ScaleStore: the settings, and the mistake of a test.
    pub(crate) fn directory_changes(&self) -> (&HomeSettings, Option<fn(&mut Rules)>) {
        (&self.homes, self.directory_plant)
    }

    pub(crate) fn frames_min(&self) -> usize {
        FRAMES_MIN
    }

    /// The names of the counts that only the protocol of this cluster has
    /// ([`Counters::own`](latchwork_engine::Counters::own)).
    pub fn own_counts(&self) -> &'static [&'static str] {
        self.protocol.own_counts()
    }

    /// Checks everything that can be checked before memory is taken. Returns the geometry of the
    /// pool.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<Geometry, ConfigError> {
        if !(1..=usize::from(ComputeNodeId::MAX)).contains(&self.compute_nodes) {
            return Err(ConfigError::ComputeNodes { given: self.compute_nodes });
        }
        if !(1..=1 << 16).contains(&self.memory_nodes) {
            return Err(ConfigError::MemoryNodes { given: self.memory_nodes });
        }
        let ids = usize::from(ComputeNodeId::MAX);
        if self.has_compute_homes() {
            if self.compute_nodes != self.memory_nodes {
                let (compute, memory) = (self.compute_nodes, self.memory_nodes);
                return Err(ConfigError::ComputeHomes { compute, memory });
            }
        } else if self.protocol.has_homes() && self.compute_nodes + self.memory_nodes > ids {
            let (protocol, given) = (self.protocol, self.compute_nodes + self.memory_nodes);
            return Err(ConfigError::Agents { protocol, given });
        }
        if self.colocate && self.compute_nodes > self.memory_nodes {
            let (compute, memory) = (self.compute_nodes, self.memory_nodes);
            return Err(ConfigError::Colocate { compute, memory });
        }
        self.check_settings()?;
        if self.workers == 0 {
            return Err(ConfigError::Workers);
        }
        if self.inflight == 0 {
            return Err(ConfigError::Inflight);
        }
        let geometry = Geometry::new(self.chunk_size, self.line_size)
            .map_err(|error| ConfigError::Geometry(error.to_string()))?;
        if self.cache_frames.is_some_and(|frames| frames < self.frames_min()) {
            let given = self.cache_frames.unwrap_or_default();
            return Err(ConfigError::Frames { given, least: self.frames_min() });
        }
        let cache_bytes = self.cache_size();
        if cache_bytes < self.cache_bytes_min() {
            return Err(ConfigError::Cache {
                given: cache_bytes,
                least: self.cache_bytes_min(),
                frames: self.frames_min(),
                line_size: self.line_size,
            });
        }
        if cache_bytes as u64 > ARENA_MAX {
            return Err(ConfigError::CacheTooLarge { given: cache_bytes, most: ARENA_MAX });
        }
        Ok(geometry)
    }
}

/// Checks what threads cannot do, but a simulation can.
pub(crate) fn check_threads(config: &ClusterConfig) -> Result<(), ConfigError> {
    if config.colocate {
        return Err(ConfigError::ColocateElsewhere);
    }
    match config.homes.home_share {
        Percent::ALL => Ok(()),
        share => Err(ConfigError::HomeShare { given: share.get() }),
    }
}

/// Checks what a cluster of processes cannot do.
#[cfg(feature = "processes")]
pub(crate) fn check_processes(config: &ClusterConfig) -> Result<(), ConfigError> {
    check_threads(config)?;
    if config.has_compute_homes() { Err(ConfigError::ComputeHomesElsewhere) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(change: impl FnOnce(&mut ClusterConfig)) -> String {
        let mut config = ClusterConfig::default();
        change(&mut config);
        config.check().expect_err("a wrong configuration").to_string()
    }

    #[test]
    fn what_is_impossible_is_named_with_what_would_do() {
        assert!(ClusterConfig::default().check().is_ok());
        assert!(wrong(|c| c.compute_nodes = 0).contains("1 to 58"));
        assert!(wrong(|c| c.compute_nodes = 59).contains("1 to 58"));
        assert!(wrong(|c| c.memory_nodes = 0).contains("65536"));
        let many = |c: &mut ClusterConfig| {
            (c.protocol, c.compute_nodes, c.memory_nodes) = (Protocol::Gam, 40, 19);
        };
        assert!(wrong(many).contains("gam with 59 compute and memory nodes"), "{}", wrong(many));
        let few = |c: &mut ClusterConfig| (c.colocate, c.compute_nodes) = (true, 3);
        assert!(wrong(few).contains("use 3 memory nodes or more"), "{}", wrong(few));
        assert!(wrong(|c| c.workers = 0).contains("worker"));
        assert!(wrong(|c| c.inflight = 0).contains("flight"));
        assert!(wrong(|c| c.line_size = 1000).contains("power of two"));
        assert!(wrong(|c| c.cache_bytes = (256 << 30) + 1).contains("274877906944"));
        assert!(wrong(|c| c.cache_bytes = 4096).contains("working minimum"));
        assert!(
            wrong(|c| c.cache_frames = Some(3)).contains("3 lines is below the working minimum")
        );
        assert!(wrong(|c| c.cache_frames = Some(usize::MAX)).contains("274877906944"));
    }

    #[cfg(feature = "processes")]
    #[test]
    fn processes_have_homes_at_memory_nodes_and_whole_cores() {
        let mut config = ClusterConfig { protocol: Protocol::ScaleStore, ..Default::default() };
        config.set("chaining", "fifo").expect("a value");
        config.set("home-cores", "2").expect("a value");
        assert_eq!(check_processes(&config), Ok(()));
        for (setting, text) in [("home", "compute"), ("home-share", "50")] {
            let mut config = config.clone();
            config.set(setting, text).expect("a value");
            let line = check_processes(&config).expect_err("not everywhere").to_string();
            assert!(line.starts_with(setting) && line.contains("leave it out"), "{line}");
        }
    }

    #[test]
    fn a_cache_has_as_many_lines_as_were_asked_for_whatever_their_size() {
        for (line_size, frames) in [(512, 4), (2048, 100), (8192, 1000), (65536, 33)] {
            let cache_frames = Some(frames);
            let config = ClusterConfig { line_size, cache_frames, ..ClusterConfig::default() };
            config.check().expect("a good configuration");
            let (bytes, line_size) = (config.cache_size(), line_size as usize);
            let cache = Cache::with_memory(bytes, line_size, frames).expect("memory");
            assert_eq!(cache.capacity(), frames, "lines of {line_size} bytes");
        }
    }

    #[test]
    fn protocols_are_found_by_name() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
        }
        let error = "mesi".parse::<Protocol>().expect_err("no such protocol").to_string();
        assert!(error.contains("mesi") && error.contains("selcc") && error.contains("sel"));
    }
}
