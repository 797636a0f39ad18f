//! Nodes of different fabrics, as in different processes. The fabrics know each other only by
//! contacts and a courier, so everything passes between them as bytes. Skipped without RDMA
//! devices.

#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_verbs::{
    Completion, ComputeNodeId, Endpoint as _, Inbox as _, LocalBuffer, MemoryNodeId, Message,
    Region, RegionKey, Target, VerbError, WorkRequest,
};
use latchwork_verbs_ibv::{
    ConnectError, Contact, ContactReply, Courier, IbvConfig, IbvEndpoint, IbvFabric, Peer,
};

use crate::devices;

/// The member epochs of the first process, with compute node 1, and of the second process, with
/// memory node 0 and compute node 2.
const HERE: u64 = 10;
const THERE: u64 = 20;

/// The time limit of one operation, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The courier from the first process to the second one.
#[derive(Default)]
struct Road {
    there: Mutex<Option<(u64, IbvFabric)>>,
    // With `hangs`, the courier keeps offers without an answer, like a peer that hangs.
    hangs: AtomicBool,
    kept: Mutex<Vec<(Peer, Vec<u8>, ContactReply)>>,
}

impl Courier for Road {
    fn carry(&self, peer: Peer, epoch: u64, bytes: Vec<u8>, _limit: Duration, reply: ContactReply) {
        if self.hangs.load(Ordering::Relaxed) {
            self.kept.lock().unwrap().push((peer, bytes, reply));
            return;
        }
        let there = self.there.lock().unwrap().clone();
        match there {
            // The reply comes later and on another thread, as from a membership store.
            Some((is, fabric)) if is == epoch => {
                thread::spawn(move || reply(Ok(fabric.deliver(peer, own(), HERE, &bytes))));
            }
            _ => reply(Err(ConnectError::Gone)),
        }
    }
}

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

fn own() -> Peer {
    Peer::Compute(node(1))
}

const MEMORY: Target = Target::Memory(MemoryNodeId(0));

fn peers() -> [Peer; 2] {
    [MEMORY.into(), Peer::Compute(node(2))]
}

/// Compute node 1 on one fabric; memory node 0 and compute node 2 on another one.
struct Two {
    here: IbvFabric,
    there: IbvFabric,
    road: Arc<Road>,
    frames: Arc<Region>,
}

/// Makes a process with memory node 0 and compute node 2, which joins at `epoch`.
fn second(config: &IbvConfig, epoch: u64) -> Option<IbvFabric> {
    let there = devices::open(IbvConfig { epoch, ..config.clone() })?;
    there.serve_memory_as(MemoryNodeId(0), 1 << 16).unwrap();
    there.add_compute_node(node(2)).unwrap();
    there.register(node(2), Region::zeroed(1 << 12).unwrap()).unwrap();
    Some(there)
}

impl Two {
    fn new(config: IbvConfig) -> Option<Two> {
        let there = second(&config, THERE)?;
        let road = Arc::new(Road::default());
        let courier = Arc::clone(&road) as Arc<dyn Courier>;
        let here = IbvFabric::join(IbvConfig { epoch: HERE, ..config }, courier).unwrap();
        here.add_compute_node(node(1)).unwrap();
        let frames = Region::zeroed(1 << 12).unwrap();
        here.register(node(1), Arc::clone(&frames)).unwrap();
        let two = Two { here, there: there.clone(), road, frames };
        two.meet(&there, THERE);
        Some(two)
    }

    /// Adds the nodes of the second process to the first one.
    fn meet(&self, there: &IbvFabric, epoch: u64) {
        *self.road.there.lock().unwrap() = Some((epoch, there.clone()));
        for peer in peers() {
            let contact = there.contact(peer).unwrap();
            assert_eq!(contact.epoch, epoch);
            let contact: Contact = contact.to_string().parse().unwrap();
            self.here.add_peer(peer, contact);
        }
    }

