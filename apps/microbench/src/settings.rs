//! The settings of a run, checked before any process or thread starts.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::ClusterConfig;
use latchwork_coherence::MemoryError;
use latchwork_harness::driver::{Common, MemoryNeed, PoolSize};
use latchwork_harness::{AppError, FabricChoice, MIB, Plan, Warmup};
use latchwork_memnode::Geometry;
use latchwork_relaxed::WriteBufferSettings as RelaxedSettings;
use latchwork_verbs::LINE_HEADER;
use latchwork_workload::micro::{ItemLayout, MicroConfig, MicroWorkload, Popularity, WriteKind};
use serde_json::{Value, json};

use crate::args::{Flags, WarmupFlag};

/// Workers of each node in a simulation. The number is fixed, so that the figures do not depend on
/// the machine's cores.
const THREADS_SIMULATED: usize = 8;

/// Memory nodes on real fabrics. With two of them, lines are on more than one memory node.
const MEMORY_NODES_DEFAULT: usize = 2;

/// Operations to measure if the run has no limit.
const OPERATIONS_DEFAULT: u64 = 200_000;

/// The part of its lines that a node can cache: 8 GB of 48 GB, as in the paper (SELCC 7.1).
const CACHE_SHARE_DEFAULT: f64 = 1.0 / 6.0;

/// The flag for less memory.
const LESS: &str = "fewer --lines";

/// All settings of a run.
pub(crate) struct Settings {
    pub(crate) common: Common,
    pub(crate) workload: MicroWorkload,
    pub(crate) layout: ItemLayout,
    /// The settings of the workers' write buffers.
    pub(crate) relaxed: RelaxedSettings,
    pub(crate) plan: Plan,
    pub(crate) series: Option<Duration>,
}

impl Settings {
    /// Combines the flags.
    ///
    /// # Errors
    /// One line about the first impossible setting, with valid values.
    pub(crate) fn new(flags: Flags) -> Result<Settings, AppError> {
        let mut common = flags.common.common()?;
        let payload = flags.common.cluster.gcl_size as usize - LINE_HEADER;
        let items = payload / flags.item_size;
        let layout = ItemLayout::new(flags.item_size).filter(|_| items > 0).ok_or_else(|| {
            AppError::Usage(format!(
                "--item-size {}: use a multiple of 8 up to {payload}, which is what a line of {} bytes has room for",
                flags.item_size, flags.common.cluster.gcl_size
            ))
        })?;
        let workload = MicroWorkload::new(MicroConfig {
            lines: flags.lines,
            scale: flags.scale,
            items_per_line: items as u64,
            nodes: flags.common.cluster.compute_nodes as u64,
            reads: flags.reads / 100.0,
            writer_nodes: flags.writer_nodes,
            sharing: flags.sharing / 100.0,
            temporal: flags.locality / 100.0,
            spatial: flags.spatial / 100.0,
            popularity: match flags.theta {
                None => Popularity::Uniform,
                Some(theta) => Popularity::Zipfian { theta },
            },
            writes: flags.writes.into(),
        })?;
        let relaxed = relaxed(&flags, &common.fabric, payload)?;
        common.cluster = cluster(&flags, &common.fabric, &workload)?;
        if flags.common.cluster.memory_mb.is_none() {
            common.pool = PoolSize::Estimated;
        }
        let lines = workload.lines();
        let need = MemoryNeed {
            what: format!("{lines} lines"),
            least: lines.saturating_mul(u64::from(common.cluster.line_size)),
            enough: 0,
            beside: 0,
            hint: LESS,
        };
        need.check(&common)?;
        let cluster = &common.cluster;
        let window = || (frames(cluster) * cluster.compute_nodes as u64).max(10_000);
        let warmup = match flags.warmup {
            WarmupFlag::Operations(operations) => Warmup::Operations(operations),
            WarmupFlag::Auto => Warmup::Steady { window: window() },
        };
        let none = flags.operations.is_none() && flags.time.is_none();
        let operations = flags.operations.or(none.then_some(OPERATIONS_DEFAULT));
        let plan = Plan { warmup, operations, time: flags.time };
        let series = flags.series_us.map(Duration::from_micros);
        Ok(Settings { common, workload, layout, relaxed, plan, series })
    }

    /// The number of clients of all workers.
    pub(crate) fn clients(&self) -> usize {
        self.common.workers() * self.common.cluster.inflight
    }

    /// The error that ends a run when memory fails.
    pub(crate) fn memory_error(&self, error: &MemoryError) -> AppError {
        match error {
            MemoryError::OutOfMemory(_) => {
                self.common.out_of_memory("", 2 * self.common.cluster.memory_bytes, LESS)
            }
            error => AppError::Failed(format!("memory failed: {error}")),
        }
    }

