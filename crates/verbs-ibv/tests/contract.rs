//! The RDMA fabric keeps the contract of the verbs, with a thread for each worker and the nodes dealt out to all devices. Skipped where
//! there are none; `scripts/rxe-vm.sh` has some.

#![cfg(target_os = "linux")]

mod devices;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_verbs::contract::{
    COMPUTE_NODES, Harness, INBOX_CAPACITY, MEMORY_BYTES, MEMORY_NODES, REGION_BYTES, Script,
};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region};
use latchwork_verbs_ibv::{Config, Fabric};

struct Threads {
    fabric: Fabric,
    regions: Vec<Arc<Region>>,
}

/// Far beyond what any promise needs, on a busy host.
const LIMIT: Duration = Duration::from_secs(120);

impl Threads {
    fn new() -> Option<Self> {
        let config = Config { inbox_capacity: INBOX_CAPACITY, ..devices::patient() };
        let fabric = devices::open(config)?;
        for _ in 0..MEMORY_NODES {
            fabric.add_memory_node(MEMORY_BYTES).unwrap();
        }
        let mut regions = Vec::new();
        for node in (1..=COMPUTE_NODES).filter_map(ComputeNodeId::new) {
            let region = Region::zeroed(REGION_BYTES).unwrap();
            fabric.add_compute_node(node).unwrap();
            fabric.register(node, Arc::clone(&region)).unwrap();
            regions.push(region);
        }
        Some(Threads { fabric, regions })
    }

    fn run_one(&self, script: Script, failed: &AtomicBool) {
        let node = script.node;
        let endpoint = self.fabric.endpoint(node, None).unwrap();
        let inbox = self.fabric.inbox(node).unwrap();
        let fabric = self.fabric.clone();
        let disconnect = move |node| fabric.disconnect(node).unwrap();
        let mut running = script.start(Box::new(endpoint), Box::new(inbox), Box::new(disconnect));
        // A script that panics must end the others, which may wait for it.
        let _alarm = Alarm(failed);
        let clock = Clock::start();
        let end = clock.now() + LIMIT;
        while clock.now() < end {
            if running.step() {
                return;
            }
            assert!(!failed.load(Ordering::Relaxed), "another script failed");
            thread::yield_now();
        }
        panic!("a script of {node:?} does not end");
    }
}

struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Harness for Threads {
    fn run(&self, scripts: Vec<Script>) {
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            for script in scripts {
                scope.spawn(|| self.run_one(script, &failed));
            }
        });
    }

    fn memory(&self, node: MemoryNodeId) -> Arc<Region> {
        self.fabric.memory(node).unwrap()
    }

    fn region(&self, node: ComputeNodeId) -> Arc<Region> {
        Arc::clone(&self.regions[node.index()])
    }

    fn rounds(&self) -> u64 {
        200
    }
}

latchwork_verbs::contract_tests!(Threads::new().into_iter());
