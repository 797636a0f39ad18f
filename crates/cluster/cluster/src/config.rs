//! [`ClusterConfig`]: the settings of a cluster in one process, checked before anything starts.

use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_memnode::{Geometry, PoolSettings};
use latchwork_selcc::{ARENA_MAX, Settings};
use latchwork_verbs::ComputeNodeId;
use thiserror::Error;

/// The settings of a cluster in one process.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Compute nodes, 1 to 58.
    pub compute_nodes: usize,
    /// Memory nodes, 1 to 65536.
    pub memory_nodes: usize,
    /// Workers of each compute node.
    pub workers: usize,
    /// Operations that a worker has in flight at most.
    pub inflight: usize,
    /// Tasks that a worker of an embedded cluster polls in one sweep at most; 2 by default. On
    /// shared memory a doorbell costs next to nothing, and another node that waits for this one
    /// waits for the sweep's end. Means nothing to a simulated one, whose sweeps poll all that is
    /// ready. A line that was obtained is kept for its task for [`lapse`](Settings::lapse): with so
    /// many long operations in flight that a round of all tasks takes longer, a popular line may be
    /// gone again when its turn comes.
    pub sweep_tasks: usize,
    /// Bytes of each memory node.
    pub memory_bytes: u64,
    /// Bytes of each compute node's cache, all that belongs to it included.
    pub cache_bytes: usize,
    /// Lines that each compute node's cache holds. Where it is given, `cache_bytes` does not count.
    pub cache_frames: Option<usize>,
    /// Take all memory when an embedded cluster starts, which then takes longer, instead of at the
    /// first touch, which slows the first accesses down. Off by default. Means nothing to a
    /// simulated one.
    pub prefault: bool,
    /// Bytes of a line.
    pub line_size: u32,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// Seed of all that is random.
    pub seed: u64,
    /// What a sweep that made progress costs a worker of a simulated cluster, besides what its work
    /// costs. Means nothing to an embedded one.
    pub sweep_cost: Duration,
    /// Settings of each compute node.
    pub node: Settings,
    /// Settings of each compute node for its use of the pool.
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
            cache_bytes: 256 << 20,
            cache_frames: None,
            prefault: false,
            line_size: Geometry::DEFAULT_LINE,
            chunk_size: Geometry::DEFAULT_CHUNK,
            seed: 1,
            sweep_cost: Duration::from_nanos(100),
            node: Settings::default(),
            pool: PoolSettings::default(),
        }
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not 1 to 58 compute nodes.
    #[error(
        "{given} compute nodes are impossible: a latch word has room for 1 to {}",
        ComputeNodeId::MAX
    )]
    ComputeNodes {
        /// How many were asked for.
        given: usize,
    },
    /// Not 1 to 65536 memory nodes.
    #[error("{given} memory nodes are impossible: 1 to 65536 would do")]
    MemoryNodes {
        /// How many were asked for.
        given: usize,
    },
    /// No worker.
    #[error("a compute node needs at least one worker")]
    Workers,
    /// No operation in flight.
    #[error("a worker needs at least one operation in flight")]
    Inflight,
    /// The cache is too small.
    #[error(
        "a cache of {given} bytes is below the working minimum of {least} bytes, which is {frames} lines of {line_size} bytes"
    )]
    Cache {
        /// The bytes asked for.
        given: usize,
        /// The bytes that would do.
        least: usize,
        /// How many frames these are.
        frames: usize,
        /// The line size.
        line_size: u32,
    },
    /// The cache has too few lines.
    #[error("a cache of {given} lines is below the working minimum of {least} lines")]
    Frames {
        /// The lines asked for.
        given: usize,
        /// The lines that would do.
        least: usize,
    },
    /// The cache is too large.
    #[error("a cache of {given} bytes is too large: a message can name the frames of {most} bytes")]
    CacheTooLarge {
        /// The bytes asked for.
        given: usize,
        /// The bytes that would do.
        most: u64,
    },
    /// No such protocol.
    #[error("there is no protocol {given}: selcc and sel are possible")]
    Protocol {
        /// The name asked for.
        given: String,
    },
    /// The sizes of lines and chunks do not fit.
    #[error("{0}")]
    Geometry(String),
}

/// With fewer frames than this, even one operation could wait for ever for a second line.
const FRAMES_MIN: usize = 4;

impl ClusterConfig {
    /// Bytes of each compute node's cache, whichever way its size was given.
    pub fn cache_size(&self) -> usize {
        let Some(frames) = self.cache_frames else { return self.cache_bytes };
        let line_size = self.line_size.max(1) as usize;
        // `check` refuses more than that, and `footprint` must not overflow.
        let most = ARENA_MAX as usize / line_size + 1;
        Cache::footprint(frames.min(most), line_size)
    }

    /// The fewest bytes that a cache needs with these settings: a frame for each operation in
    /// flight, and then some.
    pub fn cache_bytes_min(&self) -> usize {
        Cache::footprint(self.frames_min(), self.line_size as usize)
    }

    pub(crate) fn frames_min(&self) -> usize {
        FRAMES_MIN
    }

    /// Checks everything that can be checked before memory is taken.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<Geometry, ConfigError> {
        if !(1..=usize::from(ComputeNodeId::MAX)).contains(&self.compute_nodes) {
            return Err(ConfigError::ComputeNodes { given: self.compute_nodes });
        }
        if !(1..=1 << 16).contains(&self.memory_nodes) {
            return Err(ConfigError::MemoryNodes { given: self.memory_nodes });
        }
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
}
