//! Ports on all backends: the control plane, engines, and futures that are dropped before their
//! end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_fabric::{AnyFabric, Port};
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver, VirtualWorker};
use latchwork_simulation::Kernel;
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, LocalBuffer, MemoryNodeId, Region, Target, VerbError, WorkRequest,
};
use latchwork_verbs_shm as shm;
use latchwork_verbs_sim as sim;

const MEMORY: Target = Target::Memory(MemoryNodeId(0));
const MEMORY_BYTES: usize = 1 << 20;

#[derive(Clone)]
struct Setup {
    fabric: AnyFabric,
    port: Rc<Port>,
    handle: Handle,
}

impl Setup {
    fn new(fabric: AnyFabric, handle: Handle) -> Setup {
        let node = ComputeNodeId::new(1).unwrap();
        fabric.add_memory_node(MEMORY_BYTES).unwrap();
        fabric.add_compute_node(node).unwrap();
        let port = Port::new(&fabric, node, &handle).unwrap();
        Setup { fabric, port, handle }
    }

    fn polled(self) -> Setup {
        self.handle.add_poller(self.port.poller());
        self
    }
}

fn at(offset: u64) -> GlobalAddr {
    GlobalAddr::new(MemoryNodeId(0), offset)
}

/// Runs a test on shared memory, over sockets (with the feature), and in simulated worlds.
fn on_all<F>(test: impl Fn(Setup) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let mut worker = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let setup = Setup::new(shm::ShmFabric::default().into(), worker.handle());
    worker.block_on(test(setup));
    #[cfg(feature = "tcp")]
    {
        use latchwork_verbs_tcp::{Secret, Security, TcpConfig, TcpFabric};
        let config = TcpConfig::new(Security::Secret(Secret::random().unwrap()));
        let mut worker = Executor::new(RealDriver::new(), ExecutorConfig::default());
        let setup = Setup::new(TcpFabric::new(config).unwrap().into(), worker.handle());
        worker.block_on(test(setup));
    }
    for seed in 0..20 {
        let kernel = Kernel::new(seed);
        let worker = VirtualWorker::spawn(&kernel, ExecutorConfig { seed, ..Default::default() });
        let fabric = sim::SimFabric::new(&kernel, sim::SimConfig::default());
        let setup = Setup::new(fabric.into(), worker.handle());
        worker.run(Duration::from_secs(1), test(setup)).expect("the test comes to its end");
    }
}

#[test]
fn word_operations_do_what_they_say() {
    on_all(|setup| async move {
        let port = setup.polled().port;
        assert_eq!(port.fetch_add(at(8), 5).await, Ok(0));
        assert_eq!(port.fetch_add(at(8), 2_u64.wrapping_neg()).await, Ok(5));
        assert_eq!(port.compare_swap(at(8), 4, 9).await, Ok(3));
        assert_eq!(port.compare_swap(at(8), 3, 9).await, Ok(3));
        assert_eq!(port.read_word(at(8)).await, Ok(9));
        port.write_word(at(16), 77).await.unwrap();
        assert_eq!(port.read_words(at(0), 4).await, Ok(vec![0, 9, 77, 0]));
        assert_eq!(port.read_words(at(0), 0).await, Ok(vec![]));
        assert_eq!((port.in_flight(), port.operations()), (0, 0));
    });
}

#[test]
fn transfers_longer_than_a_scratch_slot_are_cut() {
    on_all(|setup| async move {
        let Setup { port, fabric, .. } = setup.polled();
        let words: Vec<u64> = (0..1_300).map(|i| i * i).collect();
        port.write_words(at(8_000), &words).await.unwrap();
        assert_eq!(port.read_words(at(8_000), words.len()).await.as_ref(), Ok(&words));
        let memory = fabric.memory(MemoryNodeId(0)).unwrap();
        assert_eq!(memory.words().u64(8_000 + 8 * 1_299), 1_299 * 1_299);
        assert_eq!(memory.words().u64(8_000 + 8 * 1_300), 0);
    });
}

#[test]
fn a_refused_batch_leaves_nothing_behind() {
    on_all(|setup| async move {
        let port = setup.polled().port;
        let nowhere = Target::Memory(MemoryNodeId(5));
        let unknown = Err(VerbError::UnknownTarget { target: nowhere });
        let add = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
        assert_eq!(port.post(nowhere, &add, 1), unknown);
        assert_eq!(port.execute(nowhere, &add).await.map(drop), unknown);
        let end = at(MEMORY_BYTES as u64 - 8);
        // More transfers than slots: each slot must be released.
        for _ in 0..40 {
            let beyond = port.read_words(end, 2).await;
            assert!(matches!(beyond, Err(VerbError::OutOfBounds { .. })), "{beyond:?}");
            let beyond = port.write_words(end, &[1, 2]).await;
            assert!(matches!(beyond, Err(VerbError::OutOfBounds { .. })), "{beyond:?}");
        }
        let far = port.read_words(at((1 << 48) - 4096), usize::MAX / 16).await;
        assert!(matches!(far, Err(VerbError::OutOfBounds { .. })));
        let odd = port.write_word(at(12), 1).await;
        assert_eq!(odd, Err(VerbError::Misaligned { offset: 12, len: 8 }));
        assert_eq!((port.in_flight(), port.operations()), (0, 0));
    });
}