    fn word(&self) -> u64 {
        self.there.memory(MemoryNodeId(0)).unwrap().words().u64(0)
    }
}

/// Rings and polls until the next completion.
fn next(endpoint: &mut IbvEndpoint) -> Completion {
    let clock = Clock::start();
    let end = clock.now() + PATIENCE;
    endpoint.ring();
    loop {
        let mut got = None;
        if endpoint.poll(&mut |completion| assert!(got.replace(completion).is_none())) {
            return got.unwrap();
        }
        assert!(clock.now() < end, "no completion");
        thread::yield_now();
    }
}

fn add(endpoint: &mut IbvEndpoint, token: u64) -> Result<u64, VerbError> {
    endpoint.post(MEMORY, token, &[WorkRequest::FetchAdd { remote: 0, add: 1 }]).unwrap();
    let completion = next(endpoint);
    assert_eq!(completion.token, token);
    completion.result.map(|outcome| outcome.old[0])
}

#[test]
fn nodes_that_know_each_other_through_bytes_reach_each_other() {
    let Some(two) = Two::new(devices::patient()) else { return };
    let Two { here, there, frames, .. } = &two;
    let mut endpoint = here.endpoint(node(1), None).unwrap();
    let local = LocalBuffer { region: RegionKey(0), offset: 64, len: 16 };
    let write = WorkRequest::WriteWord { remote: 72, value: 7 };
    let batch = [
        write,
        WorkRequest::FetchAdd { remote: 64, add: 5 },
        WorkRequest::CompareSwap { remote: 64, expected: 5, desired: 6 },
        WorkRequest::Read { remote: 64, local },
    ];
    endpoint.post(MEMORY, 1, &batch).unwrap();
    let completion = next(&mut endpoint);
    assert_eq!((completion.token, completion.result.unwrap().old), (1, [0, 5]));
    assert_eq!((frames.words().u64(64), frames.words().u64(72)), (6, 7));

    let message = Message { from: node(1), body: [3; Message::WORDS] };
    let to = Target::Compute(node(2), 0);
    endpoint.post(to, 2, &[write, WorkRequest::Send(message)]).unwrap();
    assert!(next(&mut endpoint).result.is_ok());
    let mut got = Vec::new();
    let inbox = there.inbox(node(2)).unwrap();
    while !inbox.receive(&mut |message| got.push(message)) {
        thread::yield_now();
    }
    assert_eq!(got, [message]);

    let unknown = Target::Compute(node(3), 0);
    let refused = endpoint.post(unknown, 3, &[write]);
    assert_eq!(refused, Err(VerbError::UnknownTarget { target: unknown }));
    let beyond = endpoint.post(to, 3, &[WorkRequest::WriteWord { remote: 1 << 12, value: 0 }]);
    assert!(matches!(beyond, Err(VerbError::OutOfBounds { size: 4096, .. })), "{beyond:?}");
    // Bytes that are not an offer, or an offer of another node, connect nothing.
    let connections = there.connections();
    assert_eq!(connections, 2);
    for bytes in [&[][..], &[1, 2], &[0; 56]] {
        there.deliver(MEMORY.into(), own(), HERE, bytes);
    }
    two.road.hangs.store(true, Ordering::Relaxed);
    let mut other = here.endpoint(node(1), None).unwrap();
    other.post(MEMORY, 1, &[write]).unwrap();
    other.ring();
    let (peer, offer, reply) = two.road.kept.lock().unwrap().pop().unwrap();
    there.deliver(peer, own(), HERE + 1, &offer);
    there.deliver(peer, Peer::Compute(node(2)), HERE, &offer);
    there.deliver(Peer::Memory(MemoryNodeId(1)), own(), HERE, &offer);
    assert_eq!(there.connections(), connections);
    reply(Ok(there.deliver(peer, own(), HERE, &offer)));
    assert!(next(&mut other).result.is_ok());
    // An end that is not used any more is destroyed.
    assert_eq!(there.connections(), connections + 1);
    two.road.hangs.store(false, Ordering::Relaxed);
    drop((endpoint, other));
    let clock = Clock::start();
    while there.connections() > 0 {
        assert!(clock.now() - latchwork_runtime::Time::ZERO < PATIENCE);
        thread::yield_now();
    }
}

