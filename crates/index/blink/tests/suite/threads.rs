//! Several threads on the cache of one node: real writers tear reads here.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_blink::{Tree, TreeConfig};
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
        let config =
            TreeConfig { stamped: false, max_entries_leaf: Some(4), max_entries_inner: Some(4) };
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
        let config =
            TreeConfig { stamped: false, max_entries_leaf: Some(3), max_entries_inner: Some(3) };
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
