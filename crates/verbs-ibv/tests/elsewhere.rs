//! Nodes of different fabrics, as of different processes, that know of each other through a directory only: everything crosses it as
//! bytes. Skipped where there are no RDMA devices.

#![cfg(target_os = "linux")]

mod devices;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_verbs::{
    Completion, ComputeNodeId, Endpoint as _, Inbox as _, LocalBuffer, MemoryNodeId, Message,
    Region, RegionKey, Request, Target, VerbError,
};
use latchwork_verbs_ibv::{
    Config, ConnectError, Directory, Endpoint, Fabric, Peer, RemoteMemory, Reply,
};

/// What one fabric knows of the other, which is set when both stand.
#[derive(Default)]
struct Other {
    fabric: OnceLock<Fabric>,
    // Offers are kept unanswered, as by a peer that hangs.
    hangs: AtomicBool,
    kept: Mutex<Vec<(Peer, Vec<u8>, Reply)>>,
    gone: AtomicU64,
}

impl Directory for Other {
    fn knows(&self, peer: Peer) -> bool {
        matches!(peer, Peer::Memory(_)) || peer == Peer::Compute(node(2))
    }

    fn memory(&self, target: Target) -> Option<RemoteMemory> {
        let bytes = self.fabric.get()?.remote(target)?.to_bytes();
        Some(RemoteMemory::from_bytes(&bytes))
    }

    fn is_gone(&self, _: Peer) -> bool {
        self.departures() > 0
    }

    fn departures(&self) -> u64 {
        self.gone.load(Ordering::Acquire)
    }

    fn connect(&self, peer: Peer, offer: Vec<u8>, reply: Reply) {
        if self.hangs.load(Ordering::Relaxed) {
            self.kept.lock().unwrap().push((peer, offer, reply));
            return;
        }
        // Later and on another thread, as from a socket.
        let fabric = self.fabric.get().unwrap().clone();
        thread::spawn(move || reply(fabric.answer(peer, &offer)));
    }

    fn close(&self, peer: Peer, pair: u32) {
        self.fabric.get().unwrap().close(peer, pair);
    }
}

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

const MEMORY: Target = Target::Memory(MemoryNodeId(0));

/// Compute node 1 on one fabric; memory node 0 and compute node 2 on another one.
struct Two {
    here: Fabric,
    there: Fabric,
    directory: Arc<Other>,
    frames: Arc<Region>,
}

fn two(config: Config) -> Option<Two> {
    let there = devices::open(config.clone())?;
    there.add_memory_node(1 << 16).unwrap();
    there.add_compute_node(node(2)).unwrap();
    there.register(node(2), Region::zeroed(1 << 12).unwrap()).unwrap();
    let directory = Arc::new(Other::default());
    assert!(directory.fabric.set(there.clone()).is_ok());
    let elsewhere = Arc::clone(&directory) as Arc<dyn Directory>;
    let here = Fabric::join(config, elsewhere).unwrap();
    here.add_compute_node(node(1)).unwrap();
    let frames = Region::zeroed(1 << 12).unwrap();
    here.register(node(1), Arc::clone(&frames)).unwrap();
    Some(Two { here, there, directory, frames })
}

/// Rings and polls until the next completion.
fn next(endpoint: &mut Endpoint) -> Completion {
    let clock = Clock::start();
    let end = clock.now() + Duration::from_secs(60);
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

#[test]
fn nodes_that_know_each_other_through_bytes_reach_each_other() {
    let Some(Two { here, there, frames, .. }) = two(devices::patient()) else { return };
    let mut endpoint = here.endpoint(node(1), None).unwrap();
    let local = LocalBuffer { region: RegionKey(0), offset: 64, len: 16 };
    let write = Request::WriteWord { remote: 72, value: 7 };
    let batch = [
        write,
        Request::FetchAdd { remote: 64, add: 5 },
        Request::CompareSwap { remote: 64, expected: 5, desired: 6 },
        Request::Read { remote: 64, local },
    ];
    endpoint.post(MEMORY, 1, &batch).unwrap();
    let completion = next(&mut endpoint);
    assert_eq!((completion.token, completion.result.unwrap().old), (1, [0, 5]));
    assert_eq!((frames.words().u64(64), frames.words().u64(72)), (6, 7));

    let message = Message { from: node(1), body: [3; Message::WORDS] };
    let to = Target::Compute(node(2), 0);
    endpoint.post(to, 2, &[write, Request::Send(message)]).unwrap();
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
    let beyond = endpoint.post(to, 3, &[Request::WriteWord { remote: 1 << 12, value: 0 }]);
    assert!(matches!(beyond, Err(VerbError::OutOfBounds { size: 4096, .. })), "{beyond:?}");
    assert_eq!(there.answer(Peer::Memory(MemoryNodeId(0)), &[1, 2]), Err(ConnectError::Malformed));
    assert_eq!(here.answer(Peer::Memory(MemoryNodeId(0)), &[]), Err(ConnectError::Malformed));
}

#[test]
fn a_peer_that_does_not_answer_counts_as_disconnected_in_time() {
    let limit = Duration::from_millis(300);
    let Some(two) = two(Config { connect_timeout: limit, ..devices::patient() }) else { return };
    two.directory.hangs.store(true, Ordering::Relaxed);
    let mut endpoint = two.here.endpoint(node(1), None).unwrap();
    let add = [Request::FetchAdd { remote: 0, add: 1 }];
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

    // It comes back. The answer to the old offer, which comes now, is of no use, and does no harm.
    two.directory.hangs.store(false, Ordering::Relaxed);
    let kept = std::mem::take(&mut *two.directory.kept.lock().unwrap());
    assert_eq!(kept.len(), 1);
    for (peer, offer, reply) in kept {
        reply(two.there.answer(peer, &offer));
    }
    endpoint.post(MEMORY, 3, &add).unwrap();
    assert_eq!(next(&mut endpoint).result.unwrap().old, [0, 0]);
}

#[test]
fn what_is_posted_to_a_node_that_departs_ends() {
    let config = Config { inbox_capacity: 2, ..devices::patient() };
    let Some(Two { here, directory, .. }) = two(config) else { return };
    let mut endpoint = here.endpoint(node(1), None).unwrap();
    let target = Target::Compute(node(2), 0);
    let message = [Request::Send(Message { from: node(1), body: [0; Message::WORDS] })];
    // Nobody receives: two have room, the rest would wait for ever.
    for token in 0..5 {
        endpoint.post(target, token, &message).unwrap();
    }
    endpoint.ring();
    let mut ended = Vec::new();
    while ended.len() < 2 {
        endpoint.poll(&mut |completion| ended.push(completion.result));
    }
    directory.gone.store(1, Ordering::Release);
    here.departed();
    while ended.len() < 5 {
        endpoint.poll(&mut |completion| ended.push(completion.result));
    }
    assert!(ended[..2].iter().all(Result::is_ok));
    assert_eq!(ended[2..], [Err(VerbError::Disconnected { target }); 3]);
    endpoint.post(target, 9, &message).unwrap();
    assert_eq!(next(&mut endpoint).result, Err(VerbError::Disconnected { target }));
}