    /// The settings for a result document.
    pub(crate) fn describe(&self) -> BTreeMap<String, Value> {
        let (micro, relaxed) = (self.workload.config(), &self.relaxed);
        let buffers = relaxed.consistency.buffers();
        let (popularity, theta) = match micro.popularity {
            Popularity::Uniform => ("uniform", None),
            Popularity::Zipfian { theta } => ("zipfian", Some(theta)),
        };
        let micros = |time: Duration| time.as_micros() as u64;
        self.common.describe(json!({
            "lines": micro.lines,
            "scale": micro.scale,
            "item_bytes": self.layout.bytes(),
            "reads": micro.reads,
            "writer_nodes": micro.writer_nodes,
            "sharing": micro.sharing,
            "temporal_locality": micro.temporal,
            "spatial_locality": micro.spatial,
            "cache_frames": frames(&self.common.cluster),
            "warmup": match self.plan.warmup {
                Warmup::Operations(operations) => json!(operations),
                _ => json!("auto"),
            },
            "consistency": relaxed.consistency.name(),
            "write_batch": buffers.then_some(relaxed.batch),
            "write_deadline_us": buffers.then(|| micros(relaxed.deadline)),
            "writes": match micro.writes {
                WriteKind::Locked => "locked",
                WriteKind::Blind => "blind",
            },
            "popularity": popularity,
            "theta": theta,
            "operations": self.plan.operations,
            "time_s": self.plan.time.map(|time| time.as_secs_f64()),
            "series_us": self.series.map(micros),
        }))
    }
}

/// The settings of the workers' write buffers.
fn relaxed(
    flags: &Flags,
    fabric: &FabricChoice,
    payload: usize,
) -> Result<RelaxedSettings, AppError> {
    let (consistency, deadline, batch) =
        (flags.consistency, flags.write_deadline, flags.write_batch);
    if consistency.buffers() && WriteKind::from(flags.writes) == WriteKind::Locked {
        return Err(AppError::Usage(format!(
            "--consistency {consistency}: locked writes have to see the line first; use --writes blind"
        )));
    }
    let default = RelaxedSettings::default();
    let settings = RelaxedSettings {
        consistency,
        deadline,
        linger: default.linger.min(deadline / 2),
        batch,
        entries: default.entries.max(4 * batch),
        bytes: default.bytes.max(4 * batch * payload),
        cost: match fabric {
            FabricChoice::Sim(nic) => Duration::from_nanos(nic.cpu.hit_ns),
            _ => Duration::ZERO,
        },
        ..default
    };
    let wrong = |error| AppError::Usage(format!("--consistency {consistency}: {error}"));
    settings.check(payload).map_err(wrong)?;
    Ok(settings)
}

/// The approximate number of frames of each compute node's cache.
pub(crate) fn frames(cluster: &ClusterConfig) -> u64 {
    let line = cluster.line_size as usize;
    let thousand = Cache::footprint(1001, line) - Cache::footprint(1, line);
    (cluster.cache_bytes * 1000 / thousand.max(1)) as u64
}

fn cluster(
    flags: &Flags,
    fabric: &FabricChoice,
    workload: &MicroWorkload,
) -> Result<ClusterConfig, AppError> {
    let threads = flags.common.threads(fabric, THREADS_SIMULATED);
    let mut cluster = flags.common.cluster.clone();
    if !flags.cache_in_mib {
        let share = flags.cache_share.unwrap_or(CACHE_SHARE_DEFAULT);
        // The limit on the share avoids frames that would have no use.
        let lines = (share.min(2.0) * flags.lines as f64).ceil() as usize;
        let frames = lines.max(64);
        cluster.cache_mb = Cache::footprint(frames, cluster.gcl_size as usize) as f64 / MIB as f64;
    }
    if !matches!(fabric, FabricChoice::Sim(_)) {
        cluster.memory_nodes.get_or_insert(MEMORY_NODES_DEFAULT);
    }
    let chunk_size = chunk_size(cluster.gcl_size);
    let mut config =
        cluster.config(threads, fabric, |config| memory_bytes(workload.lines(), config))?;
    config.chunk_size = chunk_size;
    config.pool.stripes = cluster.stripes.unwrap_or(config.memory_nodes);
    Ok(config)
}

/// The size of a chunk: 512 lines, including the chunk's latch table. Such chunks are small enough
/// to spread a data set of any size evenly over the memory nodes. They are large enough that the
/// latch words of a chunk cover all buckets of a NIC with 12 bits of buckets (Sherman 3.2.2).
fn chunk_size(line_size: u32) -> u64 {
    (512 * u64::from(line_size)).max(Geometry::MIN_CHUNK)
}

/// The number of lines to allocate, so that each memory node has its part of `lines`. Compute nodes
/// take lines from the memory nodes in turn, but not all in step.
pub(crate) fn allocated(lines: u64, config: &ClusterConfig) -> u64 {
    lines + 2 * (config.compute_nodes * config.memory_nodes) as u64
}

/// The size of each memory node, in bytes, with room for all lines.
fn memory_bytes(lines: u64, config: &ClusterConfig) -> u64 {
    let (nodes, memory_nodes) = (config.compute_nodes as u64, config.memory_nodes as u64);
    let lines_each = allocated(lines, config).div_ceil(nodes * memory_nodes) + 1;
    // A chunk of 512 lines has at least 500 lines besides its table.
    let chunks = nodes * lines_each.div_ceil(500) + 2;
    let bytes = chunks * chunk_size(config.line_size);
    bytes.max(2 * config.chunk_size)
}
