//! [`ClusterError`], [`Member`] and the executor settings, for all kinds of clusters. [`Blueprint`]
//! builds the nodes and the pool of a cluster in one process.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::{Cache, CacheError};
use latchwork_engine::{Node, NodeParts, Worker};
use latchwork_fabric::{AnyFabric, AnyInbox, Port};
use latchwork_homes::{Holders, HomePlace};
use latchwork_memnode::{Catalogue, Epochs, Geometry, LineAllocator, Pool, PoolError};
use latchwork_runtime::{ExecutorConfig, Handle};
use latchwork_strict::{strict_assert_eq, strict_check};
use latchwork_verbs::{ComputeNodeId, Extent, MemoryNodeId, RegionKey, SetupError};
use thiserror::Error;

use crate::journal::give_journal;
use crate::protocol::{agent, new_agent, new_node};
use crate::{ClusterConfig, ConfigError};

/// The reason why a cluster could not be started, or did not run to its end.
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
    /// A worker panicked, or a handler did not start. The locks and latches of a panicked worker
    /// stay taken, so discard the cluster.
    #[error("{thread} panicked: {message}; discard the cluster")]
    Panicked {
        /// The name of the thread: `node1-worker0` or `node1-handler`. Nodes count from 1, workers
        /// from 0.
        thread: String,
        /// The text of the panic, or another reason.
        message: String,
    },
    /// A worker could not leave gracefully.
    #[error("a worker could not leave: {0}")]
    Leave(#[from] latchwork_coherence::MemoryError),
    /// The simulation stopped before its tasks ended: a time limit, no events left, or a live-lock.
    #[error("the simulated world ended before its workers did: {0}")]
    World(String),
}

impl ClusterError {
    /// The error of a thread that ended with this panic.
    pub fn panicked(thread: String, payload: &(dyn Any + Send)) -> ClusterError {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("(no message)").to_owned();
        ClusterError::Panicked { thread, message }
    }
}

/// The nodes of a cluster with their caches, registered at the fabric, before the pool exists.
pub(crate) struct Blueprint {
    geometry: Geometry,
    memory: Vec<(MemoryNodeId, u64)>,
    compute: Vec<(ComputeNodeId, Cache, RegionKey, HomePlace)>,
    /// The agents of the memory nodes, if the protocol has homes.
    agents: Vec<(ComputeNodeId, Cache, RegionKey)>,
}

impl Blueprint {
    pub(crate) fn new(fabric: &AnyFabric, config: &ClusterConfig) -> Result<Self, ClusterError> {
        let geometry = config.check()?;
        let memory: Vec<_> = (0..config.memory_nodes)
            .map(|_| {
                let (bytes, chip_bytes) = (config.memory_bytes, config.chip_bytes);
                Ok((fabric.add_memory_node(Extent { bytes, chip_bytes })?, bytes))
            })
            .collect::<Result<_, SetupError>>()?;
        let compute = (1..=config.compute_nodes)
            .filter_map(|id| ComputeNodeId::new(id as u8))
            .map(|id| {
                let beside = config.colocate.then_some(MemoryNodeId(id.index() as u16));
                match own_memory(config, id).or(beside) {
                    Some(own) => fabric.add_compute_node_at(id, own)?,
                    None => fabric.add_compute_node(id)?,
                }
                // The memory of a home is the second region.
                let (cache, arena) = new_cache(fabric, config, id)?;
                let place = match own_memory(config, id).and_then(|own| fabric.memory(own)) {
                    Some(memory) => {
                        let key = fabric.register(id, memory.clone())?;
                        HomePlace::Compute { memory, key }
                    }
                    None => HomePlace::Agents,
                };
                Ok((id, cache, arena, place))
            })
            .collect::<Result<_, ClusterError>>()?;
        let agents = if config.protocol.has_homes() && !config.has_compute_homes() {
            let memories = memory.iter().map(|(id, _)| *id);
            memories.map(|id| new_arena_of_agent(fabric, config, id)).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        };
        let blueprint = Blueprint { geometry, memory, compute, agents };
        strict_check!(blueprint, config);
        Ok(blueprint)
    }

