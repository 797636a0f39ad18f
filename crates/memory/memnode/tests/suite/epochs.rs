//! Epochs, scenario by scenario: the causes that delay the reuse of a freed line, and those that
//! must not delay it.

use std::rc::Rc;
use std::time::Duration;

use latchwork_memnode::{EpochWorker, PoolError, PoolSettings};
use latchwork_runtime::Handle;
use latchwork_simulation::RunEnd;
use latchwork_verbs_sim::Faults;

use crate::common::{LIMIT, Node, World};

const TICK: Duration = Duration::from_micros(50);
const SETTINGS: PoolSettings = PoolSettings {
    stripes: 1,
    tick_interval: TICK,
    idle_after: Duration::from_micros(500),
    reuse_wait: Duration::from_millis(2),
    deadline: Duration::from_secs(1),
};
/// Long enough for freed lines to become ready.
const SETTLED: Duration = Duration::from_micros(50 * 40);

fn cluster(seed: u64, nodes: u8, workers: usize) -> (World, Vec<Node>) {
    let world = World::new(seed, &[4], nodes, workers);
    let pool = world.format();
    let nodes = (1..=nodes).map(|id| world.register(id, &pool, SETTINGS)).collect();
    (world, nodes)
}

async fn stop(seat: &Rc<EpochWorker>, handle: &Handle) {
    let deadline = handle.now() + SETTLED;
    while !seat.stop(handle) {
        assert!(handle.now() < deadline, "the worker does not stop");
        handle.yield_now().await;
    }
}

#[test]
fn an_operation_that_began_before_the_free_holds_the_line_back_until_it_ends() {
    for seed in 0..50 {
        let (world, nodes) = cluster(seed, 2, 1);
        let [one, two] = [1, 2].map(|id| world.worker(id));
        let [first, second] = [nodes[0].clone(), nodes[1].clone()];
        let workers = [first.worker(&one), second.worker(&two)];
        let old = world.run(&two, {
            let (worker, handle) = (workers[1].clone(), two.handle.clone());
            async move { worker.enter(&handle).await.unwrap() }
        });
        world.run(&one, {
            let (worker, one, first) = (workers[0].clone(), one.clone(), first.clone());
            async move {
                let operation = worker.enter(&one.handle).await.unwrap();
                let line = first.lines.allocate(&one.port, &one.handle).await.unwrap();
                first.lines.retire(line).unwrap();
                drop(operation);
                // Operations begin and end on both nodes.
                for _ in 0..40 {
                    let _operation = worker.enter(&one.handle).await.unwrap();
                    one.handle.sleep(TICK).await;
                    assert_eq!(first.lines.resting(), 1, "seed {seed}");
                }
            }
        });
        world.run(&two, async move { drop(old) });
        world.run(&one, {
            let (worker, one, first) = (workers[0].clone(), one.clone(), first.clone());
            async move {
                for _ in 0..40 {
                    let _operation = worker.enter(&one.handle).await.unwrap();
                    one.handle.sleep(TICK).await;
                }
                assert_eq!(first.lines.resting(), 0, "seed {seed}");
            }
        });
    }
}

#[test]
fn one_long_operation_holds_back_while_others_of_its_worker_come_and_go() {
    for seed in 0..30 {
        let (world, nodes) = cluster(seed, 2, 1);
        let [one, two] = [1, 2].map(|id| world.worker(id));
        let [first, second] = [nodes[0].clone(), nodes[1].clone()];
        let [busy, freeing] = [second.worker(&two), first.worker(&one)];
        let others = two.handle.spawn({
            let (worker, two) = (busy.clone(), two.clone());
            async move {
                let mut long = None;
                for turn in 0..200 {
                    let operation = worker.enter(&two.handle).await.unwrap();
                    two.pause(TICK).await;
                    if turn == 20 {
                        long = Some(operation);
                    }
                }
                let until = two.handle.now();
                drop(long);
                until
            }
        });
        let freed = one.handle.spawn({
            let one = one.clone();
            async move {
                one.handle.sleep(TICK * 30).await;
                let operation = freeing.enter(&one.handle).await.unwrap();
                let line = first.lines.allocate(&one.port, &one.handle).await.unwrap();
                first.lines.retire(line).unwrap();
                drop(operation);
                while first.lines.resting() > 0 {
                    let _operation = freeing.enter(&one.handle).await.unwrap();
                    one.handle.sleep(TICK / 4).await;
                }
                one.handle.now()
            }
        });
        let times = world.run_all(vec![others, freed]);
        assert!(times[1] > times[0], "seed {seed}: ready {:?}, ended {:?}", times[1], times[0]);
        assert!(times[1] < times[0] + SETTLED, "and soon after");
    }
}

