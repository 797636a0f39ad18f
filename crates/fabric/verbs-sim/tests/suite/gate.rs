//! Gates hold the batches that their rules pick, and no others, on each leg.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_runtime::{ExecutorConfig, VirtualWorker};
use latchwork_simulation::Kernel;
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, Inbox as _, MemoryNodeId, Message, Target, WorkRequest,
};
use latchwork_verbs_sim::{Leg, SimConfig, SimEndpoint, SimFabric};

const A: ComputeNodeId = ComputeNodeId::new(1).unwrap();
const B: ComputeNodeId = ComputeNodeId::new(2).unwrap();
const MEMORY: Target = Target::Memory(MemoryNodeId(0));

struct World {
    kernel: Kernel,
    fabric: SimFabric,
    endpoint: SimEndpoint,
    // Kept only for its notifier.
    _worker: VirtualWorker,
}

impl World {
    fn new(seed: u64) -> World {
        let kernel = Kernel::new(seed);
        let fabric = SimFabric::new(&kernel, SimConfig::default());
        fabric.add_memory_node(64).unwrap();
        [A, B].into_iter().for_each(|node| fabric.add_compute_node(node).unwrap());
        let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
        let endpoint = fabric.endpoint(A, &worker.handle()).unwrap();
        World { kernel, fabric, endpoint, _worker: worker }
    }

    fn post(&mut self, target: Target, token: u64, request: WorkRequest) {
        self.endpoint.post(target, token, &[request]).unwrap();
        self.endpoint.ring();
    }

    /// Runs all events. Returns the tokens of the completed batches.
    fn settle(&mut self) -> Vec<u64> {
        while self.kernel.step() {}
        let mut tokens = Vec::new();
        self.endpoint.poll(&mut |completion| tokens.push(completion.token));
        tokens
    }

    fn word(&self, at: usize) -> u64 {
        self.fabric.memory(MemoryNodeId(0)).unwrap().words().u64(at)
    }

    fn received(&self) -> Vec<u64> {
        let mut bodies = Vec::new();
        let inbox = self.fabric.inbox(B).unwrap();
        inbox.receive(&mut |message| bodies.push(message.body[0]));
        bodies
    }
}

fn add(remote: u64, add: u64) -> WorkRequest {
    WorkRequest::FetchAdd { remote, add }
}

fn send(word: u64) -> WorkRequest {
    WorkRequest::Send(Message { from: A, body: [word; Message::WORDS] })
}

#[test]
fn a_batch_that_is_held_on_its_way_there_has_no_effect() {
    let mut world = World::new(1);
    let gate = world.fabric.gate(|passing| {
        passing.leg == Leg::There
            && passing.from == A
            && passing.requests.iter().any(|r| matches!(r, WorkRequest::FetchAdd { remote: 0, .. }))
    });
    world.post(MEMORY, 1, add(0, 5));
    world.post(MEMORY, 2, add(8, 7));
    assert_eq!(world.settle(), [2], "what was not picked passes");
    assert_eq!((world.word(0), world.word(8), gate.held()), (0, 7, 1));
    assert!(gate.release());
    assert!(!gate.release(), "there was one");
    assert_eq!((world.settle(), world.word(0)), (vec![1], 5));
}

#[test]
fn a_batch_that_is_held_on_its_way_back_has_its_effect() {
    let mut world = World::new(2);
    let gate = world.fabric.gate(|passing| passing.leg == Leg::Back);
    world.post(MEMORY, 1, add(0, 5));
    assert_eq!((world.settle(), world.word(0), gate.held()), (vec![], 5, 1));
    drop(gate);
    assert_eq!(world.settle(), [1], "a gate that is gone lets all go");
}

#[test]
fn a_message_that_is_held_behind_the_inbox_completes_and_is_overtaken() {
    let mut world = World::new(3);
    let picks = |message: &Message| message.body[0] == 1;
    let gate = world.fabric.gate(move |passing| {
        let first = passing.requests.first();
        passing.leg == Leg::Inbox && matches!(first, Some(WorkRequest::Send(m)) if picks(m))
    });
    world.post(Target::Compute(B, 0), 1, send(1));
    assert_eq!(world.settle(), [1], "the fabric has done its part");
    world.post(Target::Compute(B, 0), 2, send(2));
    world.settle();
    assert_eq!((world.received(), gate.held()), (vec![2], 1));
    gate.release_all();
    world.settle();
    assert_eq!(world.received(), [1]);
}

#[test]
fn the_first_gate_has_the_batch_and_all_rules_see_it() {
    let mut world = World::new(4);
    let log = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&log);
    let _log = world.fabric.gate(move |passing| {
        seen.borrow_mut().push(passing.leg);
        false
    });
    let first = world.fabric.gate(|passing| passing.leg == Leg::There);
    let second = world.fabric.gate(|passing| passing.leg == Leg::There);
    world.post(MEMORY, 1, add(0, 1));
    world.post(MEMORY, 2, add(8, 1));
    assert_eq!((first.held(), second.held()), (2, 0));
    assert!(first.release_if(|passing| {
        passing.requests.iter().any(|request| matches!(request.remote(), Some((8, _))))
    }));
    assert_eq!(world.settle(), [2], "in the order that the test wants");
    assert_eq!(*log.borrow(), [Leg::There, Leg::There, Leg::Back]);
}
