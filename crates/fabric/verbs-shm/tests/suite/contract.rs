//! The shared-memory fabric keeps the contract of the verbs. Each worker has a thread. The contract
//! is tested in one fabric, with one fabric for each node as in several processes, and with memory
//! nodes in another process.

use std::sync::Arc;

use latchwork_verbs::contract::{
    COMPUTE_NODES, Harness, INBOX_CAPACITY, MEMORY_NODES, REGION_BYTES, Script, memory_extent,
    run_on_threads,
};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, Target};
use latchwork_verbs_shm::{ShmConfig, ShmFabric};

use crate::common::{Directory, Process, compute, hear, introduce, memory, node, role, say};

/// The scripts of a test share memory of the test, so all of them run on threads of one process.
struct Threads {
    // First the fabric of the memory nodes, then the fabrics of the compute nodes. In the mode with
    // one fabric, all are the same.
    fabrics: Vec<ShmFabric>,
    regions: Vec<Arc<Region>>,
    _server: Option<Process>,
    _directory: Option<Directory>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    OneFabric,
    FabricForEachNode,
    MemoryElsewhere,
}

const CONFIG: ShmConfig = ShmConfig { inbox_capacity: INBOX_CAPACITY };

impl Threads {
    fn all() -> impl Iterator<Item = Threads> {
        let modes = [Mode::OneFabric, Mode::FabricForEachNode, Mode::MemoryElsewhere];
        let count = if cfg!(target_os = "linux") { modes.len() } else { 1 };
        modes.into_iter().take(count).map(Self::new)
    }

    fn new(mode: Mode) -> Self {
        if mode == Mode::OneFabric {
            let fabrics = vec![ShmFabric::new(CONFIG); 1 + usize::from(COMPUTE_NODES)];
            let mut threads =
                Threads { fabrics, regions: Vec::new(), _server: None, _directory: None };
            threads.add_memory_nodes(0);
            threads.add_compute_nodes();
            return threads;
        }
        let directory = Directory::new();
        let fabric = || ShmFabric::in_directory(&directory.0, CONFIG).unwrap();
        let fabrics = (0..=COMPUTE_NODES).map(|_| fabric()).collect();
        let mut threads = Threads { fabrics, regions: Vec::new(), _server: None, _directory: None };
        threads.add_compute_nodes();
        let names: Vec<_> = (1..=COMPUTE_NODES).map(compute).collect();
        let of = |id: u8| (&threads.fabrics[usize::from(id)], &names[usize::from(id) - 1..][..1]);
        introduce(&(1..=COMPUTE_NODES).map(of).collect::<Vec<_>>());
        let mut server = None;
        let contacts: Vec<String> = if mode == Mode::MemoryElsewhere {
            let mut process =
                Process::start("contract::child", &["memory", directory.0.to_str().unwrap()]);
            let contacts = (0..MEMORY_NODES).map(|_| process.hear()).collect();
            server = Some(process);
            contacts
        } else {
            threads.add_memory_nodes(0);
            let contact = |id| threads.fabrics[0].contact(memory(id)).unwrap();
            (0..MEMORY_NODES).map(contact).collect()
        };
        let first = usize::from(server.is_none());
        for fabric in &threads.fabrics[first..] {
            for (id, contact) in contacts.iter().enumerate() {
                fabric.add_peer(memory(id as u16), contact).unwrap();
            }
        }
        Threads { _server: server, _directory: Some(directory), ..threads }
    }

    fn add_memory_nodes(&self, of: usize) {
        for id in 0..MEMORY_NODES {
            self.fabrics[of].add_memory_node(memory_extent(id)).unwrap();
        }
    }

    fn add_compute_nodes(&mut self) {
        for id in 1..=COMPUTE_NODES {
            let fabric = &self.fabrics[usize::from(id)];
            let region = fabric.new_region(REGION_BYTES).unwrap();
            fabric.add_compute_node(node(id)).unwrap();
            fabric.register(node(id), Arc::clone(&region)).unwrap();
            self.regions.push(region);
        }
    }

    fn of(&self, node: ComputeNodeId) -> &ShmFabric {
        &self.fabrics[usize::from(node.get())]
    }

    /// Cuts a node off in the processes of all compute nodes.
    fn cut_off(fabrics: &[ShmFabric], target: Target) {
        for fabric in fabrics {
            match target {
                Target::Memory(id) => fabric.disconnect_memory(id).unwrap(),
                Target::Compute(id, _) => fabric.disconnect(id).unwrap(),
            }
        }
    }
}

impl Harness for Threads {
    fn run(&self, scripts: Vec<Script>) {
        run_on_threads(scripts, |script| {
            let node = script.node;
            let (fabric, fabrics) = (self.of(node), self.fabrics[1..].to_vec());
            let endpoint = Box::new(fabric.endpoint(node).unwrap());
            let inbox = Box::new(fabric.inbox(node).unwrap());
            script.start(endpoint, inbox, Box::new(move |target| Self::cut_off(&fabrics, target)))
        });
    }

    fn memory(&self, node: MemoryNodeId) -> Arc<Region> {
        self.fabrics[0].memory(node).unwrap()
    }

    fn region(&self, node: ComputeNodeId) -> Arc<Region> {
        Arc::clone(&self.regions[node.index()])
    }

    fn rounds(&self) -> u64 {
        2_000
    }
}

latchwork_verbs::contract_tests!(Threads::all());

/// Serves memory until the parent process has ended.
#[test]
fn child() {
    let Some(role) = role() else { return };
    assert_eq!(role[0], "memory");
    let fabric = ShmFabric::in_directory(role[1].as_str(), CONFIG).unwrap();
    for id in 0..MEMORY_NODES {
        fabric.serve_memory_as(MemoryNodeId(id), memory_extent(id)).unwrap();
        say(&fabric.contact(memory(id)).unwrap());
    }
    while hear().is_some() {}
}

/// [`latchwork_verbs::WorkRequest::ReadIf`] permits a fabric to leave the READ out. This fabric
/// leaves the READ out, and the buffer keeps its content.
#[test]
fn a_read_with_a_false_condition_is_left_out() {
    use latchwork_verbs::{Endpoint as _, LocalBuffer, RegionKey, Target, WorkRequest};

    let threads = Threads::new(Mode::OneFabric);
    let node = node(1);
    let mut endpoint = threads.of(node).endpoint(node).unwrap();
    let memory = threads.memory(MemoryNodeId(0));
    memory.words().set_u64(8, 7);
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 8 };
    let mut read_if = |mask, value| {
        threads.region(node).words().set_u64(0, 1);
        let read = WorkRequest::ReadIf { remote: 8, local, mask, value };
        let batch = [WorkRequest::FetchAdd { remote: 0, add: 0x11 }, read];
        endpoint.post(Target::Memory(MemoryNodeId(0)), 0, &batch).unwrap();
        endpoint.ring();
        assert!(endpoint.poll(&mut |completion| assert!(completion.result.is_ok())));
        threads.region(node).words().u64(0)
    };
    // Before the three additions the word is 0, 0x11 and 0x22.
    assert_eq!(read_if(u64::MAX, 0), 7);
    assert_eq!(read_if(0xf, 0), 1);
    assert_eq!(read_if(0xf0, 0x20), 7);
}
