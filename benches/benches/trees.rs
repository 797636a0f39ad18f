//! The B-link tree, all of it cached, one operation at a time.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::cell::Cell;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use latchwork_benches::{Draws, cluster, key, on_first};
use latchwork_blink::{Tree, TreeConfig};
use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_verbs::GlobalAddr;

/// A tree with keys and values of these sizes; the keys were inserted one by one in random order.
struct Loaded {
    cluster: Embedded,
    root: GlobalAddr,
    keys: u64,
    value: Vec<u8>,
    // The first number without a key in the tree.
    fresh: Cell<u64>,
}

impl Loaded {
    fn new(config: ClusterConfig, keys: u64, value: usize) -> Loaded {
        let cluster = cluster(config);
        let value = vec![0x5a; value];
        let root = on_first(&cluster, async |member| {
            let tree = Tree::create(member.memory.clone(), TreeConfig::default()).await;
            let tree = tree.expect("a new tree");
            for i in 0..keys {
                tree.insert(&key(i), &value).await.expect("a new key");
            }
            tree.root()
        });
        Loaded { cluster, root, keys, value, fresh: Cell::new(keys) }
    }

    /// The time of the operations in `body`.
    fn time(&self, body: impl AsyncFn(Opened) -> Duration + Sync) -> Duration {
        let (root, keys) = (self.root, self.keys);
        on_first(&self.cluster, async |member| {
            let tree = Tree::open(member.memory.clone(), root, TreeConfig::default()).await;
            let draws = Draws::new(keys, member.handle.now().as_nanos());
            body(Opened { tree: tree.expect("the tree"), draws, member }).await
        })
    }
}

struct Opened {
    tree: Tree<latchwork_cluster::Worker>,
    draws: Draws,
    member: Member,
}

fn try_get(loaded: &Loaded, iters: u64) -> Duration {
    loaded.time(async |Opened { tree, mut draws, member }| {
        let start = member.handle.now();
        for _ in 0..iters {
            let found = tree.try_get(&key(draws.draw()), |value| value.u64(0));
            assert!(matches!(black_box(found), Ok(Some(_))), "all pages are cached");
        }
        member.handle.now() - start
    })
}

fn get(loaded: &Loaded, iters: u64) -> Duration {
    loaded.time(async |Opened { tree, mut draws, member }| {
        let mut copy = Vec::new();
        let start = member.handle.now();
        for _ in 0..iters {
            let visit = |value: latchwork_blink::TreeValue<'_>| {
                copy.clear();
                value.append_to(&mut copy);
            };
            let found = tree.get_with(&key(draws.draw()), visit).await;
            assert!(matches!(black_box(found), Ok(Some(()))), "all keys are there");
        }
        member.handle.now() - start
    })
}

fn update(loaded: &Loaded, iters: u64) -> Duration {
    let value = &loaded.value;
    loaded.time(async |Opened { tree, mut draws, member }| {
        let start = member.handle.now();
        for _ in 0..iters {
            tree.update(&key(draws.draw()), value).await.expect("a known key");
        }
        member.handle.now() - start
    })
}

fn insert(loaded: &Loaded, iters: u64) -> Duration {
    let fresh = loaded.fresh.get();
    loaded.fresh.set(fresh + iters);
    let value = &loaded.value;
    loaded.time(async |Opened { tree, member, .. }| {
        let start = member.handle.now();
        for i in fresh..fresh + iters {
            tree.insert(&key(i), value).await.expect("a new key");
        }
        let time = member.handle.now() - start;
        // The keys are removed again, so that each sample has a tree with the same number of keys.
        for i in fresh..fresh + iters {
            assert!(tree.remove(&key(i)).await.expect("a tree"), "just inserted");
        }
        time
    })
}

const SCANNED: usize = 100;

fn scan(loaded: &Loaded, iters: u64, up: bool) -> Duration {
    loaded.time(async |Opened { tree, mut draws, member }| {
        let mut bytes = 0;
        let start = member.handle.now();
        for _ in 0..iters {
            let from = key(draws.draw());
            let visit = |key: &[u8], value: &[u8]| {
                bytes += key.len() + value.len();
                ControlFlow::Continue(())
            };
            if up {
                tree.scan_up(Bound::Included(&from), SCANNED, visit).await.expect("a tree");
            } else {
                tree.scan_down(Bound::Included(&from), SCANNED, visit).await.expect("a tree");
            }
        }
        let time = member.handle.now() - start;
        black_box(bytes);
        time
    })
}

fn operations(c: &mut Criterion, name: &str, loaded: &Loaded) {
    let mut group = c.benchmark_group(name);
    group.bench_function("get, plain function", |b| b.iter_custom(|n| try_get(loaded, n)));
    group.bench_function("get", |b| b.iter_custom(|n| get(loaded, n)));
    group.bench_function("update", |b| b.iter_custom(|n| update(loaded, n)));
    group.bench_function("insert", |b| b.iter_custom(|n| insert(loaded, n)));
    group.throughput(Throughput::Elements(SCANNED as u64));
    group.bench_function("scan 100 up", |b| b.iter_custom(|n| scan(loaded, n, true)));
    group.bench_function("scan 100 down", |b| b.iter_custom(|n| scan(loaded, n, false)));
    group.finish();
}

fn numbers(c: &mut Criterion) {
    let config = ClusterConfig::default();
    operations(c, "tree, 1 M of 8 + 8 bytes", &Loaded::new(config, 1_000_000, 8));
}

fn records(c: &mut Criterion) {
    let config =
        ClusterConfig { line_size: 8192, cache_bytes: 512 << 20, ..ClusterConfig::default() };
    operations(c, "tree, 200 k of 8 + 1000 bytes", &Loaded::new(config, 200_000, 1000));
}

criterion_group!(name = trees; config = latchwork_benches::samples(1); targets = numbers, records);
criterion_main!(trees);