#[test]
fn a_peer_that_does_not_answer_counts_as_disconnected_in_time() {
    let limit = Duration::from_millis(300);
    let Some(two) = Two::new(IbvConfig { connect_timeout: limit, ..devices::patient() }) else {
        return;
    };
    two.road.hangs.store(true, Ordering::Relaxed);
    let mut endpoint = two.here.endpoint(node(1), None).unwrap();
    let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
    let clock = Clock::start();
    endpoint.post(MEMORY, 1, &add).unwrap();
    endpoint.post(MEMORY, 2, &add).unwrap();
    let mut ended = Vec::new();
    endpoint.ring();
    while ended.len() < 2 {
        endpoint.poll(&mut |completion| ended.push(completion.result));
        thread::yield_now();
    }
    assert!(clock.now() - latchwork_runtime::Time::ZERO >= limit, "too early");
    assert_eq!(ended, [Err(VerbError::Disconnected { target: MEMORY }); 2]);

    // The peer comes back. The late answer to the old offer is ignored without harm.
    two.road.hangs.store(false, Ordering::Relaxed);
    let kept = std::mem::take(&mut *two.road.kept.lock().unwrap());
    assert_eq!(kept.len(), 1);
    for (peer, offer, reply) in kept {
        reply(Ok(two.there.deliver(peer, own(), HERE, &offer)));
    }
    let end = clock.now() + PATIENCE;
    loop {
        endpoint.post(MEMORY, 3, &add).unwrap();
        // On a busy machine the time limit may be too short for a connection.
        match next(&mut endpoint).result {
            Ok(outcome) => break assert_eq!(outcome.old, [0, 0]),
            Err(error) => assert!(clock.now() < end, "{error}"),
        }
    }
}

#[test]
fn batches_to_a_node_that_leaves_end() {
    let config = IbvConfig { inbox_capacity: 2, ..devices::patient() };
    let Some(Two { here, .. }) = Two::new(config) else { return };
    let mut endpoint = here.endpoint(node(1), None).unwrap();
    let target = Target::Compute(node(2), 0);
    let message = [WorkRequest::Send(Message { from: node(1), body: [0; Message::WORDS] })];
    // No worker receives. Two messages have room, and the other messages would wait without a
    // limit.
    for token in 0..5 {
        endpoint.post(target, token, &message).unwrap();
    }
    endpoint.ring();
    let mut ended = Vec::new();
    while ended.len() < 2 {
        endpoint.poll(&mut |completion| ended.push(completion.result));
    }
    assert!(here.remove_peer(target.into(), PATIENCE));
    while ended.len() < 5 {
        endpoint.poll(&mut |completion| ended.push(completion.result));
    }
    assert!(ended[..2].iter().all(Result::is_ok));
    assert_eq!(ended[2..], [Err(VerbError::Disconnected { target }); 3]);
    endpoint.post(target, 9, &message).unwrap();
    assert_eq!(next(&mut endpoint).result, Err(VerbError::Disconnected { target }));
    // A worker that posts its first batch to the node only now gets the same result.
    let mut later = here.endpoint(node(1), None).unwrap();
    later.post(target, 1, &[WorkRequest::WriteWord { remote: 0, value: 1 }]).unwrap();
    assert_eq!(next(&mut later).result, Err(VerbError::Disconnected { target }));
}