#[test]
fn more_transfers_than_scratch_slots_wait_for_each_other() {
    on_all(|setup| async move {
        let Setup { port, handle, .. } = setup.polled();
        port.write_words(at(0), &(0..64).collect::<Vec<_>>()).await.unwrap();
        let read = |i: u64| {
            let port = Rc::clone(&port);
            handle.spawn(async move { port.read_word(at(8 * i)).await })
        };
        let tasks: Vec<_> = (0..60_u64).map(read).collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), Ok(i as u64));
        }
    });
}

#[test]
fn an_engine_gets_each_tag_back_once_and_may_post_from_the_sink() {
    on_all(|setup| async move {
        let Setup { fabric, port, handle } = setup;
        let region = Region::zeroed(4096).unwrap();
        let key = fabric.register(port.node(), Arc::clone(&region)).unwrap();
        let local = LocalBuffer { region: key, offset: 64, len: 16 };
        let add = |add| WorkRequest::FetchAdd { remote: 0, add };
        for tag in 0..10 {
            let batch = [add(1), WorkRequest::Read { remote: 0, local }];
            port.post(MEMORY, &batch, tag).unwrap();
        }
        let tags = RefCell::new(Vec::new());
        let sum = RefCell::new(0);
        while tags.borrow().len() < 20 {
            port.ring();
            port.poll(&mut |tag, result| {
                tags.borrow_mut().push(tag);
                *sum.borrow_mut() += result.unwrap().old[0];
                if tag < 10 {
                    port.post(MEMORY, &[add(0)], tag + 10).unwrap();
                }
            });
            handle.sleep(Duration::from_nanos(100)).await;
        }
        let mut tags = tags.into_inner();
        tags.sort_unstable();
        assert!(tags.into_iter().eq(0..20));
        assert_eq!(fabric.memory(MemoryNodeId(0)).unwrap().words().u64(0), 10);
        assert!(region.words().u64(64) > 0);
        assert_eq!((port.in_flight(), port.operations()), (0, 0));
    });
}

/// Tasks write and read back ranges of their own. In between they drop transfers of other ranges at
/// random times. A dropped transfer must not release its scratch slot before its completion.
/// Otherwise its READ would overwrite the data of another transfer, or its WRITE would write the
/// data of another transfer.
#[test]
fn dropped_futures_leave_slots_and_slab_consistent() {
    const TASKS: u64 = 6;
    const LEN: usize = 48;
    on_all(|setup| async move {
        let Setup { fabric, port, handle } = setup.polled();
        let task = |id: u64| {
            let (port, handle) = (Rc::clone(&port), handle.clone());
            handle.clone().spawn(async move {
                let (own, trash) = (at(4096 * id), at(4096 * (id + TASKS)));
                for round in 0..30 {
                    let patience = Duration::from_nanos(handle.random_below(4_000));
                    let deadline = handle.now() + patience;
                    let drop_late = async {
                        match handle.random_below(3) {
                            0 => drop(port.read_words(trash, LEN).await.unwrap()),
                            1 => port.write_words(trash, &[u64::MAX; LEN]).await.unwrap(),
                            _ => drop(port.fetch_add(trash, 1).await.unwrap()),
                        }
                    };
                    let _ = handle.timeout(deadline, drop_late).await;
                    let words = [id << 32 | round; LEN];
                    port.write_words(own, &words).await.unwrap();
                    assert_eq!(port.read_words(own, LEN).await.unwrap(), words);
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        for task in tasks {
            task.await.unwrap();
        }
        while port.operations() > 0 {
            handle.sleep(Duration::from_nanos(500)).await;
        }
        assert_eq!(port.in_flight(), 0);
        let memory = fabric.memory(MemoryNodeId(0)).unwrap();
        for id in 0..TASKS {
            let word = |i: usize| memory.words().u64(4096 * id as usize + 8 * i);
            assert!((0..LEN).all(|i| word(i) == id << 32 | 29));
            assert_eq!(word(LEN), 0);
        }
    });
}

#[test]
fn a_future_dropped_before_its_first_poll_posts_nothing() {
    on_all(|setup| async move {
        let port = setup.polled().port;
        drop(port.fetch_add(at(0), 1));
        drop(port.write_words(at(0), &[1, 2, 3]));
        assert_eq!((port.in_flight(), port.operations()), (0, 0));
        assert_eq!(port.read_words(at(0), 3).await, Ok(vec![0; 3]));
    });
}

#[test]
fn the_same_seed_gives_the_same_event_hash() {
    let run = |seed| {
        let kernel = Kernel::new(seed);
        let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
        let fabric = sim::SimFabric::new(&kernel, sim::SimConfig::default());
        let setup = Setup::new(fabric.into(), worker.handle()).polled();
        let end = worker.run(Duration::from_secs(1), async move {
            let tasks: Vec<_> = (0..20)
                .map(|i| {
                    let port = Rc::clone(&setup.port);
                    setup.handle.spawn(async move {
                        port.write_words(at(64 * i), &[i; 8]).await.unwrap();
                        port.fetch_add(at(0), 1).await.unwrap();
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert!(end.is_ok());
        (kernel.event_hash(), kernel.events())
    };
    let first: Vec<_> = (0..8).map(run).collect();
    assert_eq!(first, (0..8).map(run).collect::<Vec<_>>());
    assert!(first.windows(2).all(|pair| pair[0].0 != pair[1].0));
}