    fn check(&self, config: &ClusterConfig) {
        assert_eq!(self.memory.len(), config.memory_nodes, "all memory nodes are in the fabric");
        assert_eq!(self.compute.len(), config.compute_nodes, "all compute nodes are in the fabric");
        let arena = self.compute[0].2;
        let keys = self.compute.iter().map(|(_, _, key, _)| key);
        assert!(
            keys.chain(self.agents.iter().map(|(_, _, key)| key)).all(|key| *key == arena),
            "nodes forward lines under one key, and the arenas have several"
        );
        let key = |place: &HomePlace| match place {
            HomePlace::Agents => None,
            HomePlace::Compute { key, .. } => Some(*key),
        };
        let first = key(&self.compute[0].3);
        assert!(
            self.compute.iter().all(|(.., place)| key(place) == first),
            "nodes write changes back under one key, and the memories have several"
        );
        assert!(
            self.compute.iter().is_sorted_by(|(one, ..), (next, ..)| one < next),
            "the index of a node is the order of its id"
        );
        assert!(
            self.compute.iter().all(|(_, cache, ..)| cache.capacity() >= config.frames_min()),
            "an operation could wait for its second frame forever"
        );
    }

    /// The node that formats the pool.
    pub(crate) fn first(&self) -> ComputeNodeId {
        self.compute[0].0
    }

    /// Formats the pool, and makes the nodes. `checked`: checks ask for the owners of lines.
    pub(crate) async fn build(
        self,
        port: &Port,
        config: &ClusterConfig,
        checked: bool,
    ) -> Result<Nodes, ClusterError> {
        let pool = Pool::format(port, &self.memory, self.geometry, config.seed).await?;
        let parts = async |(id, cache, arena), own| {
            let epochs = Epochs::register(&pool, port, id, config.pool).await?;
            Ok::<_, ClusterError>(NodeParts {
                id,
                cache,
                arena,
                geometry: self.geometry,
                allocator: LineAllocator::near(&epochs, own),
                epochs,
                settings: config.node.clone(),
            })
        };
        let (protocol, changes) = (config.protocol, config.directory_changes());
        let (mut nodes, mut agents, mut homes) = (Vec::new(), Vec::new(), Vec::new());
        for (id, cache, arena, place) in self.compute {
            let parts = parts((id, cache, arena), own_memory(config, id)).await?;
            let (node, holders) =
                new_node(parts, protocol, (changes, place), &config.selcc, checked);
            give_journal(&node, port, config).await?;
            nodes.push(node);
            homes.extend(holders);
        }
        for agent in self.agents {
            let agent = new_agent(parts(agent, None).await?, protocol, changes, checked);
            let (agent, holders) = agent.expect("only a protocol with homes has agents");
            agents.push(agent);
            homes.extend(holders);
        }
        strict_assert_eq!(nodes.len(), config.compute_nodes, "a node in the fabric was not made");
        Ok(Nodes { pool, nodes, agents, homes })
    }
}

/// Makes the cache of a node that the fabric knows, and registers it.
///
/// The cache is registered before any port registers its own memory. So all nodes register it as
/// their first region, and its key is the same on all nodes.
pub(crate) fn new_cache(
    fabric: &AnyFabric,
    config: &ClusterConfig,
    id: ComputeNodeId,
) -> Result<(Cache, RegionKey), ClusterError> {
    let (line_size, frames_min) = (config.line_size as usize, config.frames_min());
    let make = |bytes| fabric.new_region(bytes).map_err(ClusterError::from);
    let cache = Cache::with_memory_in(config.cache_size(), line_size, frames_min, make)?
        .with_replacement(config.node.replacement_policy());
    let arena = fabric.register(id, cache.arena().clone())?;
    Ok((cache, arena))
}

/// Makes a compute node of a pool that is formatted, under a protocol without homes.
pub(crate) async fn build_node(
    pool: &Pool,
    port: &Port,
    config: &ClusterConfig,
    (id, cache, arena): (ComputeNodeId, Cache, RegionKey),
) -> Result<Arc<Node>, ClusterError> {
    let epochs = Epochs::register(pool, port, id, config.pool).await?;
    let parts = NodeParts {
        id,
        cache,
        arena,
        geometry: pool.geometry(),
        allocator: LineAllocator::near(&epochs, None),
        epochs,
        settings: config.node.clone(),
    };
    let changes = (config.directory_changes(), HomePlace::Agents);
    let (node, _) = new_node(parts, config.protocol, changes, &config.selcc, false);
    give_journal(&node, port, config).await?;
    Ok(node)
}

