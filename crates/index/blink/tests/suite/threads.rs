//! Several threads on the cache of one node: real writers tear reads here.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_blink::{Tree, TreeConfig, TreeRules};
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use crate::common;
use crate::common::{LocalNode, Settings, executor};

const THREADS: u64 = 4;

fn on_threads(node: &LocalNode, work: impl Fn(u64, LocalNode) + Send + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (node, work) = (node.clone(), &work);
            scope.spawn(move || work(thread, node));
        }
    });
}

fn create(node: &LocalNode, config: TreeConfig) -> GlobalAddr {
    let mut executor = executor(0);
    let memory = node.worker(executor.handle());
    executor.block_on(Tree::create(memory, config)).unwrap().root()
}

fn with_tree<T>(
    node: &LocalNode,
    root: GlobalAddr,
    config: TreeConfig,
    seed: u64,
    work: impl AsyncFnOnce(Tree<common::LocalMemory>) -> T,
) -> T {
    let mut executor = executor(seed);
    let memory = node.worker(executor.handle());
    executor.block_on(async { work(Tree::open(memory, root, config).await.unwrap()).await })
}

#[test]
fn values_are_never_seen_half_written() {
    for settings in [Settings::CALM, Settings { frames: 16, ..Settings::TINY }] {
        let node = LocalNode::new(settings);
        let config = TreeConfig {
            stamped: false,
            max_entries_leaf: Some(4),
            max_entries_inner: Some(4),
            rules: TreeRules::ALL,
        };
        let root = create(&node, config);
        let keys = 50_u64;
        with_tree(&node, root, config, 1, async |tree| {
            for k in 0..keys {
                tree.insert(&k.to_be_bytes(), &[0; 64]).await.unwrap();
            }
        });
        on_threads(&node, |thread, node| {
            with_tree(&node, root, config, thread, async |tree| {
                let whole = |value: &[u8]| value.iter().all(|byte| *byte == value[0]);
                for round in 0..5000_u64 {
                    let key = (round * 7 % keys).to_be_bytes();
                    match (thread + round) % 5 {
                        0 => {
                            // The length grows and shrinks, so that entries move inside the page.
                            let len = 8 + (round % 60) as usize;
                            tree.update(&key, &vec![round as u8; len]).await.unwrap();
                        }
                        1 => {
                            let fill = |value: &mut latchwork_blink::ValueMut<'_>| {
                                assert!(whole(&value.to_vec()));
                                value.write(0, &vec![round as u8; value.len()]);
                            };
                            tree.modify(&key, fill).await.unwrap();
                        }
                        2 => {
                            let visit = |_: &[u8], value: &[u8]| {
                                assert!(whole(value));
                                ControlFlow::Continue(())
                            };
                            tree.scan_up(Bound::Included(&key), 10, visit).await.unwrap();
                        }
                        3 => {
                            let some =
                                [0, 1, 2, 3, 4].map(|i| ((round + i) * 11 % keys).to_be_bytes());
                            let mut found = Vec::new();
                            let copy = |_, value: latchwork_blink::TreeValue<'_>| value.to_vec();
                            tree.get_many(&some, copy, &mut found).await.unwrap();
                            assert!(
                                found.iter().flatten().filter(|value| whole(value)).count() == 5
                            );
                        }
                        _ => assert!(whole(&tree.get(&key).await.unwrap().unwrap())),
                    }
                }
            });
        });
        let statistics = with_tree(&node, root, config, 9, async |tree| tree.validate().await);
        assert_eq!(statistics.unwrap().entries, keys);
    }
}