#[test]
fn operations_that_began_after_the_free_hold_nothing_back() {
    for seed in 0..30 {
        let (world, nodes) = cluster(seed, 2, 1);
        let [one, two] = [1, 2].map(|id| world.worker(id));
        let [first, second] = [nodes[0].clone(), nodes[1].clone()];
        let [freeing, late] = [first.worker(&one), second.worker(&two)];
        let frees = one.handle.clone().spawn(async move {
            let line = first.lines.allocate(&one.port, &one.handle).await.unwrap();
            first.lines.retire(line).unwrap();
            let operation = freeing.enter(&one.handle).await.unwrap();
            one.handle.sleep(TICK * 4).await;
            assert_eq!(first.lines.resting(), 1, "its own operation began before the stamp");
            drop(operation);
            while first.lines.resting() > 0 {
                let _operation = freeing.enter(&one.handle).await.unwrap();
                one.handle.sleep(TICK).await;
            }
            one.handle.now()
        });
        let began = two.handle.clone().spawn(async move {
            // An operation that begins after the mark, and stays in progress.
            two.handle.sleep(TICK * 6).await;
            let _operation = late.enter(&two.handle).await.unwrap();
            let began = two.handle.now();
            two.handle.sleep(SETTLED).await;
            began
        });
        let times = world.run_all(vec![frees, began]);
        assert!(times[0] < times[1] + SETTLED, "seed {seed}");
    }
}

#[test]
fn idle_nodes_hold_nothing_back() {
    for seed in 0..30 {
        let (world, nodes) = cluster(seed, 3, 2);
        // Node 2 was active and became idle; node 3 was never active.
        for (node, id) in [(&nodes[1], 2)] {
            for worker in &world.workers[id - 1] {
                let seat = node.worker(worker);
                let worker = worker.clone();
                world.run(&worker.clone(), async move {
                    drop(seat.enter(&worker.handle).await.unwrap());
                    worker.handle.sleep(SETTLED).await;
                });
            }
            assert!(!node.epochs.is_active());
        }
        let (one, first) = (world.worker(1), nodes[0].clone());
        let seat = first.worker(&one);
        let lines = first.lines.clone();
        world.run(&one.clone(), async move {
            let line = first.lines.allocate(&one.port, &one.handle).await.unwrap();
            first.lines.retire(line).unwrap();
            for _ in 0..10 {
                let _operation = seat.enter(&one.handle).await.unwrap();
                one.handle.sleep(TICK).await;
            }
        });
        assert_eq!(lines.resting(), 0, "seed {seed}");
    }
}

#[test]
fn a_parked_worker_holds_nothing_back_while_its_node_is_at_work() {
    let world = World::new(1, &[4], 1, 2);
    let pool = world.format();
    let settings = PoolSettings { idle_after: SETTLED * 1000, ..SETTINGS };
    let node = world.register(1, &pool, settings);
    let [works, parks] = [0, 1].map(|i| world.workers[0][i].clone());
    let parked = node.worker(&parks);
    world.run(&parks.clone(), async move {
        drop(parked.enter(&parks.handle).await.unwrap());
        parks.handle.sleep(TICK).await;
    });
    let seat = node.worker(&works);
    world.run(&works.clone(), async move {
        let line = node.lines.allocate(&works.port, &works.handle).await.unwrap();
        node.lines.retire(line).unwrap();
        for _ in 0..10 {
            let _operation = seat.enter(&works.handle).await.unwrap();
            works.handle.sleep(TICK).await;
        }
        assert_eq!(node.lines.resting(), 0);
    });
}

