//! The fabric over sockets keeps the contract of the verbs: over loopback, with a thread for each worker, with
//! all nodes in one process, with each in what might be a process of its own, and inside TLS.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Cluster, Mode};
use latchwork_runtime::Clock;
use latchwork_verbs::contract::{Harness, Script};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region};

/// Far beyond what any promise needs.
const PATIENCE: Duration = Duration::from_secs(100);

impl Cluster {
    fn run_one(&self, script: Script, failed: &AtomicBool) {
        let node = script.node;
        let fabric = self.of(node);
        let endpoint = fabric.endpoint(node).unwrap();
        let inbox = fabric.inbox(node).unwrap();
        let fabrics = self.fabrics();
        let disconnect = move |node: ComputeNodeId| {
            fabrics.iter().for_each(|fabric| fabric.disconnect(node).unwrap());
        };
        let mut running = script.start(Box::new(endpoint), Box::new(inbox), Box::new(disconnect));
        // A script that panics must end the others, which may wait for it.
        let _alarm = Alarm(failed);
        let clock = Clock::start();
        let deadline = clock.now() + PATIENCE;
        while !running.step() {
            assert!(!failed.load(Ordering::Relaxed), "another script failed");
            assert!(clock.now() < deadline, "a script of {node:?} does not end");
            thread::yield_now();
        }
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

impl Harness for Cluster {
    fn run(&self, scripts: Vec<Script>) {
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            for script in scripts {
                scope.spawn(|| self.run_one(script, &failed));
            }
        });
    }

    fn memory(&self, node: MemoryNodeId) -> Arc<Region> {
        self.memory_of(node)
    }

    fn region(&self, node: ComputeNodeId) -> Arc<Region> {
        self.region_of(node)
    }

    fn rounds(&self) -> u64 {
        300
    }
}

latchwork_verbs::contract_tests!(Mode::ALL.into_iter().map(Cluster::new));
