//! One node and its lines: hits, misses with the eviction that makes room for them, upgrades.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use latchwork_benches::access::{
    LINE, copy_read, copy_write, touch_read, touch_write, upgrade_each,
};
use latchwork_benches::{Draws, cluster, lines, on_first};
use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_coherence::{CoherentMemory, Mode, Need};
use latchwork_verbs::GlobalAddr;

/// `iters` times `access` to lines of `lines`, which are all cached; drawn at random if there are
/// several.
fn hits(
    cluster: &Embedded,
    lines: &[GlobalAddr],
    mode: Mode,
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
        b.iter_custom(|iters| hits(&cluster, &one, Mode::Shared, iters, touch_read));
    });
    group.bench_function("write, 8 bytes", |b| {
        b.iter_custom(|iters| hits(&cluster, &one, Mode::Exclusive, iters, touch_write));
    });
    group.bench_function("read, 8 bytes, lines of 64 MiB", |b| {
        b.iter_custom(|iters| hits(&cluster, &many, Mode::Shared, iters, touch_read));
    });
    group.throughput(Throughput::Bytes(LINE as u64));
    group.bench_function("read, whole line", |b| {
        b.iter_custom(|iters| hits(&cluster, &one, Mode::Shared, iters, copy_read));
    });
    group.bench_function("write, whole line", |b| {
        b.iter_custom(|iters| hits(&cluster, &one, Mode::Exclusive, iters, copy_write));
    });
    group.finish();
}

/// A cache of 256 frames, and a ring of lines so long that a line is long gone when its turn comes
/// again. All of it fits the processor's cache: what is measured is the way, not the memory.
struct Ring {
    cluster: Embedded,
    lines: Vec<GlobalAddr>,
    next: Cell<usize>,
}

impl Ring {
    fn new() -> Ring {
        let frames = 256;
        let config = ClusterConfig {
            cache_bytes: frames * LINE * 11 / 10,
            memory_bytes: 64 << 20,
            ..ClusterConfig::default()
        };
        let cluster = cluster(config);
        let lines = lines(&cluster, 8 * frames);
        Ring { cluster, lines, next: Cell::new(0) }
    }

    /// The next `iters` lines, as often around as it takes.
    fn take(&self, iters: u64) -> impl Iterator<Item = GlobalAddr> + Clone {
        let start = self.next.get();
        let len = self.lines.len();
        self.next.set((start + iters as usize) % len);
        (0..iters as usize).map(move |i| self.lines[(start + i) % len])
    }
}

/// Time per miss: the few lines that a random replacement spared are not counted.
fn misses(ring: &Ring, iters: u64, mode: Mode, dirty: usize) -> Duration {
    let before = ring.cluster.counters();
    let lines: Vec<GlobalAddr> = ring.take(iters).collect();
    let lines = &lines;
    let time = on_first(&ring.cluster, async |member| {
        let start = member.handle.now();
        for &addr in lines {
            let ticket = member.memory.ensure(Need { addr, mode }).await.expect("obtained");
            if mode == Mode::Exclusive {
                let mut guard = member.memory.try_write(addr).expect("reserved");
                guard.mark_dirty(0..dirty);
            } else {
                black_box(touch_read(&member, addr));
            }
            drop(ticket);
        }
        member.handle.now() - start
    });
    let missed = (ring.cluster.counters() - before).cache_misses;
    time.mul_f64(iters as f64 / missed.max(1) as f64)
}

/// Time per upgrade of a line that was just read.
fn upgrades(ring: &Ring, iters: u64) -> Duration {
    let mut left = iters;
    let mut time = Duration::ZERO;
    while left > 0 {
        let lines: Vec<GlobalAddr> = ring.take(left).collect();
        let lines = &lines;
        let (kept, spent) = upgrade_each(&ring.cluster, lines);
        left -= kept;
        time += spent;
    }
    time
}

fn missed(c: &mut Criterion) {
    let ring = Ring::new();
    let mut group = c.benchmark_group("miss");
    group.bench_function("shared, evicting", |b| {
        b.iter_custom(|iters| misses(&ring, iters, Mode::Shared, 0));
    });
    group.bench_function("exclusive, evicting clean", |b| {
        b.iter_custom(|iters| misses(&ring, iters, Mode::Exclusive, 0));
    });
    group.bench_function("exclusive, evicting dirty", |b| {
        b.iter_custom(|iters| misses(&ring, iters, Mode::Exclusive, LINE - 32));
    });
    group.bench_function("upgrade", |b| b.iter_custom(|iters| upgrades(&ring, iters)));
    group.finish();
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group!(name = all; config = config(); targets = cached, missed);
criterion_main!(all);
