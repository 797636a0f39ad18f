//! The RDMA fabric keeps the contract of the verbs, with a thread for each worker and the nodes
//! assigned to all devices in turn. Skipped without RDMA devices; `scripts/rxe-vm.sh` provides
//! some.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use latchwork_verbs::contract::{
    COMPUTE_NODES, Harness, INBOX_CAPACITY, MEMORY_BYTES, MEMORY_NODES, REGION_BYTES, Script,
    memory_extent, run_on_threads,
};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, SetupError, Target};
use latchwork_verbs_ibv::{IbvConfig, IbvFabric};

use crate::devices;

struct Threads {
    fabric: IbvFabric,
    regions: Vec<Arc<Region>>,
    has_chip: bool,
}

impl Threads {
    fn new() -> Option<Self> {
        let config = IbvConfig { inbox_capacity: INBOX_CAPACITY, ..devices::patient() };
        let fabric = devices::open(config)?;
        let mut has_chip = true;
        for id in 0..MEMORY_NODES {
            match fabric.add_memory_node(memory_extent(id)) {
                // Soft-RoCE has no on-chip memory.
                Err(SetupError::NoChip { .. }) => {
                    has_chip = false;
                    fabric.add_memory_node(MEMORY_BYTES).unwrap();
                }
                added => _ = added.unwrap(),
            }
        }
        let mut regions = Vec::new();
        for node in (1..=COMPUTE_NODES).filter_map(ComputeNodeId::new) {
            let region = Region::zeroed(REGION_BYTES).unwrap();
            fabric.add_compute_node(node).unwrap();
            fabric.register(node, Arc::clone(&region)).unwrap();
            regions.push(region);
        }
        Some(Threads { fabric, regions, has_chip })
    }
}

impl Harness for Threads {
    fn run(&self, scripts: Vec<Script>) {
        run_on_threads(scripts, |script| {
            let node = script.node;
            let endpoint = Box::new(self.fabric.endpoint(node, None).unwrap());
            let inbox = Box::new(self.fabric.inbox(node).unwrap());
            let fabric = self.fabric.clone();
            let cut_off = move |target| match target {
                Target::Memory(id) => fabric.disconnect_memory(id).unwrap(),
                Target::Compute(id, _) => fabric.disconnect(id).unwrap(),
            };
            script.start(endpoint, inbox, Box::new(cut_off))
        });
    }

    fn memory(&self, node: MemoryNodeId) -> Arc<Region> {
        self.fabric.memory(node).unwrap()
    }

    fn region(&self, node: ComputeNodeId) -> Arc<Region> {
        Arc::clone(&self.regions[node.index()])
    }

    fn has_chip(&self) -> bool {
        self.has_chip
    }

    fn rounds(&self) -> u64 {
        200
    }
}

latchwork_verbs::contract_tests!(Threads::new().into_iter());
