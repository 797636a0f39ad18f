//! What the death of a node leaves of a tree that it has changed. Each line is as the node had it,
//! or as memory has it; any subset of the lines is drawn. The tree is whole, and has all that
//! memory had.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory as _;
use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings};
use latchwork_rtree::{Entry, NewEntry, RTree, Rect};
use latchwork_runtime::Handle;
use latchwork_verbs::GlobalAddr;

use crate::common::{executor, fan_out_3, intersecting};

type Tree = RTree<LocalMemory, 2>;

const OBJECTS: u64 = 160;
const TASKS: u64 = 4;
/// Deaths that are looked at in one world.
const DEATHS: u64 = 60;

fn worlds() -> [Settings; 3] {
    let calm = Settings { survives: true, ..Settings::CALM };
    [calm, Settings { thefts: 1, ..calm }, Settings { frames: 8, thefts: 1, ..calm }]
}

/// The objects of a run.
#[derive(Default)]
struct Objects {
    /// The places at which an object may be.
    places: BTreeMap<u64, Vec<Rect<2>>>,
    inserted: BTreeSet<u64>,
    leaving: BTreeSet<u64>,
    /// Memory has had these.
    known: BTreeSet<u64>,
}

fn place(handle: &Handle) -> Rect<2> {
    let low = [(); 2].map(|()| handle.random_below(60) as f64);
    let high = low.map(|at| at + handle.random_below(6) as f64);
    Rect::new(low, high).expect("a box")
}

/// Inserts a share of the objects, moves them, and removes most of them again.
async fn work(tree: Tree, handle: Handle, objects: Rc<RefCell<Objects>>, task: u64) {
    let ids: Vec<u64> = (0..OBJECTS).filter(|id| id % TASKS == task).collect();
    let mut at = BTreeMap::new();
    for &id in &ids {
        let rect = place(&handle);
        objects.borrow_mut().places.insert(id, vec![rect]);
        tree.insert(&rect, id, &[]).await.expect("room");
        objects.borrow_mut().inserted.insert(id);
        at.insert(id, rect);
        let other = ids[handle.random_below(ids.len() as u64) as usize];
        if let Some(old) = at.get(&other).copied() {
            let new = place(&handle);
            objects.borrow_mut().places.entry(other).or_default().push(new);
            assert!(tree.update(&old, other, &new, &[]).await.expect("room"));
            at.insert(other, new);
        }
    }
    for id in ids.iter().filter(|id| **id % 5 > 0) {
        objects.borrow_mut().leaving.insert(*id);
        assert!(tree.remove(&at[id], *id).await.expect("no error"));
    }
}

/// Writes all lines back, as if other nodes had asked for them.
async fn write_all_back(node: &LocalNode, memory: &LocalMemory, objects: &RefCell<Objects>) {
    let before = objects.borrow().inserted.clone();
    for line in node.addresses() {
        memory.persist(line).await.expect("no error");
    }
    objects.borrow_mut().known.extend(before);
}

/// Opens the tree that this death leaves, and goes on with it.
async fn look(node: LocalNode, handle: &Handle, root: GlobalAddr, objects: &RefCell<Objects>) {
    let (known, places) = {
        let objects = objects.borrow();
        let known: Vec<u64> = objects.known.difference(&objects.leaving).copied().collect();
        (known, objects.places.clone())
    };
    let tree = Tree::open(node.worker(handle.clone()), root, fan_out_3(0)).await.expect("a root");
    let before = tree.validate().await.expect("a whole tree");
    let mut found = BTreeMap::new();
    let visit = |entry: Entry<'_, 2>| {
        assert!(places[&entry.id].contains(&entry.rect), "{} was never there", entry.id);
        let other = found.insert(entry.id, entry.rect);
        assert_eq!(other, None, "object {} is at two places: {:?}", entry.id, entry.rect);
        ControlFlow::Continue(())
    };
    tree.intersecting(&Rect::EVERYTHING, visit).await.expect("no error");
    assert_eq!(found.len() as u64, before.entries);
    for id in known {
        assert!(found.contains_key(&id), "memory had object {id}");
    }
    for (id, rect) in &found {
        assert!(intersecting(&tree, rect).await.contains(id), "no window finds object {id}");
        let new = place(handle);
        match id % 3 {
            0 => assert!(tree.update(rect, *id, &new, &[]).await.expect("room")),
            1 => assert!(tree.remove(rect, *id).await.expect("no error")),
            _ => tree.insert(&new, id + OBJECTS, &[]).await.expect("room"),
        }
    }
    tree.validate().await.expect("a whole tree after the next changes");
}

fn run(seed: u64, settings: Settings) -> u64 {
    let mut executor = executor(seed);
    let (node, handle) = (LocalNode::new(settings), executor.handle());
    let reverted = Rc::new(Cell::new(0));
    let count = reverted.clone();
    executor.block_on(async move {
        let memory = node.worker(handle.clone());
        let tree = Tree::create(memory.clone(), fan_out_3(0)).await.expect("room");
        let objects = Rc::new(RefCell::new(Objects::default()));
        let work = |task| work(tree.clone(), handle.clone(), objects.clone(), task);
        let tasks: Vec<_> = (0..TASKS).map(|task| handle.spawn(work(task))).collect();
        for death in 0..DEATHS {
            for _ in 0..handle.random_below(100) {
                handle.yield_now().await;
            }
            if death % 10 == 9 {
                write_all_back(&node, &memory, &objects).await;
            }
            count.set(count.get() + node.dirty_lines() as u64);
            let share = handle.random_below(5);
            let left = node.after_death(|_| handle.random_below(4) < share);
            look(left, &handle, tree.root(), &objects).await;
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        look(node.after_death(|_| false), &handle, tree.root(), &objects).await;
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
        let tree = Tree::create(node.worker(handle.clone()), fan_out_3(0)).await.expect("room");
        let new = |id| NewEntry { rect: place(&handle), id, payload: Vec::new() };
        tree.bulk_load((0..OBJECTS).map(new).collect()).await.expect("room");
        for (root, entries) in [(false, 0), (true, OBJECTS)] {
            let left = node.after_death(|line| root && line == tree.root());
            let worker = left.worker(handle.clone());
            let left = Tree::open(worker, tree.root(), fan_out_3(0)).await.expect("a root");
            assert_eq!(left.validate().await.expect("a whole tree").entries, entries);
        }
    });
}
