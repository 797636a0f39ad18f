//! The same operations on threads: real races inside a node and between nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_cluster::Protocol;

use crate::shape::Shape;
use crate::world::on_threads;

fn shape(nodes: usize, protocol: Protocol) -> Shape {
    Shape {
        nodes,
        workers: 2,
        tasks: 3,
        operations: 300,
        frames: 10,
        keys: 300,
        loaded: 0,
        ..Shape::drawn(nodes as u64, protocol)
    }
}

#[test]
fn one_order_explains_what_two_nodes_of_threads_saw() {
    for protocol in Protocol::ALL {
        on_threads(shape(2, protocol), |_| {});
        on_threads(Shape { keys: 30, ..shape(2, protocol) }, |_| {});
    }
}

/// Eight workers and four handlers on as few cores as there are: everybody gets on.
#[test]
fn four_nodes_of_threads_all_finish_and_nobody_starves() {
    for protocol in Protocol::ALL {
        let shape = shape(4, protocol);
        let each = shape.tasks * shape.operations;
        let done: Arc<Vec<AtomicU64>> = Arc::new((0..8).map(|_| AtomicU64::new(0)).collect());
        // What the slowest had done when the fastest was through.
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
        on_threads(shape, count);
        let slowest = slowest.load(Ordering::Relaxed);
        println!("{protocol}: when the first had done {each}, the last had done {slowest}");
        assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == each));
        assert!(slowest > 0, "{protocol}: a worker did nothing while another did everything");
    }
}