/// The memory node in the process of a compute node that is a home.
fn own_memory(config: &ClusterConfig, id: ComputeNodeId) -> Option<MemoryNodeId> {
    config.has_compute_homes().then(|| MemoryNodeId(id.index() as u16))
}

/// Makes the agent of a memory node in the fabric. Its arena is the memory of the memory node. Its
/// own cache is never used.
fn new_arena_of_agent(
    fabric: &AnyFabric,
    config: &ClusterConfig,
    memory: MemoryNodeId,
) -> Result<(ComputeNodeId, Cache, RegionKey), ClusterError> {
    let id = agent(memory).expect("the configuration has an id for each agent");
    let cache = Cache::with_frames(config.frames_min(), config.line_size as usize)?;
    let arena = fabric.memory(memory).expect("a memory node of this fabric");
    fabric.add_compute_node_at(id, memory)?;
    let key = fabric.register(id, arena)?;
    Ok((id, cache, key))
}

/// The compute nodes of a cluster, and their pool.
pub(crate) struct Nodes {
    pub(crate) pool: Pool,
    pub(crate) nodes: Vec<Arc<Node>>,
    /// The agents of the memory nodes, if the protocol has homes there.
    pub(crate) agents: Vec<Arc<Node>>,
    /// The entries of the homes, in the order of the memory nodes, if they are written down.
    pub(crate) homes: Vec<Arc<Holders>>,
}

/// A worker of the cluster: its indexes and its resources.
#[derive(Clone)]
pub struct Member {
    /// The coherent memory of this worker.
    pub memory: Worker,
    /// Index of the compute node, from 0.
    pub node: usize,
    /// Index of the worker on its node, from 0.
    pub worker: usize,
    /// Index of the worker in the cluster, from 0.
    pub index: usize,
    /// The worker's executor.
    pub handle: Handle,
    /// The catalogue of named objects.
    pub catalogue: Arc<Catalogue>,
}

impl Member {
    /// The name of the worker's thread.
    pub fn name(&self) -> String {
        name_of_worker(self.node, self.worker)
    }

    pub(crate) fn start(
        (port, inbox): (Rc<Port>, AnyInbox),
        node: &Arc<Node>,
        pool: &Pool,
        place: (usize, usize, usize),
        handle: &Handle,
    ) -> Member {
        strict_assert_eq!(port.node(), node.id(), "the port is one of another node");
        let memory = Worker::start(node, port, inbox, handle);
        let (node, worker, index) = place;
        let catalogue = Arc::new(pool.catalogue());
        Member { memory, node, worker, index, handle: handle.clone(), catalogue }
    }
}

/// The name of a worker's thread. Both arguments count from 0; the name counts nodes from 1.
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

/// The longest yield of a worker after which the worker still counts its core as its own. A longer
/// yield shows that another program uses the core.
///
/// Workers of this cluster that share a core take turns, and must not count each other as foreign
/// programs. So the limit grows with the number of workers per core. The formula assumes that all
/// workers of the cluster run on this machine. For several machines the limit is longer than
/// needed.
fn yield_limit(config: &ClusterConfig) -> Duration {
    // A foreign program usually keeps the core for longer than this: a time slice of the kernel
    // ends at a tick, every 1 to 4 ms.
    const MAX: Duration = Duration::from_millis(2);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let turns = (config.compute_nodes * config.workers).div_ceil(cores);
    let limit = ExecutorConfig::default().yield_limit;
    limit.saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX)).min(MAX)
}

/// The configuration of a handler of an agent, one for each core. It spins like a worker before it
/// parks: nothing else serves the requests of the misses.
pub(crate) fn agent_config(config: &ClusterConfig, core: u8) -> ExecutorConfig {
    let index = (usize::MAX >> 1) - usize::from(core) + (1 << 32);
    worker_config(config, index)
}

/// The configuration of a handler. An idle handler never spins: it yields before each of two idle
/// sweeps, and then parks. A handler serves its node only while no worker of the node polls.
pub(crate) fn handler_config(config: &ClusterConfig, node: usize) -> ExecutorConfig {
    ExecutorConfig { spin_sweeps: 0, yield_sweeps: 2, ..worker_config(config, node + (1 << 32)) }
}
