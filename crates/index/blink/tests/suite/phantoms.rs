//! Leaf stamps under concurrency:
//!
//! - If a task adds a key to a range that another task counts, the other task detects the key.
//! - A timestamp that a task leaves in a leaf is seen by every later task.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use latchwork_blink::{Insertion, Leaf, Tree, TreeConfig, TreeRules};
use latchwork_runtime::Handle;
use latchwork_verbs::GlobalAddr;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

const CONFIG: TreeConfig = TreeConfig {
    stamped: true,
    max_entries_leaf: Some(2),
    max_entries_inner: Some(3),
    rules: TreeRules::ALL,
};

/// The number of key ranges. Each range may have a limited number of keys.
const RANGES: u64 = 300;
const MOST: u64 = 4;
/// The number of attempts on a range before the tasks go to the next range, whose leaves are not
/// split yet.
const TURN: u64 = 24;
/// The number of possible keys per range.
const KEYS: u64 = 40;

/// The state that all workers share besides the tree.
struct Board {
    /// The attempts to add a key.
    attempts: AtomicU64,
    /// The number of keys that each range has permanently.
    counts: Vec<AtomicU64>,
    added: AtomicU64,
    /// The number of conflicts with another task.
    conflicts: AtomicU64,
}

impl Board {
    fn new() -> Board {
        let counts = (0..RANGES).map(|_| AtomicU64::new(0)).collect();
        let (attempts, added, conflicts) = Default::default();
        Board { attempts, counts, added, conflicts }
    }
}

