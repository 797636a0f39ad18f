//! The shared-memory fabric keeps the contract of the verbs, with a thread for each worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use latchwork_verbs::contract::{
    COMPUTE_NODES, Harness, INBOX_CAPACITY, MEMORY_BYTES, MEMORY_NODES, REGION_BYTES, Script,
};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region};
use latchwork_verbs_shm::{Config, Fabric};

struct Threads {
    fabric: Fabric,
    regions: Vec<Arc<Region>>,
}

/// Far beyond what any promise needs: some ten seconds of one core.
const STEPS_MAX: u64 = 50_000_000;

impl Threads {
    fn new() -> Self {
        let fabric = Fabric::new(Config { inbox_capacity: INBOX_CAPACITY });
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
        Threads { fabric, regions }
    }

    fn run_one(&self, script: Script, failed: &AtomicBool) {
        let node = script.node;
        let endpoint = self.fabric.endpoint(node).unwrap();
        let inbox = self.fabric.inbox(node).unwrap();
        let fabric = self.fabric.clone();
        let disconnect = move |node| fabric.disconnect(node).unwrap();
        let mut running = script.start(Box::new(endpoint), Box::new(inbox), Box::new(disconnect));
        // A script that panics must end the others, which may wait for it.
        let _alarm = Alarm(failed);
        for _ in 0..STEPS_MAX {
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
        2_000
    }
}

latchwork_verbs::contract_tests!([Threads::new()]);
