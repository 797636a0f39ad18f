//! The B-link tree, all of it cached; and the cost of an idle second node for the first node.

use std::cell::{Cell, OnceCell};
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::time::Duration;

use latchwork_benches::{Draws, cluster, key, on_first};
use latchwork_blink::{Tree, TreeConfig, TreeValue};
use latchwork_cluster::{ClusterConfig, Embedded, Member, Worker};
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_verbs::GlobalAddr;

use crate::measure::{HOT_KEYS, Measure, Sizes, counted, nanos};

/// Keys that one call looks up.
const MANY: usize = 16;
/// Entries of a scan.
const SCANNED: usize = 100;
/// Keys of the trees for the measurement with a second node.
const IDLE_KEYS: u64 = 200_000;
/// The interval at which an idle worker checks whether it may end.
const IDLE_LOOK: Duration = Duration::from_millis(2);

pub(crate) fn all(sizes: Sizes) -> Vec<Measure> {
    let mut all = Vec::new();
    for (place, keys) in [("hot", HOT_KEYS), ("far", sizes.far_keys)] {
        let loaded = Rc::new(OnceCell::new());
        let mut add = |what: &str, time: Operation| {
            let loaded = loaded.clone();
            all.push(Measure::new(format!("tree {what}, {place}"), move |iters| {
                time(loaded.get_or_init(|| Loaded::new(keys, sizes.nodes(), sizes.once)), iters)
            }));
        };
        add("get", gets);
        add("get, 16 in a call", gets_of_many);
        add("update", updates);
        add("insert", inserts);
        add("scan, an entry of 100", scans);
    }
    all
}

/// The time of this number of operations, together.
type Operation = fn(&Loaded, u64) -> Duration;

/// A tree whose keys were inserted one by one in random order: 8 bytes each, with values of 8.
struct Loaded {
    cluster: Embedded,
    root: GlobalAddr,
    keys: u64,
    /// The first number without a key in the tree.
    fresh: Cell<u64>,
    /// The seed of the next draws.
    seed: Cell<u64>,
    /// Whether inserted keys stay in the tree.
    grows: bool,
}

struct Opened {
    tree: Tree<Worker>,
    draws: Draws,
    member: Member,
}

impl Loaded {
    fn new(keys: u64, compute_nodes: usize, grows: bool) -> Loaded {
        // Pages are at least half full, and some measurements insert more keys.
        let bytes = (keys as usize * 64).next_multiple_of(1 << 20) + (32 << 20);
        let cluster = cluster(ClusterConfig {
            compute_nodes,
            memory_bytes: bytes as u64 + (32 << 20),
            cache_bytes: bytes,
            ..ClusterConfig::default()
        });
        let root = on_first(&cluster, async |member| {
            let tree = Tree::create(member.memory.clone(), TreeConfig::default()).await;
            let tree = tree.expect("a new tree");
            for i in 0..keys {
                tree.insert(&key(i), &i.to_be_bytes()).await.expect("a new key");
            }
            tree.root()
        });
        Loaded { cluster, root, keys, fresh: Cell::new(keys), seed: Cell::new(0), grows }
    }

    /// The time of the operations in `body`, while the other nodes of the cluster run and are idle.
    fn time(&self, body: impl AsyncFn(Opened) -> Duration + Sync) -> Duration {
        let (root, keys, seed) = (self.root, self.keys, self.seed.get());
        self.seed.set(seed + 1);
        let over = &AtomicBool::new(false);
        let times = self.cluster.run(async |member| {
            if member.index != 0 {
                while !over.load(Ordering::Acquire) {
                    member.handle.sleep(IDLE_LOOK).await;
                }
                return None;
            }
            let tree = Tree::open(member.memory.clone(), root, TreeConfig::default()).await;
            let draws = Draws::new(keys, seed);
            let time = match tree {
                Ok(tree) => Some(counted(body(Opened { tree, draws, member })).await),
                Err(_) => None,
            };
            // The flag is set even without a tree, because the other nodes wait for it.
            over.store(true, Ordering::Release);
            time
        });
        let times = times.expect("workers that end in order");
        times.into_iter().flatten().next().expect("a tree that can be opened")
    }
}