/// A node leaves, and a new node takes its name. Endpoints that have used the old node continue
/// with the new node's keys and queue pairs, and no request reaches the old node any more.
#[test]
fn a_node_that_comes_again_is_connected_anew() {
    let Some(two) = Two::new(devices::patient()) else { return };
    let mut endpoint = two.here.endpoint(node(1), None).unwrap();
    let mut idle = two.here.endpoint(node(1), None).unwrap();
    assert_eq!(add(&mut endpoint, 1), Ok(0));
    assert_eq!((add(&mut idle, 2), two.word()), (Ok(1), 2));

    for (round, epoch) in [(0, THERE + 1), (1, THERE + 2)] {
        // The new node registers more regions, so its keys differ from those of the old node.
        let again = devices::open(IbvConfig { epoch, ..devices::patient() }).unwrap();
        again.add_compute_node(node(2)).unwrap();
        for _ in 0..3 {
            again.register(node(2), Region::zeroed(1 << 12).unwrap()).unwrap();
        }
        again.serve_memory_as(MemoryNodeId(0), 1 << 16).unwrap();
        // Only in the first round is the old node removed before the new one is added.
        if round == 0 {
            assert!(two.here.remove_peer(MEMORY.into(), PATIENCE));
            assert_eq!(add(&mut endpoint, 3), Err(VerbError::Disconnected { target: MEMORY }));
        }
        two.meet(&again, epoch);
        // The first batch of an endpoint with a connection to the old node may fail.
        let first = add(&mut endpoint, 4);
        if round == 1 && first.is_err() {
            assert_eq!(first, Err(VerbError::Disconnected { target: MEMORY }));
            assert_eq!(add(&mut endpoint, 5), Ok(0));
        } else {
            assert_eq!(first, Ok(0));
        }
        let mut second = add(&mut idle, 6);
        if second.is_err() {
            second = add(&mut idle, 7);
        }
        assert_eq!(second, Ok(1));
        assert_eq!(again.memory(MemoryNodeId(0)).unwrap().words().u64(0), 2);
        assert_eq!(two.word(), 2, "the old one was touched");
    }
}

#[test]
fn a_node_that_is_fenced_touches_nothing_any_more_until_it_joins_anew() {
    // The connection fails after about 7 times 17 ms.
    let config = IbvConfig { timeout: 12, ..devices::patient() };
    let Some(two) = Two::new(config) else { return };
    let mut endpoint = two.here.endpoint(node(1), None).unwrap();
    assert_eq!((add(&mut endpoint, 1), two.word()), (Ok(0), 1));
    assert!(two.there.fence(own(), HERE - 1, PATIENCE), "an earlier one of its name");
    assert_eq!((add(&mut endpoint, 2), two.word()), (Ok(1), 2));
    assert!(two.there.fence(own(), HERE, PATIENCE));
    assert_eq!(two.there.connections(), 0);
    // The fenced process does not know of the fence yet. Its connection fails, and the second
    // process refuses a new connection.
    let gone = Err(VerbError::Disconnected { target: MEMORY });
    assert_eq!((add(&mut endpoint, 3), add(&mut endpoint, 4)), (gone, gone));
    assert_eq!((two.word(), two.there.connections()), (2, 0));
    // A new process with the same name and a higher member epoch is accepted.
    let road = Arc::new(Higher(Arc::clone(&two.road)));
    let config = IbvConfig { epoch: HERE + 1, ..devices::patient() };
    let again = IbvFabric::join(config, road).unwrap();
    again.add_compute_node(node(1)).unwrap();
    let contact = two.there.contact(MEMORY.into()).unwrap();
    again.add_peer(MEMORY.into(), contact);
    let mut endpoint = again.endpoint(node(1), None).unwrap();
    assert_eq!(add(&mut endpoint, 1), Ok(2));
}

/// The courier of a process that has joined later under the same name.
struct Higher(Arc<Road>);

impl Courier for Higher {
    fn carry(
        &self,
        peer: Peer,
        _epoch: u64,
        bytes: Vec<u8>,
        _limit: Duration,
        reply: ContactReply,
    ) {
        let (_, there) = self.0.there.lock().unwrap().clone().unwrap();
        reply(Ok(there.deliver(peer, own(), HERE + 1, &bytes)));
    }
}
