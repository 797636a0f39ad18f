//! Operations that are dropped at any await: what was acknowledged stays, the tree is whole, no line is
//! lost, and nothing stays under way.

use latchwork_cluster::Protocol;

use crate::shape::{Shape, seeds};
use crate::world::{on_threads, simulate};

#[test]
fn dropped_operations_happen_or_not_and_leave_nothing_behind() {
    let mut unposted = 0;
    for seed in seeds(3 << 20, 150) {
        let protocol = Protocol::ALL[seed as usize % 2];
        let report = simulate(Shape { dropped: 25, ..Shape::drawn(seed, protocol) });
        unposted += report.statistics.unposted_pages;
    }
    assert!(unposted > 0, "no splitter was dropped in its middle: nothing was tested");
}

#[test]
fn most_operations_are_dropped() {
    for seed in seeds(4 << 20, 50) {
        let protocol = Protocol::ALL[seed as usize % 2];
        simulate(Shape { dropped: 80, keys: 60, loaded: 0, ..Shape::drawn(seed, protocol) });
    }
}

#[test]
fn threads_drop_operations_too() {
    for protocol in Protocol::ALL {
        let shape = Shape {
            nodes: 2,
            workers: 2,
            tasks: 3,
            operations: 150,
            frames: 8,
            keys: 400,
            loaded: 0,
            dropped: 20,
            ..Shape::drawn(5, protocol)
        };
        on_threads(shape, |_| {});
    }
}