fn key(range: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&range.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of keys in a range, and the leaves on which that number depends.
async fn count(tree: &Tree<LocalMemory>, range: u64, down: bool) -> (u64, Vec<Leaf>) {
    let (mut keys, mut leaves) = (0, Vec::new());
    let visit = |key: &[u8], _: &[u8]| {
        if key[..8] != range.to_be_bytes() {
            return ControlFlow::Break(());
        }
        keys += 1;
        ControlFlow::Continue(())
    };
    let leaf = |leaf| leaves.push(leaf);
    if down {
        let from = key(range, KEYS);
        tree.scan_down_stamped(Bound::Excluded(&from), usize::MAX, visit, leaf).await.unwrap();
    } else {
        let (from, to) = (key(range, 0), key(range, KEYS));
        let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        tree.scan_up_stamped(from, to, usize::MAX, visit, leaf).await.unwrap();
    }
    (keys, leaves)
}

async fn others_turn(handle: &Handle) {
    for _ in 0..handle.random_below(4) {
        handle.yield_now().await;
    }
}

/// Adds a key to a range that has room for it. First inserts the key. Then removes the key again,
/// unless all leaves of the range are unchanged since the count, except for this key.
async fn add(tree: &Tree<LocalMemory>, board: &Board, handle: &Handle) {
    let range = board.attempts.fetch_add(1, Ordering::Relaxed) / TURN;
    let number = handle.random_below(KEYS);
    let (key, value) = (key(range, number), handle.random().to_le_bytes());
    let (keys, mut leaves) = count(tree, range, handle.random_below(2) == 0).await;
    if keys >= MOST {
        return;
    }
    others_turn(handle).await;
    let inserted = tree.insert_stamped(&key, &value, |_| true, |_| (), |_| ()).await.unwrap();
    let Insertion::New { before, after } = inserted else { return };
    for leaf in &mut leaves {
        if (leaf.addr, leaf.stamp.structure) == (before.addr, before.stamp.structure) {
            leaf.stamp = after;
        }
    }
    // Two tasks insert keys in different leaves and then check each other's leaf. At least one of
    // them sees the key of the other.
    fence(Ordering::SeqCst);
    let mut still = true;
    for leaf in &leaves {
        still &= tree.still(leaf).await.unwrap();
    }
    if still {
        let count = board.counts[range as usize].fetch_add(1, Ordering::SeqCst) + 1;
        assert!(count <= MOST, "range {range} has {count} keys");
        board.added.fetch_add(1, Ordering::Relaxed);
        others_turn(handle).await;
        if handle.random_below(3) == 0 {
            return;
        }
        board.counts[range as usize].fetch_sub(1, Ordering::SeqCst);
    } else {
        board.conflicts.fetch_add(1, Ordering::Relaxed);
    }
    assert!(tree.remove_stamped(&key, &value, 0, 0).await.unwrap());
}

/// Checks the tree after the run.
async fn check(tree: &Tree<LocalMemory>, board: &Board) {
    tree.validate().await.unwrap();
    for range in 0..RANGES {
        let (keys, _) = count(tree, range, false).await;
        assert_eq!(keys, board.counts[range as usize].load(Ordering::SeqCst));
        assert!(keys <= MOST);
    }
    let (added, conflicts) = (&board.added, &board.conflicts);
    assert!(added.load(Ordering::Relaxed) > 0);
    assert!(conflicts.load(Ordering::Relaxed) > 0, "nobody met anybody: nothing was tested");
}

/// Raises timestamps of leaves while other tasks split the leaves, and checks the timestamps.
async fn leave_times(tree: &Tree<LocalMemory>, floors: &[AtomicU64], handle: &Handle) {
    let number = handle.random_below(KEYS);
    let (bytes, floor) = (key(0, number), &floors[number as usize]);
    let least = floor.load(Ordering::SeqCst);
    let (_, leaf) = tree.get_stamped(&bytes, |_| ()).await.unwrap();
    assert!(leaf.stamp.read >= least, "the leaf of {number} forgot time {least}: {leaf:?}");
    match handle.random_below(3) {
        0 => {
            let to = least + handle.random_below(3);
            if let Some(stamp) = tree.raise_read(&leaf, to).await.unwrap() {
                assert!(stamp.read >= to);
                floor.fetch_max(to, Ordering::SeqCst);
            }
        }
        1 => {
            // Another task may do the same at the same time.
            tree.upsert(&bytes, &[1; 8]).await.unwrap();
        }
        _ => {
            let to = least + 1;
            if tree.remove_stamped(&bytes, &[1; 8], to, 0).await.unwrap() {
                floor.fetch_max(to, Ordering::SeqCst);
            }
            // Split pages stay. New keys between the old keys cause further splits.
            let other = key(0, KEYS + handle.random_below(KEYS));
            tree.upsert(&other, &[1; 8]).await.unwrap();
        }
    }
}

fn floors() -> Vec<AtomicU64> {
    (0..KEYS).map(|_| AtomicU64::new(0)).collect()
}

const WORLDS: [Settings; 3] = [Settings::CALM, Settings::TINY, Settings::WITHOUT_CACHE];

/// Runs `step` in many tasks of one worker, in every kind of memory with several seeds.
fn on_tasks<S: 'static>(
    shared: impl Fn() -> S,
    step: impl AsyncFn(&Tree<LocalMemory>, &S, &Handle) + Copy + 'static,
    after: impl AsyncFn(&Tree<LocalMemory>, &S),
) {
    for (seed, settings) in (0..12).flat_map(|seed| WORLDS.map(|settings| (seed, settings))) {
        let mut executor = executor(seed);
        let (handle, node) = (executor.handle(), LocalNode::new(settings));
        let memory = node.worker(executor.handle());
        let shared = std::rc::Rc::new(shared());
        executor.block_on(async {
            let tree = Tree::create(memory, CONFIG).await.unwrap();
            let tasks: Vec<_> = (0..6)
                .map(|_| {
                    let (tree, shared, own) = (tree.clone(), shared.clone(), handle.clone());
                    handle.spawn(async move {
                        for _ in 0..40 {
                            step(&tree, &shared, &own).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            after(&tree, &shared).await;
        });
    }
}

/// Runs `step` on several threads.
fn on_threads<S: Sync>(
    shared: impl Fn() -> S,
    step: impl AsyncFn(&Tree<LocalMemory>, &S, &Handle) + Copy + Send,
    after: impl AsyncFn(&Tree<LocalMemory>, &S),
) {
    for settings in [Settings::CALM, Settings { frames: 16, ..Settings::TINY }] {
        let (node, shared) = (LocalNode::new(settings), &shared());
        let mut first = executor(0);
        let memory = node.worker(first.handle());
        let tree = first.block_on(Tree::create(memory, CONFIG)).unwrap();
        let root: GlobalAddr = tree.root();
        std::thread::scope(|scope| {
            for seed in 1..=4 {
                let node = node.clone();
                scope.spawn(move || {
                    let mut executor = executor(seed);
                    let (handle, memory) = (executor.handle(), node.worker(executor.handle()));
                    executor.block_on(async {
                        let tree = Tree::open(memory, root, CONFIG).await.unwrap();
                        for _ in 0..1500 {
                            step(&tree, shared, &handle).await;
                        }
                    });
                });
            }
        });
        first.block_on(after(&tree, shared));
    }
}

#[test]
fn no_key_enters_a_counted_range_unnoticed() {
    on_tasks(Board::new, add, check);
}

#[test]
fn nor_do_threads() {
    for _ in 0..2 {
        on_threads(Board::new, add, check);
    }
}

#[test]
fn times_stay_with_their_keys_while_leaves_split() {
    let step = async |tree: &Tree<LocalMemory>, floors: &Vec<AtomicU64>, handle: &Handle| {
        leave_times(tree, floors, handle).await;
    };
    on_tasks(floors, step, async |tree, _| {
        tree.validate().await.unwrap();
    });
    for _ in 0..2 {
        on_threads(floors, step, async |tree, _| {
            tree.validate().await.unwrap();
        });
    }
}
