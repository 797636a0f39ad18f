//! Many operations in flight on one worker, over lines that the cache loses and gets again. At
//! every await, other operations may split, grow, shrink and empty the pages that an operation
//! needs next.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings, executor};
use latchwork_rtree::{Entry, NewEntry, RTree, RTreeConfig, RTreeError, RTreeRules, Rect};
use latchwork_runtime::Handle;

use crate::common::{Random, check, fan_out_3, in_worlds, intersecting};

/// What the tasks of a test know of the entries.
#[derive(Default)]
struct Known {
    /// The entries whose insert has returned and whose remove has not begun.
    there: BTreeMap<u64, Rect<2>>,
    /// The entries whose remove has returned.
    gone: BTreeSet<u64>,
}

/// Queries a window, or the entries nearest to its corner, while others write. Every entry that is
/// there throughout is found once. No entry is found that was removed before.
async fn query(
    tree: &RTree<LocalMemory, 2>,
    known: &Rc<RefCell<Known>>,
    window: Rect<2>,
    nearest: Option<usize>,
) {
    let (before, gone) = {
        let known = known.borrow();
        (known.there.clone(), known.gone.clone())
    };
    let mut found = BTreeSet::new();
    let visit = |entry: Entry<'_, 2>| {
        assert!(found.insert(entry.id), "{} was found twice", entry.id);
        assert!(entry.rect.intersects(&window), "{} is not in the window", entry.id);
        ControlFlow::Continue(())
    };
    let mut reach = f64::INFINITY;
    match nearest {
        None => tree.intersecting(&window, visit).await.expect("memory is in order"),
        Some(count) => {
            let near = tree.nearest(window.low(), count).await.expect("memory is in order");
            if near.len() == count {
                reach = near[count - 1].distance_squared;
            }
            assert!(near.is_sorted_by_key(|one| (one.distance_squared, one.id)));
            assert!(near.iter().all(|one| found.insert(one.id)), "an entry was found twice");
        }
    }
    let belongs = |rect: &Rect<2>| match nearest {
        None => rect.intersects(&window),
        Some(_) => rect.distance_squared(&window.low()) < reach,
    };
    let after = known.borrow();
    for (id, rect) in before.iter().filter(|(id, _)| after.there.contains_key(id)) {
        assert!(!belongs(rect) || found.contains(id), "{id} was missed in {window:?}");
    }
    assert!(found.is_disjoint(&gone), "an entry was found that had been removed before");
}

