//! The fabric over sockets keeps the contract of the verbs, over loopback, with a thread for each
//! worker. The nodes are all in one process, or each in a separate fabric like a process of its
//! own, or inside TLS.

use std::sync::Arc;

use latchwork_verbs::contract::{Harness, Script, run_on_threads};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, Target};

use crate::common::{Cluster, Mode};

impl Harness for Cluster {
    fn run(&self, scripts: Vec<Script>) {
        run_on_threads(scripts, |script| {
            let node = script.node;
            let fabric = self.of(node);
            let endpoint = Box::new(fabric.endpoint(node).unwrap());
            let inbox = Box::new(fabric.inbox(node).unwrap());
            let fabrics = self.fabrics();
            let cut_off = move |target| match target {
                Target::Memory(id) => {
                    fabrics.iter().for_each(|fabric| fabric.disconnect_memory(id).unwrap());
                }
                Target::Compute(id, _) => {
                    fabrics.iter().for_each(|fabric| fabric.disconnect(id).unwrap());
                }
            };
            script.start(endpoint, inbox, Box::new(cut_off))
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
