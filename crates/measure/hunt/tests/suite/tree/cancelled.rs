//! Tests with operations that are dropped at a random await. Acknowledged operations keep their
//! effect. The tree is valid, no line is lost, and no operation stays in progress.

use latchwork_cluster::Protocol;
use latchwork_hunt::{Scenario, run_on_threads};

use crate::tree::{clean, drawn, seeds, with_load};

#[test]
fn dropped_operations_happen_or_not_and_leave_nothing_behind() {
    let mut unposted = 0;
    for seed in seeds(3 << 20, 300) {
        let protocol = Protocol::ALL[seed as usize % 2];
        let scenario = with_load(drawn(seed, protocol), |load| load.dropped = 25);
        let report = clean(scenario);
        unposted += report.tree.expect("no node is lost").unposted_pages;
    }
    assert!(unposted > 0, "no splitter was dropped in its middle: nothing was tested");
}

#[test]
fn most_operations_are_dropped() {
    for seed in seeds(4 << 20, 50) {
        let protocol = Protocol::ALL[seed as usize % 2];
        clean(with_load(drawn(seed, protocol), |load| {
            (load.dropped, load.keys, load.loaded) = (80, 60, 0);
        }));
    }
}

#[test]
fn threads_drop_operations_too() {
    for protocol in Protocol::ALL {
        let scenario = with_load(drawn(5, protocol), |load| {
            (load.dropped, load.keys, load.loaded) = (20, 400, 0);
        });
        let shape = Scenario {
            compute_nodes: 2,
            workers: 2,
            tasks: 3,
            operations: 150,
            frames: 8,
            deadline_us: 10_000_000,
            ..scenario
        };
        assert_eq!(run_on_threads(&shape, |_| {}).failure, None, "{}", shape.to_toml());
    }
}
