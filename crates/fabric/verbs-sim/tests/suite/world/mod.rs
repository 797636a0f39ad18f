//! A small cluster in a simulated world, as a harness for scripts.

use std::cell::RefCell;
use std::sync::Arc;

use latchwork_runtime::{ExecutorConfig, Handle, VirtualWorker};
use latchwork_simulation::Kernel;
use latchwork_verbs::contract::{
    CHIP_BYTES, COMPUTE_NODES, Harness, INBOX_CAPACITY, MEMORY_NODES, REGION_BYTES, Script,
    memory_extent,
};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, Target};
use latchwork_verbs_sim::{CpuProfile, NicProfile, SimConfig, SimFabric};

pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) fabric: SimFabric,
    regions: Vec<Arc<Region>>,
    // Kept only for its notifier: the test steps the scripts.
    worker: VirtualWorker,
    order: RefCell<Vec<usize>>,
}

/// The largest number of events of one test, far more than any promise needs.
const EVENTS_MAX: u64 = 10_000_000;

impl World {
    pub(crate) fn new(seed: u64, config: SimConfig) -> Self {
        let kernel = Kernel::new(seed);
        let config = SimConfig { inbox_capacity: INBOX_CAPACITY, ..config };
        let fabric = SimFabric::new(&kernel, config);
        for id in 0..MEMORY_NODES {
            fabric.add_memory_node(memory_extent(id)).unwrap();
        }
        let mut regions = Vec::new();
        for node in (1..=COMPUTE_NODES).filter_map(ComputeNodeId::new) {
            let region = Region::zeroed(REGION_BYTES).unwrap();
            fabric.add_compute_node(node).unwrap();
            fabric.register(node, Arc::clone(&region)).unwrap();
            regions.push(region);
        }
        let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
        World { kernel, fabric, regions, worker, order: RefCell::default() }
    }
}

/// A NIC with round figures: 10 ns a request, 1 ns a byte, 1 us each way.
pub(crate) fn profile() -> NicProfile {
    NicProfile {
        name: "round".to_owned(),
        bandwidth_gbit_s: 8.0,
        one_way_ns: 1_000,
        jitter_ns: 0,
        engines: 1,
        send_rate_mops: 100.0,
        send_read_rate_mops: 100.0,
        serve_rate_mops: 100.0,
        serve_read_rate_mops: 100.0,
        serve_atomic_rate_mops: 100.0,
        packet_gbit_s: 1e9,
        packet_bytes: 1024,
        inline_max_bytes: 1024,
        gather_ns: 0,
        write_ns: 300,
        read_ns: 500,
        atomic_fetch_ns: 200,
        atomic_ns: 400,
        atomic_cold_ns: 0,
        atomic_bucket_bits: 6,
        atomics_waiting_max: 0,
        chip_bytes: CHIP_BYTES as u32,
        chip_atomic_rate_mops: 100.0,
        completion_ns: 100,
        queue_pairs: 1,
        reads_max: 16,
        requests_max: 128,
        cpu: CpuProfile { post_ns: 7, doorbell_ns: 90, poll_ns: 30, ..CpuProfile::default() },
        published: Vec::new(),
    }
}

impl World {
    /// The worker whose clock all endpoints share.
    pub(crate) fn worker_handle(&self) -> Handle {
        self.worker.handle()
    }

    /// Gives the scripts, and the world, `turns` turns. True when all scripts have ended.
    pub(crate) fn run_turns(&self, scripts: Vec<Script>, turns: u64) -> bool {
        let start = |script: Script| {
            let endpoint = self.fabric.endpoint(script.node, &self.worker_handle()).unwrap();
            let inbox = self.fabric.inbox(script.node).unwrap();
            let fabric = self.fabric.clone();
            let cut_off = move |target| match target {
                Target::Memory(id) => fabric.lose_memory_node(id).unwrap(),
                Target::Compute(id, _) => fabric.disconnect(id).unwrap(),
            };
            script.start(Box::new(endpoint), Box::new(inbox), Box::new(cut_off))
        };
        let mut running: Vec<_> = scripts.into_iter().map(start).collect();
        for _ in 0..turns {
            // Between two events any worker may have its turn first.
            let mut order = self.order.borrow_mut();
            order.clear();
            order.extend(0..running.len());
            for i in (1..order.len()).rev() {
                order.swap(i, self.kernel.random_below(i as u64 + 1) as usize);
            }
            let mut ended = 0;
            for &i in order.iter() {
                ended += usize::from(running[i].step());
            }
            if ended == running.len() {
                return true;
            }
            self.kernel.step();
        }
        false
    }
}

impl Harness for World {
    fn run(&self, scripts: Vec<Script>) {
        assert!(self.run_turns(scripts, EVENTS_MAX), "the scripts do not end");
    }

    fn memory(&self, node: MemoryNodeId) -> Arc<Region> {
        self.fabric.memory(node).unwrap()
    }

    fn region(&self, node: ComputeNodeId) -> Arc<Region> {
        Arc::clone(&self.regions[node.index()])
    }

    fn rounds(&self) -> u64 {
        40
    }
}
