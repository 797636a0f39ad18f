//! Empty leaves leave the tree, and their lines are freed and used again.

use std::ops::{Bound, ControlFlow};
use std::pin::pin;
use std::task::Poll;

use latchwork_blink::{Tree, TreeConfig, TreeRules};

use crate::common::{LocalMemory, LocalNode, Settings, executor};

const FAN_OUT_3: TreeConfig = TreeConfig {
    stamped: false,
    max_entries_leaf: Some(3),
    max_entries_inner: Some(3),
    rules: TreeRules::ALL,
};

fn run(settings: Settings, test: impl AsyncFnOnce(LocalNode, LocalMemory)) {
    let mut executor = executor(3);
    let node = LocalNode::new(settings);
    let memory = node.worker(executor.handle());
    executor.block_on(test(node, memory));
}

/// Polls a future at most `polls` times. `None`: it was not ready, and is dropped.
async fn at_most<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await
}

async fn keys(tree: &Tree<LocalMemory>) -> Vec<u64> {
    let mut keys = Vec::new();
    let visit = |key: &[u8], _: &[u8]| {
        keys.push(u64::from_be_bytes(key.try_into().unwrap()));
        ControlFlow::Continue(())
    };
    tree.scan_up(Bound::Unbounded, usize::MAX, visit).await.unwrap();
    keys
}

/// Each round has the same pages in use at its end, and none of them is lost.
#[test]
fn ten_rounds_of_a_load_and_a_removal_of_all_keys_leave_the_pages_of_the_first() {
    let orders: [fn(u64) -> u64; 3] = [|k| k, |k| 999 - k, |k| k * 7919 % 1000];
    for config in [FAN_OUT_3, TreeConfig::default(), TreeConfig { stamped: true, ..FAN_OUT_3 }] {
        for order in orders {
            run(Settings::CALM, async |node, memory| {
                let tree = Tree::create(memory, config).await.unwrap();
                let mut first = 0;
                for round in 0..10 {
                    for k in 0..1000_u64 {
                        tree.insert(&k.to_be_bytes(), b"value").await.unwrap();
                    }
                    let full = tree.validate().await.unwrap();
                    for k in (0..1000).map(order) {
                        assert!(tree.remove(&k.to_be_bytes()).await.unwrap());
                    }
                    let empty = tree.validate().await.unwrap();
                    tree.release_spares().await.unwrap();
                    assert_eq!((empty.entries, keys(&tree).await), (0, vec![]));
                    assert_eq!(empty.pages(), node.live_lines() as u64, "a line is lost");
                    assert_eq!(empty.leaves_freed, empty.leaves_unlinked);
                    // The leftmost page of each level stays, the height never shrinks, and a page
                    // with one child stays if its left sibling was full.
                    first = if round == 0 { empty.pages() } else { first };
                    assert!(empty.pages() <= 4 * full.pages_per_level.len() as u64, "{empty:?}");
                    assert!(empty.pages().abs_diff(first) <= 8, "round {round}: {empty:?}");
                }
            });
        }
    }
}

/// A queue: the tree has few pages all the time, whatever went through it.
#[test]
fn a_queue_has_a_bounded_number_of_pages() {
    for settings in [Settings::CALM, Settings::TINY] {
        run(settings, async |node, memory| {
            let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
            let mut most = 0;
            for k in 0..2000_u64 {
                tree.insert(&k.to_be_bytes(), b"value").await.unwrap();
                if k >= 20 {
                    assert!(tree.remove(&(k - 20).to_be_bytes()).await.unwrap());
                }
                most = most.max(node.live_lines());
            }
            assert_eq!(keys(&tree).await, (1980..2000).collect::<Vec<_>>());
            let statistics = tree.validate().await.unwrap();
            assert!(most <= 40, "{most} lines for 20 entries: {statistics:?}");
            tree.release_spares().await.unwrap();
            assert_eq!(statistics.pages(), node.live_lines() as u64);
        });
    }
}

/// Under a protocol without a cache the pages stay, and the tree is right.
#[test]
fn without_a_cache_empty_leaves_stay() {
    run(Settings::WITHOUT_CACHE, async |node, memory| {
        let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
        for k in 0..60_u64 {
            tree.insert(&k.to_be_bytes(), b"value").await.unwrap();
        }
        let before = tree.validate().await.unwrap();
        for k in 0..60_u64 {
            assert!(tree.remove(&k.to_be_bytes()).await.unwrap());
        }
        let after = tree.validate().await.unwrap();
        assert_eq!((after.pages(), after.leaves_unlinked), (before.pages(), 0));
        tree.release_spares().await.unwrap();
        assert_eq!(after.pages(), node.live_lines() as u64);
    });
}