#[test]
fn an_idle_cluster_comes_to_rest() {
    let (world, nodes) = cluster(1, 3, 2);
    let mut tasks = Vec::new();
    for (node, workers) in nodes.iter().zip(&world.workers) {
        for worker in workers.iter().cloned() {
            let (node, seat) = (node.clone(), node.worker(&worker));
            tasks.push(worker.handle.clone().spawn(async move {
                for _ in 0..20 {
                    let _operation = seat.enter(&worker.handle).await.unwrap();
                    let line = node.lines.allocate(&worker.port, &worker.handle).await.unwrap();
                    worker.pause(TICK).await;
                    node.lines.retire(line).unwrap();
                }
            }));
        }
    }
    world.run_all(tasks);
    // No worker has an event left, although retired lines wait.
    let end = world.kernel.run_until(world.kernel.now() + LIMIT, || false);
    assert_eq!(end, RunEnd::Quiet);
    for node in &nodes {
        assert!(!node.epochs.is_active());
        assert!(node.lines.resting() > 0);
    }
}

#[test]
fn a_node_that_left_holds_nothing_back_and_its_id_can_be_taken_again() {
    let (world, nodes) = cluster(1, 2, 1);
    let [one, two] = [1, 2].map(|id| world.worker(id));
    let [first, second] = [nodes[0].clone(), nodes[1].clone()];
    let pool = first.epochs.pool().clone();
    let seat = second.worker(&two);
    world.run(&two.clone(), async move {
        let again = Node::register;
        let taken =
            latchwork_memnode::Epochs::register(&pool, &two.port, two.port.node(), SETTINGS);
        assert!(matches!(taken.await, Err(PoolError::NodeIdTaken { node: 2 })));
        let operation = seat.enter(&two.handle).await.unwrap();
        assert!(!seat.stop(&two.handle), "an operation is in progress");
        let left = second.epochs.unregister(&two.port).await;
        assert_eq!(left, Err(PoolError::Busy { node: 2 }));
        assert!(second.epochs.is_active() && seat.try_enter().is_some());
        drop(operation);
        stop(&seat, &two.handle).await;
        second.epochs.unregister(&two.port).await.unwrap();
        assert!(seat.try_enter().is_none());
        let entered = seat.enter(&two.handle).await.map(drop);
        assert_eq!(entered, Err(PoolError::NotRegistered { node: 2 }));
        assert_eq!(second.epochs.set_idle(&two.port).await, Ok(true));
        let renewed = again(&pool, &two.port, SETTINGS).await;
        assert_ne!(renewed.epochs.registration(), second.epochs.registration());
        renewed.epochs.unregister(&two.port).await.unwrap();
    });
    let seat = first.worker(&one);
    world.run(&one.clone(), async move {
        let line = first.lines.allocate(&one.port, &one.handle).await.unwrap();
        first.lines.retire(line).unwrap();
        for _ in 0..10 {
            let _operation = seat.enter(&one.handle).await.unwrap();
            one.handle.sleep(TICK).await;
        }
        assert_eq!(first.lines.resting(), 0);
    });
}

#[test]
fn a_slot_that_was_cleared_by_others_is_noticed() {
    let (world, nodes) = cluster(1, 1, 1);
    let (one, first) = (world.worker(1), nodes[0].clone());
    let seat = first.worker(&one);
    let memory = world.fabric.memory(latchwork_verbs::MemoryNodeId(0)).unwrap();
    world.run(&one.clone(), async move {
        memory.words().set_u64(512, 0);
        let entered = seat.enter(&one.handle).await.map(drop);
        assert_eq!(entered, Err(PoolError::NotRegistered { node: 1 }));
    });
}

/// Bug: a node that became idle blocks all nodes. Mechanism: the future that published IDLE was
/// dropped before its verb took effect. The next call saw the idle phase and did not write the
/// slot.
#[test]
fn going_idle_can_be_dropped_half_way_and_done_again() {
    for patience in (0..4_000).step_by(200) {
        let (world, nodes) = cluster(1, 1, 1);
        let (one, first) = (world.worker(1), nodes[0].clone());
        let epochs = first.epochs.clone();
        world.run(&one.clone(), async move {
            let (port, handle) = (&one.port, &one.handle);
            epochs.set_active(port, handle).await.unwrap();
            let deadline = handle.now() + Duration::from_nanos(patience);
            let _ = handle.timeout(deadline, epochs.set_idle(port)).await;
            assert_eq!(epochs.set_idle(port).await, Ok(true));
        });
        assert_eq!(world.word(512) << 20, u64::MAX << 20, "published idle");
    }
}

