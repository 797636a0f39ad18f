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

/// What [`latchwork_verbs::Request::ReadIf`] permits is what is done here: the buffer is left alone.
#[test]
fn a_read_whose_condition_does_not_hold_is_left_out() {
    use latchwork_verbs::{Endpoint as _, LocalBuffer, RegionKey, Request, Target};

    let threads = Threads::new();
    let node = ComputeNodeId::new(1).unwrap();
    let mut endpoint = threads.fabric.endpoint(node).unwrap();
    let memory = threads.memory(MemoryNodeId(0));
    memory.words().set_u64(8, 7);
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 8 };
    let mut read_if = |mask, value| {
        threads.region(node).words().set_u64(0, 1);
        let read = Request::ReadIf { remote: 8, local, mask, value };
        let batch = [Request::FetchAdd { remote: 0, add: 0x11 }, read];
        endpoint.post(Target::Memory(MemoryNodeId(0)), 0, &batch).unwrap();
        endpoint.ring();
        assert!(endpoint.poll(&mut |completion| assert!(completion.result.is_ok())));
        threads.region(node).words().u64(0)
    };
    // The word is 0, 0x11, 0x22 before the addition.
    assert_eq!(read_if(u64::MAX, 0), 7);
    assert_eq!(read_if(0xf, 0), 1);
    assert_eq!(read_if(0xf0, 0x20), 7);
}
