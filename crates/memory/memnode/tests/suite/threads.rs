//! Real threads on shared memory: the races inside a node. A simulated world cannot show these
//! races, because it has one thread.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use latchwork_fabric::{AnyFabric, Port};
use latchwork_memnode::{
    Catalogue, EpochWorker, Epochs, Geometry, LineAllocator, ObjectKind, Pool, PoolError,
    PoolSettings,
};
use latchwork_runtime::sync::{Arc, AtomicUsize, Ordering};
use latchwork_runtime::{Clock, Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_verbs::{ComputeNodeId, GlobalAddr};
use latchwork_verbs_shm as shm;

const CHUNK: u64 = 64 << 10;
const NODES: u8 = 2;
const WORKERS: usize = 2;
const SETTINGS: PoolSettings = PoolSettings {
    stripes: 1,
    tick_interval: Duration::from_micros(20),
    idle_after: Duration::from_micros(50),
    reuse_wait: Duration::from_millis(200),
    deadline: Duration::from_secs(30),
};

#[derive(Clone)]
struct Member {
    epochs: Arc<Epochs>,
    lines: Arc<LineAllocator>,
    catalogue: Arc<Catalogue>,
}

fn worker(
    fabric: &shm::ShmFabric,
    id: u8,
    clock: Clock,
) -> (Executor<RealDriver>, Handle, Rc<Port>) {
    let config = ExecutorConfig { seed: u64::from(id), ..ExecutorConfig::default() };
    let executor = Executor::new(RealDriver::with_clock(clock), config);
    let handle = executor.handle();
    let fabric = AnyFabric::from(fabric.clone());
    let port = Port::new(&fabric, ComputeNodeId::new(id).unwrap(), &handle).unwrap();
    handle.add_poller(port.poller());
    (executor, handle, port)
}

async fn stop(seat: &Rc<EpochWorker>, handle: &Handle) {
    let deadline = handle.now() + SETTINGS.deadline;
    while !seat.stop(handle) {
        assert!(handle.now() < deadline, "the worker does not stop");
        handle.yield_now().await;
    }
}

/// Runs `work` on `WORKERS` threads of each compute node, and returns the results.
fn on_all_workers<T, F>(
    chunks: u64,
    work: impl Fn(Member, usize, Rc<Port>, Handle, Rc<EpochWorker>) -> F + Sync,
) -> Vec<T>
where
    T: Send,
    F: Future<Output = T>,
{
    let fabric = shm::ShmFabric::default();
    let bytes = (chunks + 1) * CHUNK;
    let memory = fabric.add_memory_node(bytes as usize).unwrap();
    for id in 1..=NODES {
        fabric.add_compute_node(ComputeNodeId::new(id).unwrap()).unwrap();
    }
    let clock = Clock::start();
    let (mut executor, _, port) = worker(&fabric, 1, clock);
    let members: Vec<Member> = executor.block_on(async {
        let geometry = Geometry::new(CHUNK, 512).unwrap();
        let pool = Pool::format(&port, &[(memory, bytes)], geometry, 1).await.unwrap();
        let mut members = Vec::new();
        for id in 1..=NODES {
            let id = ComputeNodeId::new(id).unwrap();
            let epochs = Epochs::register(&pool, &port, id, SETTINGS).await.unwrap();
            let lines = LineAllocator::new(&epochs);
            members.push(Member { epochs, lines, catalogue: Arc::new(pool.catalogue()) });
        }
        members
    });
    drop(executor);
    let barrier = Barrier::new(usize::from(NODES) * WORKERS);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, member) in members.iter().enumerate() {
            for lane in 0..WORKERS {
                let (fabric, member, barrier, work) = (&fabric, member.clone(), &barrier, &work);
                threads.push(scope.spawn(move || {
                    let (mut executor, handle, port) = worker(fabric, index as u8 + 1, clock);
                    let seat = EpochWorker::start(&member.epochs, &port, &handle);
                    barrier.wait();
                    let lane = index * WORKERS + lane;
                    executor.block_on(async {
                        let work = work(member, lane, port, handle.clone(), seat.clone());
                        let result = work.await;
                        stop(&seat, &handle).await;
                        assert_eq!(seat.take_error(), None);
                        result
                    })
                }));
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn what_a_node_shares_may_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Pool>();
    shared::<Epochs>();
    shared::<LineAllocator>();
    shared::<Catalogue>();
    shared::<PoolError>();
}

#[test]
fn threads_that_take_everything_take_each_line_once() {
    let lines = on_all_workers(40, |member, _, port, handle, _seat| async move {
        let mut mine = Vec::new();
        while let Ok(line) = member.lines.allocate(&port, &handle).await {
            mine.push(line);
        }
        mine
    });
    let distinct: BTreeSet<GlobalAddr> = lines.iter().flatten().copied().collect();
    assert_eq!(distinct.len(), 40 * 126);
    assert_eq!(lines.iter().map(Vec::len).sum::<usize>(), 40 * 126);
}

#[test]
fn of_several_threads_that_register_a_name_one_succeeds() {
    let won = on_all_workers(1, |member, lane, port, _handle, _seat| async move {
        let mut won = 0;
        for n in 0..100 {
            let name = format!("object {n}");
            match member.catalogue.register(&port, &name, ObjectKind(1), lane as u64).await {
                Ok(()) => won += 1,
                Err(error) => assert_eq!(error, PoolError::AlreadyExists { name }),
            }
        }
        assert_eq!(member.catalogue.list(&port).await.unwrap().len(), 100);
        won
    });
    assert_eq!(won.iter().sum::<u32>(), 100);
}

/// Readers follow pointers to lines and read them for a while. Writers let the pointers name new
/// lines and free the old ones. Pointers and lives are as in `reuse.rs`.
#[test]
fn no_reader_meets_a_reused_line() {
    const POINTERS: u64 = 4;
    let pointer = |n: u64| GlobalAddr::from_bits(1536 + 8 * (n % POINTERS));
    let [reads, rests, fresh] = [0; 3].map(AtomicUsize::new);
    let (reads_seen, rests_seen, fresh_seen) = (&reads, &rests, &fresh);
    on_all_workers(40, |member, lane, port, handle, seat| async move {
        let lanes = u64::from(NODES) * WORKERS as u64;
        for turn in 0..2_000 {
            let life = 1 + lane as u64 + turn * lanes;
            if seat.try_enter().is_none() {
                rests_seen.fetch_add(1, Ordering::Relaxed);
            }
            let operation = seat.enter(&handle).await.unwrap();
            let pointer = pointer(handle.random());
            if (turn + lane as u64).is_multiple_of(2) {
                let pointed = port.read_word(pointer).await.unwrap();
                for _ in 0..handle.random_below(4) {
                    let line = GlobalAddr::from_bits((pointed & 0xffff_ffff) * 512);
                    if !line.is_null() {
                        assert_eq!(port.read_word(line).await.unwrap(), pointed >> 32, "{line}");
                        reads_seen.fetch_add(1, Ordering::Relaxed);
                    }
                    handle.yield_now().await;
                }
            } else {
                let line = member.lines.allocate(&port, &handle).await.unwrap();
                let first_life = port.read_word(line).await.unwrap() == 0;
                fresh_seen.fetch_add(usize::from(first_life), Ordering::Relaxed);
                port.write_word(line, life).await.unwrap();
                let mut expected = port.read_word(pointer).await.unwrap();
                let desired = (line.bits() / 512) | (life << 32);
                loop {
                    match port.compare_swap(pointer, expected, desired).await.unwrap() {
                        old if old == expected => break,
                        old => expected = old,
                    }
                }
                if expected != 0 {
                    let old = GlobalAddr::from_bits((expected & 0xffff_ffff) * 512);
                    member.lines.retire(old).unwrap();
                }
            }
            drop(operation);
            if turn.is_multiple_of(64) {
                let deadline = handle.now() + SETTINGS.deadline;
                while member.epochs.is_active() {
                    assert!(handle.now() < deadline, "the node does not fall idle");
                    handle.sleep(SETTINGS.idle_after).await;
                }
            }
        }
    });
    assert!(reads.into_inner() > 1_000);
    assert!(rests.into_inner() > 30, "nodes fell idle now and then");
    let fresh = fresh.into_inner();
    assert!(fresh < 3_500, "lines were reused");
}
