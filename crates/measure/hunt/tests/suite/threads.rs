//! Runs the workloads on threads, with real races, and checks the recorded histories.

use latchwork_cluster::Protocol;
use latchwork_hunt::scenario::{
    BufferedLoad, LinesLoad, LocksLoad, MemoryLoad, QueueLoad, RtreeLoad, ScenarioStoreOrder,
    TxnLoad, YcsbLoad,
};
use latchwork_hunt::{Scenario, SeededBug, Workload, WorldCheck, run_on_threads};
use latchwork_txn::Scheme;

fn scenario(protocol: Protocol, workload: Workload) -> Scenario {
    Scenario {
        compute_nodes: 3,
        workers: 2,
        tasks: 3,
        operations: 200,
        deadline_us: 10_000_000,
        protocol,
        workload,
        ..Scenario::default()
    }
}

fn clean(workload: &Workload) {
    for protocol in Protocol::ALL {
        let scenario = scenario(protocol, workload.clone());
        let report = run_on_threads(&scenario, |_| {});
        assert_eq!(report.failure, None, "{}", scenario.to_toml());
        assert!(report.operations >= scenario.total_operations(), "{}", report.operations);
    }
}

#[test]
fn lines() {
    clean(&Workload::Lines(LinesLoad::default()));
}

#[test]
fn write_buffers() {
    for order in [ScenarioStoreOrder::Tso, ScenarioStoreOrder::Pso] {
        clean(&Workload::Buffered(BufferedLoad { order, dropped: 10, ..BufferedLoad::default() }));
    }
}

#[test]
fn writes_that_overtake_each_other_are_found_on_threads_too() {
    let workload = Workload::Buffered(BufferedLoad::default());
    let plant = Some(SeededBug::Overtakes);
    let planted = Scenario { plant, ..scenario(Protocol::Selcc, workload) };
    let failure = run_on_threads(&planted, |_| {}).failure.expect("another order");
    assert_eq!(failure.check, WorldCheck::StoreOrder, "{failure}");
}

#[test]
fn memory() {
    clean(&Workload::Memory(MemoryLoad::default()));
}

#[test]
fn locks() {
    clean(&Workload::Locks(LocksLoad::default()));
}

/// With few frames, pages of the tree leave the caches all the time.
#[test]
fn boxes() {
    let workload = Workload::Rtree(RtreeLoad { boxes: 80, dropped: 10, entries_per_page: 3 });
    for (protocol, frames) in Protocol::ALL.into_iter().flat_map(|one| [(one, 24), (one, 128)]) {
        let scenario = Scenario { frames, ..scenario(protocol, workload.clone()) };
        let report = run_on_threads(&scenario, |_| {});
        assert_eq!(report.failure, None, "{}", scenario.to_toml());
        // A task that knows of no box has nothing to move.
        assert!(report.operations > scenario.total_operations() * 9 / 10, "{}", report.operations);
    }
}

#[test]
fn queues() {
    clean(&Workload::Queue(QueueLoad { keys: 60, queues: 3, dropped: 10, entries_per_page: 3 }));
}

#[test]
fn transactions() {
    for scheme in Scheme::ALL {
        clean(&Workload::Txn(TxnLoad { scheme, ..TxnLoad::default() }));
    }
}

#[test]
fn ycsb() {
    for mix in ["a", "b", "c", "d", "e", "f", "write-intensive", "range-write"] {
        clean(&Workload::Ycsb(YcsbLoad { mix: mix.to_owned(), ..YcsbLoad::default() }));
    }
}

#[test]
fn a_lost_write_is_found_on_threads_too() {
    let workload = Workload::Lines(LinesLoad::default());
    let plant = Some(SeededBug::Forgets);
    let planted = Scenario { plant, ..scenario(Protocol::Selcc, workload) };
    let failure = run_on_threads(&planted, |_| {}).failure.expect("writes were lost");
    assert_eq!(failure.check, WorldCheck::Linearizability, "{failure}");
}