#[test]
fn queries_see_what_stays_while_entries_come_and_go() {
    in_worlds(12, |node, handle, memory| async move {
        let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("room");
        let known: Rc<RefCell<Known>> = Rc::default();
        let numbers = Rc::new(Cell::new(0_u64));
        let seed = handle.random();
        let mut tasks = Vec::new();
        for task in 0..6 {
            let (tree, known, numbers) = (tree.clone(), known.clone(), numbers.clone());
            tasks.push(handle.spawn(async move {
                let mut random = Random::new(seed ^ task << 32);
                let mut mine: Vec<(Rect<2>, u64)> = Vec::new();
                for step in 0..60 {
                    if random.below(100) < if step < 40 { 75 } else { 25 } || mine.is_empty() {
                        let (rect, id) = (random.rect(40, 6), numbers.get());
                        numbers.set(id + 1);
                        tree.insert(&rect, id, &[]).await.expect("room");
                        known.borrow_mut().there.insert(id, rect);
                        mine.push((rect, id));
                    } else {
                        let at = random.below(mine.len() as u64) as usize;
                        let (rect, id) = mine.swap_remove(at);
                        known.borrow_mut().there.remove(&id);
                        assert!(tree.remove(&rect, id).await.expect("removed"), "{id} is gone");
                        known.borrow_mut().gone.insert(id);
                    }
                }
            }));
        }
        for task in 6..9 {
            let (tree, known) = (tree.clone(), known.clone());
            tasks.push(handle.spawn(async move {
                let mut random = Random::new(seed ^ task << 32);
                for _ in 0..40 {
                    let window = match random.below(4) {
                        0 => Rect::EVERYTHING,
                        _ => random.rect(40, 25),
                    };
                    let is_near = random.below(2) == 0 && window.is_finite();
                    let nearest = is_near.then(|| [1, 3, 10_000][random.below(3) as usize]);
                    query(&tree, &known, window, nearest).await;
                }
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        let left: Vec<u64> = known.borrow().there.keys().copied().collect();
        assert_eq!(intersecting(&tree, &Rect::EVERYTHING).await, left);
        // Pages that other operations have left for the next writer keep their lines.
        let statistics = tree.validate().await.expect("whole");
        assert_eq!(statistics.entries, left.len() as u64);
        tree.release_spares().await.expect("freed");
        assert_eq!(statistics.pages(), node.live_lines() as u64, "{statistics:?}");
    });
}

/// Joins two trees while others write. Returns the number of pairs that were missed.
async fn join_while_others_write(handle: Handle, memory: LocalMemory, config: RTreeConfig) -> u64 {
    let mut missed = 0;
    let trees = [
        RTree::<_, 2>::create(memory.clone(), config).await.expect("room"),
        RTree::<_, 2>::create(memory, config).await.expect("room"),
    ];
    let mut random = Random::new(handle.random());
    let mut stay: Vec<Vec<(Rect<2>, u64)>> = Vec::new();
    for tree in &trees {
        let entries: Vec<_> = (0..25).map(|id| (random.rect(20, 5), id)).collect();
        for (rect, id) in &entries {
            tree.insert(rect, *id, &[]).await.expect("room");
        }
        stay.push(entries);
    }
    let writers: Vec<_> = (0..4_u64)
        .map(|task| {
            let tree = trees[task as usize % 2].clone();
            let mut random = Random::new(task);
            handle.spawn(async move {
                for round in 0..4 {
                    let ids = 1000 + task * 1000 + round * 100..;
                    let mine: Vec<_> = ids.take(15).map(|id| (random.rect(20, 5), id)).collect();
                    for (rect, id) in &mine {
                        tree.insert(rect, *id, &[]).await.expect("room");
                    }
                    for (rect, id) in &mine {
                        assert!(tree.remove(rect, *id).await.expect("removed"));
                    }
                }
            })
        })
        .collect();
    for _ in 0..12 {
        let mut found = BTreeSet::new();
        let visit = |one: Entry<'_, 2>, two: Entry<'_, 2>| {
            assert!(one.rect.intersects(&two.rect));
            assert!(found.insert((one.id, two.id)), "{} and {} twice", one.id, two.id);
            ControlFlow::Continue(())
        };
        trees[0].join(&trees[1], 0.0, visit).await.expect("joined");
        for (one, i) in &stay[0] {
            for (_, j) in stay[1].iter().filter(|(two, _)| one.intersects(two)) {
                missed += u64::from(!found.contains(&(*i, *j)));
            }
        }
    }
    for writer in writers {
        writer.await.expect("no panic");
    }
    missed
}

#[test]
fn joins_find_the_pairs_that_stay_while_pages_are_split_and_emptied() {
    in_worlds(6, |_, handle, memory| async move {
        assert_eq!(join_while_others_write(handle, memory, fan_out_3(0)).await, 0, "pairs missed");
    });
}

/// The check of joins works: it finds a join that does not read the pages of a split.
#[test]
fn a_join_that_misses_pairs_over_a_split_is_noticed() {
    let rules = RTreeRules { joins_read_siblings: false, ..RTreeRules::ALL };
    let config = RTreeConfig { rules, ..fan_out_3(0) };
    let missed = Cell::new(0);
    in_worlds(6, |_, handle, memory| async {
        missed.set(missed.get() + join_while_others_write(handle, memory, config).await);
    });
    assert!(missed.get() > 0, "no pair was missed");
}

#[test]
fn several_removes_of_one_entry_remove_it_once() {
    in_worlds(8, |node, handle, memory| async move {
        let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("room");
        let mut random = Random::new(handle.random());
        let entries: Vec<(Rect<2>, u64)> = (0..40).map(|id| (random.rect(20, 4), id)).collect();
        for (rect, id) in &entries {
            tree.insert(rect, *id, &[]).await.expect("room");
        }
        let tasks: Vec<_> = (0..5)
            .map(|_| {
                let (tree, entries) = (tree.clone(), entries.clone());
                handle.spawn(async move {
                    let mut removed = 0;
                    for (rect, id) in &entries {
                        removed += u64::from(tree.remove(rect, *id).await.expect("removed"));
                    }
                    removed
                })
            })
            .collect();
        let mut removed = 0;
        for task in tasks {
            removed += task.await.expect("no panic");
        }
        assert_eq!(removed, 40);
        check(&tree, &node, 0).await;
    });
}

/// Operations that are dropped at any await leave a whole tree, which other operations go on with.
#[test]
fn operations_that_are_dropped_leave_a_whole_tree() {
    for seed in 0..60 {
        for settings in [Settings::TINY, Settings::WITHOUT_CACHE] {
            let mut executor = executor(seed);
            let handle = executor.handle();
            let node = LocalNode::new(settings);
            let memory = node.worker(handle.clone());
            executor.block_on(async move {
                let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("room");
                let mut random = Random::new(seed);
                let mut sure: BTreeMap<u64, Rect<2>> = BTreeMap::new();
                let mut dropped: BTreeSet<u64> = BTreeSet::new();
                for id in 0..120 {
                    let rect = random.rect(30, 5);
                    let patience = random.below(60);
                    let insert = tree.insert(&rect, id, &[]);
                    if polled(insert, patience).await.is_some() {
                        sure.insert(id, rect);
                    }
                    if random.below(3) == 0
                        && let Some((&id, &rect)) = sure.iter().next()
                    {
                        sure.remove(&id);
                        let _ = polled(tree.remove(&rect, id), random.below(60)).await;
                    }
                    if random.below(2) == 0
                        && let Some((&id, &old)) = sure.iter().next_back()
                    {
                        let new = random.rect(30, 5);
                        match polled(tree.update(&old, id, &new, &[]), random.below(60)).await {
                            Some(moved) => {
                                assert!(moved.expect("in order"), "{id} is not at {old:?}");
                                sure.insert(id, new);
                            }
                            None => {
                                // It is at one of both places.
                                assert!(intersecting(&tree, &Rect::EVERYTHING).await.contains(&id));
                                dropped.insert(sure.remove_entry(&id).expect("known").0);
                            }
                        }
                    }
                    tree.validate().await.expect("whole");
                }
                let found = intersecting(&tree, &Rect::EVERYTHING).await;
                assert!(dropped.iter().all(|id| found.contains(id)), "a moved entry is lost");
                assert!(sure.keys().all(|id| found.contains(id)), "an entry is lost");
                let mut once = found.clone();
                once.dedup();
                assert_eq!(once, found, "an entry is there twice");
                for id in 1000..1040 {
                    tree.insert(&random.rect(30, 5), id, &[]).await.expect("room");
                }
                tree.validate().await.expect("whole");
            });
        }
    }
}

/// Polls a future at most so often, then drops it.
async fn polled<R>(future: impl Future<Output = R>, times: u64) -> Option<R> {
    let mut future = Box::pin(future);
    let mut left = times;
    std::future::poll_fn(move |context| {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(context) {
            return std::task::Poll::Ready(Some(result));
        }
        if left == 0 {
            return std::task::Poll::Ready(None);
        }
        left -= 1;
        std::task::Poll::Pending
    })
    .await
}

#[test]
fn a_pool_that_is_full_in_a_split_or_a_load_is_an_error_and_the_tree_stays_whole() {
    for lines_max in 1..12 {
        let mut executor = executor(lines_max);
        let settings = Settings { lines_max: lines_max as usize, ..Settings::CALM };
        let node = LocalNode::new(settings);
        let memory = node.worker(executor.handle());
        executor.block_on(async move {
            let tree = RTree::<_, 2>::create(memory, fan_out_3(0)).await.expect("a root");
            let mut random = Random::new(lines_max);
            // A load that needs too many pages leaves an empty tree and no page.
            let many = (0..60).map(|id| {
                let rect = random.rect(30, 5);
                NewEntry { rect, id, payload: Vec::new() }
            });
            let loaded = tree.bulk_load(many.collect()).await;
            assert!(matches!(loaded, Err(RTreeError::Memory(_))), "{loaded:?}");
            check(&tree, &node, 0).await;
            let mut sure: BTreeMap<u64, Rect<2>> = BTreeMap::new();
            let (mut full, mut moved) = (0, 0);
            for id in 0..60 {
                let rect = random.rect(30, 5);
                match tree.insert(&rect, id, &[]).await {
                    Ok(()) => _ = sure.insert(id, rect),
                    Err(RTreeError::Memory(_)) => full += 1,
                    Err(error) => panic!("{error}"),
                }
                let some = random.below(id + 1);
                if let Some((id, old)) = sure.range_mut(some..).next() {
                    let new = random.rect(30, 5);
                    match tree.update(old, *id, &new, &[]).await {
                        Ok(is_there) => {
                            assert!(is_there, "{id} is not at {old:?}");
                            (*old, moved) = (new, moved + 1);
                        }
                        // The entry is at one of both places.
                        Err(RTreeError::Memory(_)) => {
                            let count = intersecting(&tree, &new).await;
                            if count.contains(id) && !intersecting(&tree, old).await.contains(id) {
                                *old = new;
                            }
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                tree.validate().await.expect("whole");
            }
            assert!(full > 0, "the pool was never full");
            assert!(moved > 0, "no entry moved");
            let left: Vec<u64> = sure.keys().copied().collect();
            assert_eq!(intersecting(&tree, &Rect::EVERYTHING).await, left);
            for (id, rect) in &sure {
                match tree.remove(rect, *id).await {
                    Ok(is_there) => assert!(is_there, "{id} is not at {rect:?}"),
                    // The entry is gone. Its page waits for the next writer.
                    Err(RTreeError::Memory(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            check(&tree, &node, 0).await;
        });
    }
}
