//! Two compute nodes on two cores that take a line from each other.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use latchwork_benches::turns::by_turns;
use latchwork_benches::{cluster, lines};
use latchwork_cluster::ClusterConfig;

fn exchange(c: &mut Criterion) {
    let cluster = cluster(ClusterConfig::default());
    let line = lines(&cluster, 1)[0];
    let mut group = c.benchmark_group("two nodes");
    group.bench_function("hand over", |b| {
        b.iter_custom(|iters| {
            // One round has two hand-overs.
            by_turns(&cluster, line, iters, true).iter().sum::<Duration>() / 2
        });
    });
    group.bench_function("reader downgrades writer", |b| {
        b.iter_custom(|iters| by_turns(&cluster, line, iters, false)[1]);
    });
    group.bench_function("writer invalidates reader", |b| {
        b.iter_custom(|iters| by_turns(&cluster, line, iters, false)[0]);
    });
    group.finish();
}

criterion_group!(name = nodes; config = latchwork_benches::samples(2); targets = exchange);
criterion_main!(nodes);
