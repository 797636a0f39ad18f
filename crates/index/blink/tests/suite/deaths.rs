//! What the death of a node leaves of a tree that it has changed. Each line is as the node had it,
//! or as memory has it; any subset of the lines is drawn. The tree is whole, and has all that
//! memory had.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

use latchwork_blink::{Tree, TreeConfig, TreeRules};
use latchwork_coherence::CoherentMemory;
use latchwork_runtime::Handle;
use latchwork_verbs::GlobalAddr;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

const FAN_OUT_3: TreeConfig = TreeConfig {
    stamped: false,
    max_entries_leaf: Some(3),
    max_entries_inner: Some(3),
    rules: TreeRules::ALL,
};
const KEYS: u64 = 200;
const TASKS: u64 = 4;
/// Deaths that are looked at in one world.
const DEATHS: u64 = 60;

fn worlds() -> [Settings; 3] {
    let calm = Settings { survives: true, ..Settings::CALM };
    [calm, Settings { thefts: 1, ..calm }, Settings { frames: 8, thefts: 1, ..calm }]
}

/// The keys of a run.
#[derive(Default)]
struct Keys {
    begun: BTreeSet<u64>,
    inserted: BTreeSet<u64>,
    leaving: BTreeSet<u64>,
    /// Memory has had these.
    known: BTreeSet<u64>,
}

/// Lines that were used before, so that the tree gets some of them.
async fn use_lines(memory: &LocalMemory) {
    let mut lines = Vec::new();
    for _ in 0..20 {
        lines.push(memory.allocate().await.expect("room"));
    }
    for line in lines {
        memory.free(line).await.expect("allocated");
    }
}

/// Inserts a share of the keys, and removes a part of them again.
async fn work(tree: Tree<LocalMemory>, keys: Rc<RefCell<Keys>>, task: u64) {
    for k in (0..KEYS).map(|k| k * 7919 % KEYS).filter(|k| k % TASKS == task) {
        keys.borrow_mut().begun.insert(k);
        tree.insert(&k.to_be_bytes(), &k.to_le_bytes()).await.expect("room");
        keys.borrow_mut().inserted.insert(k);
    }
    for k in (0..KEYS / 2).filter(|k| k % TASKS == task) {
        keys.borrow_mut().leaving.insert(k);
        tree.remove(&k.to_be_bytes()).await.expect("no error");
    }
}

/// Writes all lines back, as if other nodes had asked for them.
async fn write_all_back(node: &LocalNode, memory: &LocalMemory, keys: &RefCell<Keys>) {
    let before = keys.borrow().inserted.clone();
    for line in node.addresses() {
        memory.persist(line).await.expect("no error");
    }
    keys.borrow_mut().known.extend(before);
}

/// Opens the tree that this death leaves, and goes on with it.
async fn look(node: LocalNode, handle: &Handle, root: GlobalAddr, keys: &RefCell<Keys>) {
    let (known, begun) = {
        let keys = keys.borrow();
        let known: Vec<u64> = keys.known.difference(&keys.leaving).copied().collect();
        (known, keys.begun.clone())
    };
    let tree = Tree::open(node.worker(handle.clone()), root, FAN_OUT_3).await.expect("a root");
    let before = tree.validate().await.expect("a whole tree");
    for k in known {
        let value = tree.get(&k.to_be_bytes()).await.expect("no error");
        assert_eq!(value, Some(k.to_le_bytes().to_vec()), "memory had key {k}");
    }
    let visit = |key: &[u8], _: &[u8]| {
        let key = u64::from_be_bytes(key.try_into().expect("a key of this test"));
        assert!(begun.contains(&key), "key {key} was never inserted");
        ControlFlow::Continue(())
    };
    let found = tree.scan_up(Bound::Unbounded, usize::MAX, visit).await.expect("no error");
    assert_eq!(found as u64, before.entries);
    for k in KEYS..KEYS + 40 {
        let key = (((k * 6151 % KEYS) << 8) | 1).to_be_bytes();
        tree.upsert(&key, b"new").await.expect("room");
    }
    tree.validate().await.expect("a whole tree after the next splits");
}

fn run(seed: u64, settings: Settings) -> u64 {
    let mut executor = executor(seed);
    let (node, handle) = (LocalNode::new(settings), executor.handle());
    let reverted = Rc::new(Cell::new(0));
    let count = reverted.clone();
    executor.block_on(async move {
        let memory = node.worker(handle.clone());
        use_lines(&memory).await;
        let tree = Tree::create(memory.clone(), FAN_OUT_3).await.expect("room");
        let keys = Rc::new(RefCell::new(Keys::default()));
        let tasks: Vec<_> =
            (0..TASKS).map(|task| handle.spawn(work(tree.clone(), keys.clone(), task))).collect();
        for death in 0..DEATHS {
            for _ in 0..handle.random_below(60) {
                handle.yield_now().await;
            }
            if death % 10 == 9 {
                write_all_back(&node, &memory, &keys).await;
            }
            count.set(count.get() + node.dirty_lines() as u64);
            let share = handle.random_below(5);
            let left = node.after_death(|_| handle.random_below(4) < share);
            look(left, &handle, tree.root(), &keys).await;
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        look(node.after_death(|_| false), &handle, tree.root(), &keys).await;
    });
    reverted.get()
}

#[test]
fn any_subset_of_reverted_lines_leaves_a_whole_tree() {
    let mut reverted = 0;
    for seed in 0..8 {
        for settings in worlds() {
            reverted += run(seed, settings);
        }
    }
    assert!(reverted > 1000, "only {reverted} lines could be lost");
}

/// The pages of a bulk load are in memory before the root leads to them.
#[test]
fn a_loaded_tree_is_whole_or_empty() {
    let mut executor = executor(0);
    let (node, handle) = (LocalNode::new(worlds()[0]), executor.handle());
    executor.block_on(async move {
        let tree = Tree::create(node.worker(handle.clone()), FAN_OUT_3).await.expect("room");
        let entries = (0..KEYS).map(|k| (k.to_be_bytes(), k.to_le_bytes()));
        tree.bulk_load(entries, 1.0).await.expect("room");
        for (root, entries) in [(false, 0), (true, KEYS)] {
            let left = node.after_death(|line| root && line == tree.root());
            let worker = left.worker(handle.clone());
            let left = Tree::open(worker, tree.root(), FAN_OUT_3).await.expect("a root");
            assert_eq!(left.validate().await.expect("a whole tree").entries, entries);
        }
    });
}