/// Bug: a node without operations blocks all nodes. Mechanisms: `enter` was dropped while its bound
/// was in flight; or the last online worker stopped after the others had rested.
#[test]
fn a_node_falls_idle_after_abandoned_entries_and_stopped_workers() {
    for patience in (0..4_000).step_by(100) {
        let (world, nodes) = cluster(patience, 1, 2);
        let epochs = nodes[0].epochs.clone();
        let [one, two] = [0, 1].map(|i| world.workers[0][i].clone());
        let seats = [&one, &two].map(|worker| nodes[0].worker(worker));
        let published_idle = || world.word(512) << 20 == u64::MAX << 20;

        let seat = seats[0].clone();
        world.run(&one.clone(), async move {
            let deadline = one.handle.now() + Duration::from_nanos(patience);
            let _ = one.handle.timeout(deadline, seat.enter(&one.handle)).await;
            one.handle.sleep(SETTLED).await;
        });
        assert!(!epochs.is_active() && published_idle(), "patience {patience}");

        let seat = seats[1].clone();
        world.run(&two.clone(), async move {
            drop(seat.enter(&two.handle).await.unwrap());
            stop(&seat, &two.handle).await;
        });
        assert!(!epochs.is_active() && published_idle());
    }
}

/// Bug: no freed line is ever reused. Mechanism: a node died during an operation, and its bound
/// stays. Fix: a node that knows that the dead node is fenced empties its slot.
#[test]
fn a_dead_node_holds_lines_back_until_it_is_retired() {
    let (world, nodes) = cluster(1, 3, 1);
    let two = world.worker(2);
    let (seat, epochs) = (nodes[1].worker(&two), nodes[1].epochs.clone());
    world.run(&two.clone(), async move {
        // The operation never ends: its worker is never run again.
        std::mem::forget(seat.enter(&two.handle).await.unwrap());
        two.handle.remove_poller(&(seat as Rc<dyn latchwork_runtime::Poller>));
        drop(epochs);
    });
    let [one, three] = [1, 3].map(|id| world.worker(id));
    let (first, seat) = (nodes[0].clone(), nodes[0].worker(&one));
    // The number of waiting lines at the end.
    let pass = |frees: bool| {
        let (one, first, seat) = (one.clone(), first.clone(), seat.clone());
        world.run(&one.clone(), async move {
            if frees {
                let line = first.lines.allocate(&one.port, &one.handle).await.unwrap();
                first.lines.retire(line).unwrap();
            }
            for _ in 0..20 {
                let _operation = seat.enter(&one.handle).await.unwrap();
                one.handle.sleep(TICK).await;
            }
            first.lines.resting()
        })
    };
    assert_eq!(pass(true), 1, "the dead one may hold its address");
    // By several workers, and several times.
    for worker in [&one, &three, &one] {
        let (port, dead) = (worker.port.clone(), two.port.node());
        let retired = async move { latchwork_memnode::Epochs::retire(&port, dead).await };
        assert_eq!(world.run(worker, retired), Ok(()));
    }
    assert_eq!(pass(false), 0);
    world.run(&one.clone(), async move {
        stop(&seat, &one.handle).await;
        let late = one.handle.now() + 10 * TICK;
        let over = first.epochs.outlast(&one.port, &one.handle, late).await;
        assert_eq!(over, Ok(true), "nor does anybody wait for it");
    });
}

/// Bug: the write that empties the slot takes effect with an ambiguous outcome. The second attempt
/// finds the slot empty, and reports that the node was not registered.
#[test]
fn a_node_leaves_although_the_outcome_of_its_write_is_ambiguous() {
    for seed in 0..100 {
        let (world, nodes) = cluster(seed, 1, 1);
        let (node, one) = (nodes[0].clone(), world.worker(1));
        world.sim.set_faults(Faults { fail_one_in: 2, ..Faults::NONE });
        let port = one.port.clone();
        let left = world.run(&one, async move { node.epochs.unregister(&port).await });
        assert_eq!(left, Ok(()), "seed {seed}");
    }
}
