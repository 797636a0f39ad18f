//! Many operations in progress on one worker, over lines that the cache evicts and gets again. At
//! every await, other operations may split, fill and empty the pages that an operation needs next.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeRules};
use latchwork_runtime::Handle;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

const FAN_OUT_3: TreeConfig = TreeConfig {
    stamped: false,
    max_entries_leaf: Some(3),
    max_entries_inner: Some(3),
    rules: TreeRules::ALL,
};

const WORLDS: [Settings; 3] = [Settings::CALM, Settings::TINY, Settings::WITHOUT_CACHE];

/// Runs `test` in every kind of memory with several seeds.
fn in_worlds<F>(seeds: u64, test: impl Fn(LocalNode, Handle, LocalMemory) -> F)
where
    F: Future<Output = ()>,
{
    for (seed, settings) in (0..seeds).flat_map(|seed| WORLDS.map(|settings| (seed, settings))) {
        let mut executor = executor(seed);
        let node = LocalNode::new(settings);
        let memory = node.worker(executor.handle());
        executor.block_on(test(node, executor.handle(), memory));
    }
}

async fn check(tree: &Tree<LocalMemory>, node: &LocalNode, entries: usize) {
    let statistics = tree.validate().await.unwrap();
    assert_eq!(statistics.entries, entries as u64);
    assert_eq!(statistics.unposted_pages, 0);
    tree.release_spares().await.unwrap();
    assert_eq!(statistics.pages(), node.live_lines() as u64);
}

/// Keys in an order in which neighbouring keys are far apart in time.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |k| k * 7919 % count)
}

