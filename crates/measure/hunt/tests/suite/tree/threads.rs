//! Runs the tree operations on threads, with real races inside a node and between nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_cluster::Protocol;
use latchwork_hunt::{Scenario, run_on_threads};

use crate::tree::{drawn, with_load};

fn shape(nodes: usize, keys: u64, protocol: Protocol) -> Scenario {
    let scenario = with_load(drawn(nodes as u64, protocol), |load| {
        (load.dropped, load.keys, load.loaded, load.entries_per_page) = (0, keys, 0, 3);
    });
    Scenario {
        compute_nodes: nodes,
        workers: 2,
        tasks: 3,
        operations: 300,
        frames: 10,
        deadline_us: 10_000_000,
        ..scenario
    }
}

fn clean(scenario: &Scenario, progress: impl Fn(usize) + Clone + Sync + 'static) {
    let report = run_on_threads(scenario, progress);
    assert_eq!(report.failure, None, "{}", scenario.to_toml());
}

#[test]
fn one_order_explains_what_two_nodes_of_threads_saw() {
    for protocol in Protocol::ALL {
        clean(&shape(2, 300, protocol), |_| {});
        clean(&shape(2, 30, protocol), |_| {});
    }
}

/// Eight workers and four handlers on few cores: all of them make progress.
#[test]
fn four_nodes_of_threads_all_finish_and_none_starves() {
    for protocol in Protocol::ALL {
        let shape = shape(4, 300, protocol);
        let each = shape.tasks as u64 * shape.operations;
        let done: Arc<Vec<AtomicU64>> = Arc::new((0..8).map(|_| AtomicU64::new(0)).collect());
        // The progress of the slowest worker at the time when the fastest worker has almost
        // finished.
        let slowest = Arc::new(AtomicU64::new(u64::MAX));
        let count = {
            let (done, slowest) = (done.clone(), slowest.clone());
            move |worker: usize| {
                if done[worker].fetch_add(1, Ordering::Relaxed) + 1 == each {
                    let least = done.iter().map(|n| n.load(Ordering::Relaxed)).min();
                    let least = least.unwrap_or(0);
                    let _ = slowest.compare_exchange(
                        u64::MAX,
                        least,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                }
            }
        };
        clean(&shape, count);
        let slowest = slowest.load(Ordering::Relaxed);
        println!("{protocol}: when the first had done {each}, the last had done {slowest}");
        assert!(done.iter().all(|n| n.load(Ordering::Relaxed) >= each));
        assert!(slowest > 0, "{protocol}: a worker did nothing while another did everything");
    }
}