/// A removal is dropped at each of its awaits. The tree validates each time, and the next removal
/// does what the scan before it has met.
#[test]
fn a_step_that_was_dropped_is_done_by_a_later_removal() {
    let mut left_behind = 0;
    for polls in 1..60 {
        run(Settings::TINY, async |node, memory| {
            let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
            for k in 0..40_u64 {
                tree.insert(&k.to_be_bytes(), b"value").await.unwrap();
            }
            let leaf = 21..24_u64;
            for k in leaf.clone().skip(1) {
                at_most(1000, tree.remove(&k.to_be_bytes())).await.unwrap().unwrap();
            }
            let done = at_most(polls, tree.remove(&leaf.start.to_be_bytes())).await;
            let statistics = tree.validate().await.unwrap();
            if statistics.empty_leaves > 0 && done.is_none() {
                left_behind += 1;
            }
            let there = keys(&tree).await;
            assert!(there.contains(&30) && (there.contains(&21) || statistics.entries == 37));
            tree.remove(&30_u64.to_be_bytes()).await.unwrap();
            tree.remove(&21_u64.to_be_bytes()).await.unwrap();
            let statistics = tree.validate().await.unwrap();
            assert_eq!((statistics.entries, statistics.empty_leaves), (36, 0), "after {polls}");
            tree.release_spares().await.unwrap();
            assert_eq!(statistics.pages(), node.live_lines() as u64, "after {polls} polls");
        });
    }
    assert!(left_behind > 0, "no drop came between the removal and the step");
}

/// A split has not posted its new page yet. Others post it, empty it and take it out. The late post
/// must not bring it back.
#[test]
fn a_late_post_does_not_bring_a_page_back() {
    for polls in 1..80 {
        run(Settings::TINY, async |node, memory| {
            let tree = Tree::create(memory, FAN_OUT_3).await.unwrap();
            let key = |k: u64| k.to_be_bytes();
            for k in (0..100).step_by(10) {
                tree.insert(&key(k), b"value").await.unwrap();
            }
            let late = key(41);
            let mut insert = pin!(async {
                tree.insert(&key(42), b"value").await.unwrap();
                tree.insert(&late, b"value").await.unwrap();
            });
            let mut is_done = at_most(polls, insert.as_mut()).await.is_some();
            let other = tree.clone();
            for k in (31..70).filter(|k| k % 10 != 0) {
                other.upsert(&key(k), b"value").await.unwrap();
            }
            for k in 31..90 {
                other.remove(&key(k)).await.unwrap();
            }
            // New pages in the lines of those that are out.
            for k in 71..80 {
                other.upsert(&key(k), b"value").await.unwrap();
            }
            if !is_done {
                is_done = at_most(10_000, insert).await.is_some();
            }
            assert!(is_done);
            let statistics = tree.validate().await.unwrap();
            let there = keys(&tree).await;
            assert_eq!(statistics.entries, there.len() as u64);
            for k in 71..80 {
                assert!(there.contains(&k), "after {polls} polls: {there:?}");
            }
            tree.release_spares().await.unwrap();
            other.release_spares().await.unwrap();
            assert_eq!(statistics.pages(), node.live_lines() as u64, "after {polls} polls");
        });
    }
}

/// A leaf that was recorded has left the tree, and its line has become another leaf.
#[test]
fn a_leaf_is_not_taken_for_its_lines_next_page() {
    run(Settings::CALM, async |_, memory| {
        let stamped = TreeConfig { stamped: true, ..FAN_OUT_3 };
        let tree = Tree::create(memory, stamped).await.unwrap();
        let mut seen = Vec::new();
        for k in 0..600_u64 {
            tree.insert(&k.to_be_bytes(), b"value").await.unwrap();
            let (_, leaf) = tree.get_stamped(&k.to_be_bytes(), |_| ()).await.unwrap();
            seen.push(leaf);
            if k >= 30 {
                assert!(
                    tree.remove_stamped(&(k - 30).to_be_bytes(), b"value", 1, 1).await.unwrap()
                );
            }
        }
        let mut again = 0;
        for (k, leaf) in seen.iter().enumerate().take(500) {
            again += usize::from(seen[k + 30..].iter().any(|later| later.addr == leaf.addr));
            assert!(!tree.still(leaf).await.unwrap(), "key {k} in {leaf:?}");
            assert_eq!(tree.raise_read(leaf, 1).await.unwrap(), None);
        }
        assert!(again > 100, "lines were used again: {again}");
    });
}