#[test]
fn threads_that_insert_side_by_side_find_all_their_keys() {
    for settings in [Settings::CALM, Settings { frames: 16, ..Settings::TINY }] {
        let node = LocalNode::new(settings);
        let config = TreeConfig {
            stamped: false,
            max_entries_leaf: Some(3),
            max_entries_inner: Some(3),
            rules: TreeRules::ALL,
        };
        let root = create(&node, config);
        let highest = Arc::new(AtomicU64::new(0));
        let each = 1500;
        on_threads(&node, |thread, node| {
            with_tree(&node, root, config, thread, async |tree| {
                for k in 0..each {
                    // Keys ascend for all threads, so that all threads need the same leaf.
                    let key = k * THREADS + thread;
                    tree.insert(&key.to_be_bytes(), &key.to_le_bytes()).await.unwrap();
                    highest.fetch_max(key, Ordering::Relaxed);
                    let value = tree.get_with(&key.to_be_bytes(), |value| value.u64(0)).await;
                    assert_eq!(value.unwrap(), Some(key));
                }
            });
        });
        with_tree(&node, root, config, 9, async |tree| {
            let statistics = tree.validate().await.unwrap();
            assert_eq!(statistics.entries, each * THREADS);
            assert_eq!(statistics.unposted_pages, 0);
            assert_eq!(tree.count().await.unwrap(), highest.load(Ordering::Relaxed) + 1);
        });
    }
}

/// One thread appends, one removes from the left, and two look: a key that is there throughout is
/// found, and a key that was removed before is not. Lines of empty leaves become new leaves.
#[test]
fn threads_share_a_queue() {
    for settings in [Settings::CALM, Settings { frames: 24, ..Settings::TINY }] {
        let node = LocalNode::new(settings);
        let config = TreeConfig {
            stamped: false,
            max_entries_leaf: Some(3),
            max_entries_inner: Some(3),
            rules: TreeRules::ALL,
        };
        let root = create(&node, config);
        let all = 6000_u64;
        // Keys below `gone` are removed. Keys from `leaving` on, below `added`, are there.
        let [gone, leaving, added] = [(); 3].map(|()| AtomicU64::new(0));
        on_threads(&node, |thread, node| {
            with_tree(&node, root, config, thread, async |tree| {
                match thread {
                    0 => {
                        for k in 0..all {
                            while k > leaving.load(Ordering::SeqCst) + 50 {
                                tree.memory().handle().yield_now().await;
                            }
                            tree.insert(&k.to_be_bytes(), &k.to_le_bytes()).await.unwrap();
                            added.store(k + 1, Ordering::SeqCst);
                        }
                    }
                    1 => {
                        for k in 0..all {
                            while k + 10 > added.load(Ordering::SeqCst).max(11) && k + 10 < all {
                                tree.memory().handle().yield_now().await;
                            }
                            leaving.store(k + 1, Ordering::SeqCst);
                            while !tree.remove(&k.to_be_bytes()).await.unwrap() {}
                            gone.store(k + 1, Ordering::SeqCst);
                        }
                    }
                    _ => {
                        let mut round = thread;
                        while gone.load(Ordering::SeqCst) < all {
                            round += 1;
                            let from = gone.load(Ordering::SeqCst);
                            let to = added.load(Ordering::SeqCst);
                            let mut keys = Vec::new();
                            if round % 4 < 2 {
                                let key = from + round % (to - from).max(1);
                                let found = tree.get(&key.to_be_bytes()).await.unwrap();
                                keys.extend(found.map(|_| key));
                                if leaving.load(Ordering::SeqCst) <= key && key < to {
                                    assert_eq!(keys, [key]);
                                }
                                let old = from.saturating_sub(1 + round % 9).to_be_bytes();
                                assert!(from == 0 || tree.get(&old).await.unwrap().is_none());
                                continue;
                            }
                            let visit = |key: &[u8], _: &[u8]| {
                                keys.push(u64::from_be_bytes(key.try_into().unwrap()));
                                ControlFlow::Continue(())
                            };
                            match round % 4 {
                                2 => tree.scan_up(Bound::Unbounded, usize::MAX, visit).await,
                                _ => tree.scan_down(Bound::Unbounded, usize::MAX, visit).await,
                            }
                            .unwrap();
                            keys.sort_unstable();
                            let there = leaving.load(Ordering::SeqCst)..to;
                            assert!(there.clone().all(|k| keys.binary_search(&k).is_ok()));
                            assert!(keys.first().is_none_or(|first| *first >= from));
                            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
                        }
                    }
                }
                tree.release_spares().await.unwrap();
            });
        });
        let statistics = with_tree(&node, root, config, 9, async |tree| tree.validate().await);
        let statistics = statistics.unwrap();
        assert_eq!(statistics.entries, 0);
        assert_eq!(statistics.pages(), node.live_lines() as u64);
        assert!(statistics.pages() < 30, "{statistics:?}");
    }
}
