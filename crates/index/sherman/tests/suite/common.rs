//! A simulated cluster with trees.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_fabric::{AnyFabric, Port};
use latchwork_memnode::{Epochs, Geometry, LineAllocator, Pool, PoolSettings};
use latchwork_runtime::{ExecutorConfig, Handle, JoinHandle, VirtualWorker, run_all};
use latchwork_sherman::{Change, Config, Resources, Shared, ShermanError, Tree};
use latchwork_simulation::Kernel;
use latchwork_verbs::{ComputeNodeId, Extent, GlobalAddr, MemoryNodeId};
use latchwork_verbs_sim::{SimConfig, SimFabric};

const CHUNK: u64 = 256 << 10;
pub(crate) const LIMIT: Duration = Duration::from_secs(100);

/// A worker of a compute node, with its handle on the world's tree.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) handle: Handle,
    pub(crate) tree: Tree,
    pub(crate) resources: Resources,
}

pub(crate) struct World {
    pub(crate) kernel: Kernel,
    /// For its faults.
    #[allow(dead_code)]
    pub(crate) sim: SimFabric,
    /// The workers, by compute node.
    pub(crate) workers: Vec<Vec<Worker>>,
    pub(crate) running: Vec<Vec<VirtualWorker>>,
}

pub(crate) fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

impl World {
    /// `memory` memory nodes, `nodes` compute nodes with `workers` workers, and lines of `line`
    /// bytes.
    pub(crate) fn new(seed: u64, shape: (usize, u8, usize), line: u32, config: Config) -> World {
        World::with(seed, shape, line, config, SimConfig::default())
    }

    pub(crate) fn with(
        seed: u64,
        (memory, nodes, workers): (usize, u8, usize),
        line: u32,
        config: Config,
        sim: SimConfig,
    ) -> World {
        let kernel = Kernel::new(seed);
        let sim = SimFabric::new(&kernel, sim);
        let fabric = AnyFabric::from(sim.clone());
        let bytes = 9 * CHUNK;
        let memory: Vec<(MemoryNodeId, u64)> = (0..memory)
            .map(|_| {
                let extent = Extent { bytes, chip_bytes: 256 };
                (fabric.add_memory_node(extent).unwrap(), bytes)
            })
            .collect();
        let mut world = World { kernel, sim, workers: Vec::new(), running: Vec::new() };
        let (mut anchor, mut pool) = (GlobalAddr::NULL, None);
        for id in 1..=nodes {
            let node = ComputeNodeId::new(id).unwrap();
            fabric.add_compute_node(node).unwrap();
            let shared = Shared::new(&config);
            let mut lines = None;
            let (mut there, mut running) = (Vec::new(), Vec::new());
            for index in 0..workers {
                let seed = seed * 1000 + u64::from(id) * 100 + index as u64;
                let executor = ExecutorConfig { seed, ..ExecutorConfig::default() };
                let worker = VirtualWorker::spawn(&world.kernel, executor);
                let handle = worker.handle();
                let port = Port::new(&fabric, node, &handle).unwrap();
                handle.add_poller(port.poller());
                let (memory, shared) = (memory.clone(), Arc::clone(&shared));
                let (start, first, known) = (handle.clone(), lines.clone(), pool.clone());
                let started = world.run(handle.spawn(async move {
                    let geometry = Geometry::new(CHUNK, line).unwrap();
                    let pool = match known {
                        Some(pool) => pool,
                        None => Pool::format(&port, &memory, geometry, 9).await.unwrap(),
                    };
                    let lines = match first {
                        Some(lines) => lines,
                        None => allocator(&pool, &port, node).await,
                    };
                    let resources = Resources { port, handle: start, lines: Arc::clone(&lines) };
                    let again = resources.clone();
                    let tree = if anchor.is_null() {
                        Tree::create(resources, &shared, config).await
                    } else {
                        Tree::open(resources, &shared, config, anchor).await
                    };
                    (tree.unwrap(), lines, pool, again)
                }));
                let (tree, allocator, formatted, resources) = started;
                (lines, pool) = (Some(allocator), Some(formatted));
                anchor = tree.anchor();
                there.push(Worker { handle, tree, resources });
                running.push(worker);
            }
            world.workers.push(there);
            world.running.push(running);
        }
        world
    }

    pub(crate) fn worker(&self, node: usize, worker: usize) -> Worker {
        self.workers[node][worker].clone()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Worker> {
        self.workers.iter().flatten().cloned()
    }

    pub(crate) fn run<T>(&self, task: JoinHandle<T>) -> T {
        self.run_all(vec![task]).pop().unwrap()
    }

    pub(crate) fn run_all<T>(&self, tasks: Vec<JoinHandle<T>>) -> Vec<T> {
        run_all(&self.kernel, LIMIT, tasks).unwrap()
    }

    /// Runs a task on the first worker.
    pub(crate) fn first<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        task: impl FnOnce(Tree) -> F,
    ) -> T {
        let worker = self.worker(0, 0);
        self.run(worker.handle.spawn(task(worker.tree)))
    }
}

async fn allocator(pool: &Pool, port: &Rc<Port>, node: ComputeNodeId) -> Arc<LineAllocator> {
    let epochs = Epochs::register(pool, port, node, PoolSettings::default()).await.unwrap();
    LineAllocator::new(&epochs)
}

/// The value of a key, or `None`.
pub(crate) async fn get(tree: &Tree, n: u64) -> Result<Option<u64>, ShermanError> {
    let mut value = Vec::new();
    let found = tree.get(&key(n), &mut value).await?;
    Ok(found.then(|| u64::from_be_bytes(value.try_into().unwrap())))
}

/// Adds one to the value of a key, which is zero at first.
pub(crate) async fn increment(tree: &Tree, n: u64) {
    let add = |old: Option<&[u8]>, new: &mut Vec<u8>| {
        let old = old.map_or(0, |old| u64::from_be_bytes(old.try_into().unwrap()));
        new.extend_from_slice(&key(old + 1));
        (Change::Put, ())
    };
    tree.change(&key(n), add).await.unwrap();
}
