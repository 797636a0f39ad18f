//! One node and its lines: hits, misses with the eviction for their frames, upgrades.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use latchwork_benches::access::{LINE, copy_read, copy_write, touch_read, touch_write};
use latchwork_benches::ring::Ring;
use latchwork_benches::{Draws, cluster, lines, on_first};
use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_coherence::{AccessMode, CoherentMemory, Need};
use latchwork_verbs::GlobalAddr;

/// The time of `iters` calls of `access` on `lines`, which are all cached. If there are several
/// lines, each call draws one at random.
fn hits(
    cluster: &Embedded,
    lines: &[GlobalAddr],
    mode: AccessMode,
    iters: u64,
    access: impl Fn(&Member, GlobalAddr) -> u64 + Sync,
) -> Duration {
    on_first(cluster, async |member| {
        for &line in lines {
            drop(member.memory.ensure(Need { addr: line, mode }).await.expect("obtained"));
        }
        let mut draws = Draws::new(lines.len() as u64, 1);
        let start = member.handle.now();
        for _ in 0..iters {
            black_box(access(&member, lines[draws.draw() as usize]));
        }
        member.handle.now() - start
    })
}

fn cached(c: &mut Criterion) {
    let cluster = cluster(ClusterConfig::default());
    let one = lines(&cluster, 1);
    let many = lines(&cluster, 32 << 10);
    let mut group = c.benchmark_group("cached");
    group.bench_function("read, 8 bytes", |b| {
        b.iter_custom(|iters| hits(&cluster, &one, AccessMode::Shared, iters, touch_read));
    });
    group.bench_function("write, 8 bytes", |b| {
        b.iter_custom(|iters| hits(&cluster, &one, AccessMode::Exclusive, iters, touch_write));
    });
    group.bench_function("read, 8 bytes, lines of 64 MiB", |b| {
        b.iter_custom(|iters| hits(&cluster, &many, AccessMode::Shared, iters, touch_read));
    });
    group.throughput(Throughput::Bytes(LINE as u64));
    group.bench_function("read, whole line", |b| {
        b.iter_custom(|iters| hits(&cluster, &one, AccessMode::Shared, iters, copy_read));
    });
    group.bench_function("write, whole line", |b| {
        b.iter_custom(|iters| hits(&cluster, &one, AccessMode::Exclusive, iters, copy_write));
    });
    group.finish();
}

fn missed(c: &mut Criterion) {
    // All lines fit into the processor's cache. So the benchmark measures the code path and not the
    // memory.
    let ring = Ring::new(256, 8 * 256);
    let mut group = c.benchmark_group("miss");
    group.bench_function("shared, evicting", |b| {
        b.iter_custom(|iters| ring.misses(iters, AccessMode::Shared, 0));
    });
    group.bench_function("exclusive, evicting clean", |b| {
        b.iter_custom(|iters| ring.misses(iters, AccessMode::Exclusive, 0));
    });
    group.bench_function("exclusive, evicting dirty", |b| {
        b.iter_custom(|iters| ring.misses(iters, AccessMode::Exclusive, LINE - 32));
    });
    group.bench_function("upgrade", |b| b.iter_custom(|iters| ring.upgrades(iters)));
    group.finish();
}

criterion_group!(name = all; config = latchwork_benches::samples(1); targets = cached, missed);
criterion_main!(all);
