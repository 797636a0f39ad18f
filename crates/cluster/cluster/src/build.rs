//! What every embedded cluster is built from, whatever its fabric.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::{Cache, CacheError};
use latchwork_fabric::{Fabric, Inbox, Port};
use latchwork_memnode::{Catalogue, Epochs, Geometry, LineAllocator, Pool, PoolError};
use latchwork_runtime::{ExecutorConfig, Handle};
use latchwork_selcc::{Node, NodeParts, Worker};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, RegionKey, SetupError};
use thiserror::Error;

use crate::{ClusterConfig, ConfigError};

/// Why a cluster could not be started, or did not run to its end.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The configuration is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The fabric could not be built.
    #[error("the fabric could not be built: {0}")]
    Setup(#[from] SetupError),
    /// A cache could not be made.
    #[error("a cache could not be made: {0}")]
    Cache(#[from] CacheError),
    /// The memory pool could not be made.
    #[error("the memory pool could not be made: {0}")]
    Pool(#[from] PoolError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// A worker, or a handler, panicked. What it held in memory stays held: discard the cluster.
    #[error("{thread} panicked: {message}; discard the cluster")]
    Panicked {
        /// The thread: the node, from 1, and its worker, from 0.
        thread: String,
        /// What the panic said.
        message: String,
    },
    /// A worker could not leave in order.
    #[error("a worker could not leave: {0}")]
    Leave(#[from] latchwork_coherence::MemoryError),
    /// The simulated world ended before its workers.
    #[error("the simulated world ended before its workers did: {0}")]
    World(String),
}

impl ClusterError {
    /// A thread ended with the payload of this panic.
    pub fn panicked(thread: String, payload: &(dyn Any + Send)) -> ClusterError {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("(no message)").to_owned();
        ClusterError::Panicked { thread, message }
    }
}

/// Nodes that exist in the fabric, with their caches, before there is a pool.
pub(crate) struct Blueprint {
    geometry: Geometry,
    memory: Vec<(MemoryNodeId, u64)>,
    compute: Vec<(ComputeNodeId, Cache, RegionKey)>,
}

impl Blueprint {
    pub(crate) fn new(fabric: &Fabric, config: &ClusterConfig) -> Result<Self, ClusterError> {
        let geometry = config.check()?;
        let memory = (0..config.memory_nodes)
            .map(|_| {
                Ok((fabric.add_memory_node(config.memory_bytes as usize)?, config.memory_bytes))
            })
            .collect::<Result<_, SetupError>>()?;
        let compute = (1..=config.compute_nodes)
            .filter_map(|id| ComputeNodeId::new(id as u8))
            .map(|id| {
                let line_size = config.line_size as usize;
                let frames_min = config.frames_min();
                let make = |bytes| fabric.new_region(bytes).map_err(ClusterError::from);
                let cache =
                    Cache::with_memory_in(config.cache_size(), line_size, frames_min, make)?
                        .with_replacement(config.node.replacement_policy());
                fabric.add_compute_node(id)?;
                // Before any port registers its own memory: the key is the same on all nodes.
                let arena = fabric.register(id, cache.arena().clone())?;
                Ok((id, cache, arena))
            })
            .collect::<Result<_, ClusterError>>()?;
        Ok(Blueprint { geometry, memory, compute })
    }

    /// The node on which the pool is made.
    pub(crate) fn first(&self) -> ComputeNodeId {
        self.compute[0].0
    }

    /// Formats the pool, and makes the nodes.
    pub(crate) async fn build(
        self,
        port: &Port,
        config: &ClusterConfig,
    ) -> Result<Nodes, ClusterError> {
        let pool = Pool::format(port, &self.memory, self.geometry, config.seed).await?;
        let mut nodes = Vec::new();
        for (id, cache, arena) in self.compute {
            let epochs = Epochs::register(&pool, port, id, config.pool).await?;
            nodes.push(Node::new(NodeParts {
                id,
                cache,
                arena,
                geometry: self.geometry,
                allocator: LineAllocator::new(&epochs),
                epochs,
                settings: config.node.clone(),
            }));
        }
        Ok(Nodes { pool, nodes })
    }
}

/// The compute nodes of a cluster, and their pool.
pub(crate) struct Nodes {
    pub(crate) pool: Pool,
    pub(crate) nodes: Vec<Arc<Node>>,
}

/// One worker's place in the cluster, and what it works with.
#[derive(Clone)]
pub struct Member {
    /// Coherent memory, as this worker sees it.
    pub memory: Worker,
    /// Index of the compute node, from 0.
    pub node: usize,
    /// Index of the worker on its node, from 0.
    pub worker: usize,
    /// Index of the worker in the cluster, from 0.
    pub index: usize,
    /// The worker's executor.
    pub handle: Handle,
    /// The catalogue of named objects, through this worker's node.
    pub catalogue: Arc<Catalogue>,
}

impl Member {
    /// The worker, as its thread is called.
    pub fn name(&self) -> String {
        name_of_worker(self.node, self.worker)
    }

    pub(crate) fn start(
        (port, inbox): (Rc<Port>, Inbox),
        node: &Arc<Node>,
        pool: &Pool,
        place: (usize, usize, usize),
        handle: &Handle,
    ) -> Member {
        let memory = Worker::start(node, port, inbox, handle);
        let (node, worker, index) = place;
        let catalogue = Arc::new(pool.catalogue());
        Member { memory, node, worker, index, handle: handle.clone(), catalogue }
    }
}

/// What a worker's thread is called, of the node and the worker from 0.
pub(crate) fn name_of_worker(node: usize, worker: usize) -> String {
    format!("node{}-worker{worker}", node + 1)
}

pub(crate) fn worker_config(config: &ClusterConfig, index: usize) -> ExecutorConfig {
    ExecutorConfig {
        depth: config.inflight,
        sweep_cost: config.sweep_cost,
        yield_limit: yield_limit(config),
        seed: config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64),
        ..ExecutorConfig::default()
    }
}

/// How long a worker may be away while it offers its core, before it takes the core for contended.
///
/// Workers of this cluster that share a core take turns there, each for a fraction of a
/// millisecond. They must not take each other for foreign programs: a turn costs them less than a
/// wake.
fn yield_limit(config: &ClusterConfig) -> Duration {
    // A time slice of the kernel ends at a tick, every 1 to 4 ms. A longer limit would not notice
    // it.
    const MAX: Duration = Duration::from_millis(2);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let turns = (config.compute_nodes * config.workers).div_ceil(cores);
    let limit = ExecutorConfig::default().yield_limit;
    limit.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX)).min(MAX)
}

/// A handler parks as soon as it can: it only covers for workers that do not poll.
pub(crate) fn handler_config(config: &ClusterConfig, node: usize) -> ExecutorConfig {
    ExecutorConfig { spin_sweeps: 0, yield_sweeps: 2, ..worker_config(config, node + (1 << 32)) }
}