fn gets(loaded: &Loaded, iters: u64) -> Duration {
    loaded.time(async |Opened { tree, mut draws, member }| {
        let start = member.handle.now();
        for _ in 0..iters {
            let found = tree.try_get(&key(draws.draw()), |value| value.u64(0));
            assert!(matches!(black_box(found), Ok(Some(_))), "all pages are cached");
        }
        member.handle.now() - start
    })
}

fn gets_of_many(loaded: &Loaded, iters: u64) -> Duration {
    loaded.time(async |Opened { tree, mut draws, member }| {
        let mut found = Vec::with_capacity(MANY);
        let calls = iters.div_ceil(MANY as u64);
        let start = member.handle.now();
        for _ in 0..calls {
            let keys: [_; MANY] = std::array::from_fn(|_| key(draws.draw()));
            let visit = |_, value: TreeValue<'_>| value.u64(0);
            tree.get_many(&keys, visit, &mut found).await.expect("a tree");
            assert!(black_box(&found).iter().all(Option::is_some), "all keys are there");
        }
        let time = member.handle.now() - start;
        time.mul_f64(iters as f64 / (calls * MANY as u64) as f64)
    })
}

fn updates(loaded: &Loaded, iters: u64) -> Duration {
    loaded.time(async |Opened { tree, mut draws, member }| {
        let start = member.handle.now();
        for i in 0..iters {
            tree.update(&key(draws.draw()), &i.to_be_bytes()).await.expect("a known key");
        }
        member.handle.now() - start
    })
}

fn inserts(loaded: &Loaded, iters: u64) -> Duration {
    let (fresh, grows) = (loaded.fresh.get(), loaded.grows);
    loaded.fresh.set(fresh + iters);
    loaded.time(async |Opened { tree, member, .. }| {
        let start = member.handle.now();
        for i in fresh..fresh + iters {
            tree.insert(&key(i), &i.to_be_bytes()).await.expect("a new key");
        }
        let time = member.handle.now() - start;
        // The keys are removed again, so that the next sample has a tree with the same number of
        // keys.
        for i in (fresh..fresh + iters).filter(|_| !grows) {
            assert!(tree.remove(&key(i)).await.expect("a tree"), "just inserted");
        }
        time
    })
}

fn scans(loaded: &Loaded, iters: u64) -> Duration {
    loaded.time(async |Opened { tree, mut draws, member }| {
        let (mut sum, mut seen) = (0, 0);
        let start = member.handle.now();
        while seen < iters {
            let from = key(draws.draw());
            let visit = |key: &[u8], value: &[u8]| {
                sum += usize::from(key[7]) + usize::from(value[7]);
                ControlFlow::Continue(())
            };
            let shown = tree.scan_up(Bound::Included(&from), SCANNED, visit).await;
            seen += shown.expect("a tree") as u64;
        }
        let time = member.handle.now() - start;
        black_box(sum);
        time.mul_f64(iters as f64 / seen as f64)
    })
}

/// Times of one operation in nanoseconds, in pairs: with one node, and with a second node.
pub(crate) struct Idle {
    pub(crate) what: &'static str,
    pub(crate) pairs: Vec<(f64, f64)>,
}

/// The cost of a running and idle second node for the first node.
pub(crate) fn idle_node(rounds: u32, time_ms: u64) -> Vec<Idle> {
    let trees = [1, 2].map(|nodes| Loaded::new(IDLE_KEYS, nodes, false));
    let operations: [(&'static str, Operation); 2] = [("tree get", gets), ("tree update", updates)];
    let measure = |(what, time): (&'static str, Operation)| {
        let warm = 1000;
        let each = nanos(time(&trees[0], warm).max(time(&trees[1], warm)), warm);
        let count = (time_ms as f64 * 1e6 / each) as u64 + 1;
        let pair = |round: u32| {
            let mut pair = [0.0; 2];
            // The order of the two alternates, because the first one may have an advantage.
            for turn in 0..2 {
                let which = (turn + round as usize) % 2;
                pair[which] = nanos(time(&trees[which], count), count);
            }
            (pair[0], pair[1])
        };
        Idle { what, pairs: (0..rounds).map(pair).collect() }
    };
    operations.map(measure).into()
}
