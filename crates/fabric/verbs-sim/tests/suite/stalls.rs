//! What waiting atomics do to all others on a NIC: locks that are words in the nodes of a tree,
//! taken by compare-and-swap in a loop and freed by a WRITE, under a skewed load.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, Poller, Time, VirtualWorker};
use latchwork_simulation::Kernel;
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, LocalBuffer, MemoryNodeId, Region, RegionKey, Target, WorkRequest,
};
use latchwork_verbs_sim::{NicProfile, SimConfig, SimEndpoint, SimFabric};

/// Nodes of each kind; a lock word begins each tree node of 1 KiB.
const NODES: u16 = 8;
const LEAVES: u64 = 8 << 10;
const LEAF: u64 = 1 << 10;

/// A worker that writes entries under locks, one after another.
struct Writer {
    endpoint: RefCell<SimEndpoint>,
    kernel: Kernel,
    region: RegionKey,
    leaf: Cell<(Target, u64)>,
    done: Rc<Cell<u64>>,
}

/// The step whose batch is in flight, as the batch's token.
const LOCK: u64 = 0;
const READ: u64 = 1;
const UNLOCK: u64 = 2;

impl Writer {
    /// Draws a leaf, about zipfian with a parameter of 0.99 over 10^9 keys.
    fn draw(&self) {
        let uniform = self.kernel.random_below(1 << 53) as f64 / (1_u64 << 53) as f64;
        let rank = 10_f64.powf(9.0 * uniform) as u64;
        let leaf = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let target = Target::Memory(MemoryNodeId((leaf % u64::from(NODES)) as u16));
        self.leaf.set((target, leaf / u64::from(NODES) % LEAVES * LEAF));
    }

    fn post(&self, step: u64) {
        let (target, remote) = self.leaf.get();
        let lock = WorkRequest::CompareSwap { remote, expected: 0, desired: 1 };
        let local = |len| LocalBuffer { region: self.region, offset: 0, len };
        let read = WorkRequest::Read { remote, local: local(LEAF as u32) };
        let write = WorkRequest::Write { remote: remote + 64, local: local(64) };
        let unlock = WorkRequest::WriteWord { remote, value: 0 };
        let batches: [&[WorkRequest]; 3] = [&[lock], &[read], &[write, unlock]];
        self.endpoint.borrow_mut().post(target, step, batches[step as usize]).unwrap();
    }
}

impl Poller for Writer {
    fn poll(&self, _now: Time) -> bool {
        let mut completed = None;
        self.endpoint.borrow_mut().poll(&mut |completion| completed = Some(completion));
        let Some(completion) = completed else { return false };
        let held = completion.result.unwrap().old[0] != 0;
        match completion.token {
            LOCK => self.post(if held { LOCK } else { READ }),
            READ => self.post(UNLOCK),
            _ => {
                self.done.set(self.done.get() + 1);
                self.draw();
                self.post(LOCK);
            }
        }
        true
    }

    fn flush(&self) {
        self.endpoint.borrow_mut().ring();
    }

    fn may_park(&self) -> bool {
        self.endpoint.borrow().may_park()
    }
}

/// Millions of writes per second in the last of `millis` milliseconds, with `threads` workers on
/// each of the compute nodes.
fn mops(atomics_waiting_max: u32, threads: usize, millis: u64) -> f64 {
    let profile =
        NicProfile { atomics_waiting_max, ..NicProfile::named("connectx5-stalling").unwrap() };
    let kernel = Kernel::new(1);
    let fabric =
        SimFabric::new(&kernel, SimConfig { payload_max: Some(8), ..SimConfig::nic(profile) });
    for _ in 0..NODES {
        fabric.add_memory_node((LEAVES * LEAF) as usize).unwrap();
    }
    let done = Rc::new(Cell::new(0));
    let mut workers = Vec::new();
    for node in (1..=NODES as u8).filter_map(ComputeNodeId::new) {
        fabric.add_compute_node(node).unwrap();
        let region = fabric.register(node, Region::zeroed(LEAF as usize).unwrap()).unwrap();
        for _ in 0..threads {
            let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
            let handle = worker.handle();
            let writer = Rc::new(Writer {
                endpoint: RefCell::new(fabric.endpoint(node, &handle).unwrap()),
                kernel: kernel.clone(),
                region,
                leaf: Cell::new((Target::Memory(MemoryNodeId(0)), 0)),
                done: Rc::clone(&done),
            });
            handle.add_poller(writer.clone());
            handle.spawn(async move {
                writer.draw();
                writer.post(LOCK);
            });
            workers.push(worker);
        }
    }
    kernel.run_until(Time::ZERO + Duration::from_millis(millis - 1), || false);
    let before = done.get();
    kernel.run_until(Time::ZERO + Duration::from_millis(millis), || false);
    (done.get() - before) as f64 / 1e3
}

/// Sherman (section 3.2) reports a collapse of such locks on real NICs. Waiting atomics that only
/// delay other atomics do not give it: the holder's WRITE passes them.
#[test]
fn spinning_on_a_lock_starves_its_holder_where_waiting_atomics_block_a_nic() {
    let free = mops(0, 22, 4);
    for places in [8, 16, 64] {
        let stalled = mops(places, 22, 4);
        assert!(stalled * 5.0 < free, "{places} places: {stalled} instead of {free} M/s");
    }
    let few = (mops(0, 2, 4), mops(16, 2, 4));
    assert!(few.1 > few.0 * 0.9, "with few workers places are free: {few:?}");
}