#[test]
fn inserts_from_many_tasks_are_all_there() {
    in_worlds(8, |node, handle, memory| async move {
        let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
        let tasks: Vec<_> = (0..8_u64)
            .map(|task| {
                let tree = tree.clone();
                handle.spawn(async move {
                    for k in 0..40_u64 {
                        let key = (k * 8 + task).to_be_bytes();
                        tree.insert(&key, &task.to_le_bytes()).await.unwrap();
                        assert_eq!(
                            tree.get(&key).await.unwrap(),
                            Some(task.to_le_bytes().to_vec())
                        );
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        check(&tree, &node, 320).await;
        for k in 0..320_u64 {
            let value = tree.get_with(&k.to_be_bytes(), |value| value.u64(0)).await.unwrap();
            assert_eq!(value, Some(k % 8));
        }
    });
}

#[test]
fn of_several_inserts_of_one_key_exactly_one_succeeds() {
    in_worlds(8, |node, handle, memory| async move {
        let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
        let tasks: Vec<_> = (0..6_u64)
            .map(|task| {
                let tree = tree.clone();
                handle.spawn(async move {
                    let mut won = 0;
                    for k in shuffled(101) {
                        match tree.insert(&k.to_be_bytes(), &task.to_le_bytes()).await {
                            Ok(()) => won += 1,
                            Err(TreeError::Exists) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    won
                })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            won += task.await.unwrap();
        }
        assert_eq!(won, 101);
        check(&tree, &node, 101).await;
    });
}

#[test]
fn no_read_modify_write_is_lost_while_pages_split() {
    in_worlds(8, |node, handle, memory| async move {
        let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
        let counters = 10_u64;
        for k in 0..counters {
            tree.insert(&(k * 1000).to_be_bytes(), &0_u64.to_le_bytes()).await.unwrap();
        }
        let tasks: Vec<_> = (0..8_u64)
            .map(|task| {
                let tree = tree.clone();
                handle.spawn(async move {
                    let mut last = vec![0; counters as usize];
                    for round in 0..30_u64 {
                        let k = (task + round) % counters;
                        let add = |value: &mut latchwork_blink::ValueMut<'_>| {
                            value.set_u64(0, value.u64(0) + 1);
                            value.u64(0)
                        };
                        let now = tree.modify(&(k * 1000).to_be_bytes(), add).await.unwrap();
                        assert!(now > last[k as usize], "a counter went back");
                        last[k as usize] = now;
                        // This insert splits the pages of the counters.
                        let key = k * 1000 + 1 + task * 100 + round;
                        tree.insert(&key.to_be_bytes(), &[0; 20]).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut sum = 0;
        for k in 0..counters {
            let value = tree.get_with(&(k * 1000).to_be_bytes(), |value| value.u64(0)).await;
            sum += value.unwrap().unwrap();
        }
        assert_eq!(sum, 8 * 30);
        check(&tree, &node, 10 + 8 * 30).await;
    });
}

#[test]
fn scans_show_what_stays_exactly_once_and_in_order_while_others_split() {
    in_worlds(6, |node, handle, memory| async move {
        let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
        let stay = 60_u64;
        for k in shuffled(stay) {
            tree.insert(&(k * 100).to_be_bytes(), b"stays").await.unwrap();
        }
        let writers: Vec<_> = (1..4_u64)
            .map(|task| {
                let tree = tree.clone();
                handle.spawn(async move {
                    for k in shuffled(stay) {
                        let key = (k * 100 + task).to_be_bytes();
                        tree.insert(&key, b"comes").await.unwrap();
                        if k % 3 == 0 {
                            assert!(tree.remove(&key).await.unwrap());
                        }
                    }
                })
            })
            .collect();
        let scans: Vec<_> = (0..6)
            .map(|scan| {
                let tree = tree.clone();
                handle.spawn(async move {
                    let mut keys = Vec::new();
                    let visit = |key: &[u8], value: &[u8]| {
                        keys.push((u64::from_be_bytes(key.try_into().unwrap()), value == b"stays"));
                        ControlFlow::Continue(())
                    };
                    if scan % 2 == 0 {
                        tree.scan_up(Bound::Unbounded, usize::MAX, visit).await.unwrap();
                    } else {
                        tree.scan_down(Bound::Unbounded, usize::MAX, visit).await.unwrap();
                        keys.reverse();
                    }
                    assert!(keys.is_sorted_by(|a, b| a.0 < b.0), "scan {scan}: {keys:?}");
                    let stayed = keys.iter().filter(|(_, stays)| *stays).map(|(key, _)| *key);
                    assert!(stayed.eq((0..stay).map(|k| k * 100)), "scan {scan}: {keys:?}");
                })
            })
            .collect();
        for task in writers.into_iter().chain(scans) {
            task.await.unwrap();
        }
        check(&tree, &node, 60 + 3 * 40).await;
    });
}

#[test]
fn operations_dropped_at_any_await_lose_no_line_and_no_other_entry() {
    let unposted = &Cell::new(0);
    in_worlds(12, |node, handle, memory| async move {
        let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
        // The possible content of each key: a dropped operation may have taken effect.
        let done: Rc<RefCell<BTreeMap<u64, bool>>> = Rc::default();
        let mut tasks = Vec::new();
        for k in shuffled(150) {
            let (tree, done) = (tree.clone(), done.clone());
            let task = handle.spawn(async move {
                tree.insert(&k.to_be_bytes(), &k.to_le_bytes()).await.unwrap();
                done.borrow_mut().insert(k, true);
            });
            tasks.push(task);
            for _ in 0..handle.random_below(6) {
                handle.yield_now().await;
            }
            if handle.random_below(2) == 0 {
                let victim = handle.random_below(tasks.len() as u64) as usize;
                tasks[victim].abort();
            }
        }
        for task in tasks {
            let _ = task.await;
        }
        let statistics = tree.validate().await.unwrap();
        unposted.set(unposted.get() + statistics.unposted_pages);
        for k in done.take().into_keys() {
            assert_eq!(tree.get(&k.to_be_bytes()).await.unwrap(), Some(k.to_le_bytes().to_vec()));
        }
        tree.release_spares().await.unwrap();
        assert_eq!(statistics.pages(), node.live_lines() as u64);

        // Writers that meet the remaining right links repair the level above.
        for k in shuffled(150) {
            tree.upsert(&k.to_be_bytes(), b"again").await.unwrap();
        }
        check(&tree, &node, 150).await;
    });
    assert!(unposted.get() > 0, "no splitter was cancelled in its middle: nothing was tested");
}

#[test]
fn a_full_pool_is_an_error_and_leaves_the_tree_whole() {
    for seed in 0..20 {
        let mut executor = executor(seed);
        let node = LocalNode::new(Settings { lines_max: 10 + seed as usize, ..Settings::TINY });
        let memory = node.worker(executor.handle());
        executor.block_on(async {
            let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
            let mut inserted = 0;
            let mut refused = 0;
            for k in shuffled(300) {
                match tree.insert(&k.to_be_bytes(), b"value").await {
                    Ok(()) => inserted += 1,
                    Err(TreeError::Memory(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(refused > 0);
            assert_eq!(tree.validate().await.unwrap().entries, inserted);
            let bulk = (0..100_u64).map(|k| (k.to_be_bytes(), [0; 8]));
            assert!(matches!(tree.bulk_load(bulk, 1.0).await, Err(TreeError::NotEmpty)));
        });
    }
}
