//! A simulated cluster with a small pool.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_fabric::{AnyFabric, Port};
use latchwork_memnode::{EpochWorker, Epochs, Geometry, LineAllocator, Pool, PoolSettings};
use latchwork_runtime::{ExecutorConfig, Handle, JoinHandle, VirtualWorker, run_all};
use latchwork_simulation::{Kernel, Random};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId};
use latchwork_verbs_sim::{SimConfig, SimFabric};

pub(crate) const CHUNK: u64 = 64 << 10;
pub(crate) const LINE: u32 = 512;
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn geometry() -> Geometry {
    Geometry::new(CHUNK, LINE).unwrap()
}

pub(crate) fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

/// One worker of a compute node: the values that its tasks use.
#[derive(Clone)]
pub(crate) struct Worker {
    pub handle: Handle,
    pub port: Rc<Port>,
    random: Rc<RefCell<Random>>,
}

impl Worker {
    pub(crate) fn below(&self, n: u64) -> u64 {
        self.random.borrow_mut().below(n)
    }

    /// Sleeps for up to `most`.
    pub(crate) async fn pause(&self, most: Duration) {
        let nanos = self.below(most.as_nanos() as u64 + 1);
        self.handle.sleep(Duration::from_nanos(nanos)).await;
    }
}

/// The values that the workers of one compute node share.
#[derive(Clone)]
pub(crate) struct Node {
    pub epochs: Arc<Epochs>,
    pub lines: Arc<LineAllocator>,
}

impl Node {
    pub(crate) async fn register(pool: &Pool, port: &Port, settings: PoolSettings) -> Node {
        let epochs = Epochs::register(pool, port, port.node(), settings).await.unwrap();
        let lines = LineAllocator::new(&epochs);
        Node { epochs, lines }
    }

    pub(crate) fn worker(&self, worker: &Worker) -> Rc<EpochWorker> {
        EpochWorker::start(&self.epochs, &worker.port, &worker.handle)
    }
}

/// A world: memory nodes, and compute nodes 1 to `n` with workers.
pub(crate) struct World {
    pub kernel: Kernel,
    pub fabric: AnyFabric,
    /// The same fabric, for its faults.
    pub sim: SimFabric,
    pub memory: Vec<(MemoryNodeId, u64)>,
    pub workers: Vec<Vec<Worker>>,
    running: Vec<VirtualWorker>,
}

impl World {
    /// `chunks[i]` chunks on memory node `i`; `workers` workers on each of `nodes` compute nodes.
    pub(crate) fn new(seed: u64, chunks: &[u64], nodes: u8, workers: usize) -> World {
        World::with_config(seed, chunks, nodes, workers, SimConfig::default())
    }

    pub(crate) fn with_config(
        seed: u64,
        chunks: &[u64],
        nodes: u8,
        workers: usize,
        config: SimConfig,
    ) -> World {
        let kernel = Kernel::new(seed);
        let sim = SimFabric::new(&kernel, config);
        let fabric = AnyFabric::from(sim.clone());
        let memory = chunks
            .iter()
            .map(|chunks| {
                let bytes = (chunks + 1) * CHUNK;
                (fabric.add_memory_node(bytes as usize).unwrap(), bytes)
            })
            .collect();
        let mut world =
            World { kernel, fabric, sim, memory, workers: Vec::new(), running: Vec::new() };
        for id in 1..=nodes {
            world.fabric.add_compute_node(node(id)).unwrap();
            let workers = (0..workers).map(|_| world.add_worker(id, seed)).collect();
            world.workers.push(workers);
        }
        world
    }

    pub(crate) fn add_worker(&mut self, id: u8, seed: u64) -> Worker {
        let seed = seed * 1000 + self.running.len() as u64;
        let config = ExecutorConfig { seed, ..ExecutorConfig::default() };
        let running = VirtualWorker::spawn(&self.kernel, config);
        let handle = running.handle();
        let port = Port::new(&self.fabric, node(id), &handle).unwrap();
        handle.add_poller(port.poller());
        self.running.push(running);
        Worker { handle, port, random: Rc::new(RefCell::new(Random::new(seed))) }
    }

    /// Worker 0 of compute node `id`.
    pub(crate) fn worker(&self, id: u8) -> Worker {
        self.workers[usize::from(id) - 1][0].clone()
    }

    pub(crate) fn format(&self) -> Pool {
        let (worker, memory) = (self.worker(1), self.memory.clone());
        self.run(&self.worker(1), async move {
            Pool::format(&worker.port, &memory, geometry(), 99).await.unwrap()
        })
    }

    pub(crate) fn register(&self, id: u8, pool: &Pool, settings: PoolSettings) -> Node {
        let (worker, pool) = (self.worker(id), pool.clone());
        self.run(
            &self.worker(id),
            async move { Node::register(&pool, &worker.port, settings).await },
        )
    }

    /// Runs a future on a worker until it ends.
    pub(crate) fn run<T: 'static>(
        &self,
        worker: &Worker,
        future: impl Future<Output = T> + 'static,
    ) -> T {
        self.run_all(vec![worker.handle.spawn(future)]).pop().unwrap()
    }

    pub(crate) fn run_all<T>(&self, tasks: Vec<JoinHandle<T>>) -> Vec<T> {
        run_all(&self.kernel, LIMIT, tasks).unwrap()
    }

    /// A word of memory node 0 at this instant.
    pub(crate) fn word(&self, offset: u64) -> u64 {
        self.fabric.memory(MemoryNodeId(0)).unwrap().words().u64(offset as usize)
    }
}
