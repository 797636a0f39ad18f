//! Simulated worlds: real time per verb. The example `worlds` reports more about one long run.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use latchwork_benches::worlds::{BenchWorld, Shape};

/// The time of `iters` verbs, scaled from a run with about that number of verbs.
fn verbs(world: &BenchWorld, iters: u64) -> Duration {
    let figures = world.run(1 + iters / 64);
    figures.real_time.mul_f64(iters as f64 / figures.verbs.max(1) as f64)
}

fn under_load(c: &mut Criterion) {
    let mut group = c.benchmark_group("world, a verb");
    for (name, shape) in [("lines", Shape::lines()), ("tree", Shape::tree())] {
        let world = BenchWorld::new(shape);
        world.run(1_000);
        group.bench_function(name, |b| b.iter_custom(|iters| verbs(&world, iters)));
    }
    group.finish();
}

criterion_group!(name = worlds; config = latchwork_benches::samples(2); targets = under_load);
criterion_main!(worlds);
