//! Keys that are added behind recently added keys. The handle goes to the leaf of those keys
//! without a descent. Other changes of that leaf in between must not put a key into a wrong
//! position.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use latchwork_blink::{Insertion, LeafStamp, Tree, TreeConfig, TreeError, TreeStatistics};
use latchwork_coherence::CoherentMemory;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

/// A key that counts up within a group. The groups follow each other.
fn key(group: u32, count: u32) -> [u8; 8] {
    (u64::from(group) << 32 | u64::from(count)).to_be_bytes()
}

async fn add(tree: &Tree<LocalMemory>, keys: impl IntoIterator<Item = [u8; 8]>) {
    for key in keys {
        tree.insert(&key, &key).await.unwrap();
    }
}

/// Checks that searches and scans find exactly the expected keys.
async fn check(
    tree: &Tree<LocalMemory>,
    keys: impl IntoIterator<Item = [u8; 8]>,
) -> TreeStatistics {
    let statistics = tree.validate().await.unwrap();
    let mut count = 0;
    for key in keys {
        assert_eq!(tree.get(&key).await.unwrap().as_deref(), Some(&key[..]), "{key:?}");
        count += 1;
    }
    assert_eq!(statistics.entries, count);
    statistics
}

fn run(test: impl AsyncFnOnce(LocalMemory, LocalNode)) {
    let mut executor = executor(1);
    let node = LocalNode::new(Settings::CALM);
    let memory = node.worker(executor.handle());
    executor.block_on(test(memory, node));
}

#[test]
fn keys_that_ascend_in_groups_need_no_descents_and_leave_full_leaves() {
    run(async |memory, node| {
        let tree = Tree::create(memory, TreeConfig::default()).await.unwrap();
        let groups = 20;
        add(&tree, (0..groups).flat_map(|group| (0..50).map(move |count| key(group, count)))).await;
        let before = node.reads();
        for count in 50..500 {
            add(&tree, (0..groups).map(|group| key(group, count))).await;
        }
        // One page read for each key, and a few for each new leaf.
        let looks = (node.reads() - before) as f64 / f64::from(groups * 450);
        assert!(looks < 2.0, "{looks} looks at pages for each key");
        let all = (0..groups).flat_map(|group| (0..500).map(move |count| key(group, count)));
        let statistics = check(&tree, all).await;
        assert!(statistics.fill() > 0.9, "{statistics:?}");
    });
}

#[test]
fn a_leaf_that_another_handle_has_split_takes_only_what_belongs_there() {
    run(async |memory, _| {
        let tree = Tree::create(memory.clone(), TreeConfig::default()).await.unwrap();
        let other = Tree::open(memory, tree.root(), TreeConfig::default()).await.unwrap();
        let mut all = Vec::new();
        for round in 0..50 {
            let from = round * 1000;
            let own = (from..from + 3).map(|count| key(1, count));
            // Keys before the last added key, and between that key and the next key.
            let others = (from..from + 40).map(|count| key(1, count + 900));
            let between = (from..from + 40).map(|count| key(1, count + 3));
            let next = (from..from + 3).map(|count| key(1, count + 500));
            add(&tree, own.clone()).await;
            add(&other, between.clone()).await;
            add(&other, others.clone()).await;
            add(&tree, next.clone()).await;
            all.extend(own.chain(others).chain(between).chain(next));
        }
        check(&tree, all).await;
    });
}

#[test]
fn a_root_that_was_a_leaf_takes_no_more_keys() {
    run(async |memory, _| {
        let tree = Tree::create(memory.clone(), TreeConfig::default()).await.unwrap();
        let other = Tree::open(memory, tree.root(), TreeConfig::default()).await.unwrap();
        add(&tree, (0..4).map(|count| key(1, count))).await;
        add(&other, (100..400).map(|count| key(1, count))).await;
        add(&tree, (4..100).map(|count| key(1, count))).await;
        let statistics = check(&tree, (0..400).map(|count| key(1, count))).await;
        assert!(statistics.pages_per_level.len() > 1);
    });
}

#[test]
fn keys_with_the_same_beginning_come_in_front_of_the_leaf_and_into_the_middle_of_it() {
    run(async |memory, _| {
        let tree = Tree::create(memory, TreeConfig::default()).await.unwrap();
        add(&tree, (1000..1400).map(|count| key(1, 2 * count))).await;
        // The third key is below the low fence of the leaf that the handle remembers.
        add(&tree, [key(1, 1), key(1, 3000), key(1, 2)]).await;
        // Keys between the keys of the leaf, upwards and downwards.
        add(&tree, (1380..1400).map(|count| key(1, 2 * count + 1))).await;
        add(&tree, (1300..1380).rev().map(|count| key(1, 2 * count + 1))).await;
        let twice = tree.insert(&key(1, 2 * 1399 + 1), b"").await;
        assert!(matches!(twice, Err(TreeError::Exists)), "{twice:?}");
        let mut all: Vec<_> = (1000..1400).map(|count| key(1, 2 * count)).collect();
        all.extend((1300..1400).map(|count| key(1, 2 * count + 1)));
        all.extend([key(1, 1), key(1, 3000), key(1, 2)]);
        check(&tree, all).await;
    });
}

#[test]
fn what_was_removed_meanwhile_moves_no_key_out_of_order() {
    run(async |memory, _| {
        let tree = Tree::create(memory, TreeConfig::default()).await.unwrap();
        for round in 0..40_u32 {
            add(&tree, (10 * round..10 * round + 10).map(|count| key(1, count))).await;
            for count in 10 * round..10 * round + 9 {
                assert!(tree.remove(&key(1, count)).await.unwrap());
            }
        }
        check(&tree, (0..40).map(|round| key(1, 10 * round + 9))).await;
    });
}

/// The result of a future at its first poll, if it is ready then.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

#[test]
fn additions_are_ready_at_the_first_poll_where_all_is_here() {
    run(async |memory, _| {
        let stamped = TreeConfig { stamped: true, ..TreeConfig::default() };
        let tree = Tree::create(memory.clone(), stamped).await.unwrap();
        let handle = memory.handle().clone();
        let plain = Tree::create(memory, TreeConfig::default()).await.unwrap();
        let value = |value: latchwork_blink::TreeValue<'_>| value.to_vec();
        let yes = |_: &LeafStamp| true;
        let refused = plain.insert_stamped(b"key", b"value", yes, value, |_| ()).await;
        assert!(matches!(refused, Err(TreeError::NotStamped)), "{refused:?}");
        assert!(tree.insert_stamped(b"", b"value", yes, value, |_| ()).await.is_err());
        assert!(tree.insert_run_stamped(&[], yes, value, |_| ()).await.is_err());

        let mut model = BTreeMap::new();
        let (mut here, mut runs) = (0, 0);
        for count in 0..300 {
            // A task that never yields uses its budget up, and then an operation yields by itself.
            handle.yield_now().await;
            let (key, next) = (key(1, 3 * count), key(1, 3 * count + 1));
            let run = [(&key[..], &b"one"[..]), (&next[..], &b"two"[..])];
            let added = match count % 2 {
                0 => {
                    let one = tree.insert_stamped(&key, b"one", yes, value, |_| ());
                    at_once(one).map(|done| done.map(|done| (1, done)))
                }
                _ => at_once(tree.insert_run_stamped(&run, yes, value, |_| ())),
            };
            here += u32::from(added.is_some());
            let (new, done) = match added {
                Some(done) => done.unwrap(),
                // A future that is dropped before its change has left no entry.
                None => tree.insert_run_stamped(&run[..1], yes, value, |_| ()).await.unwrap(),
            };
            assert!(matches!(done, Insertion::New { .. }));
            runs += u32::from(new == 2);
            model.extend(run[..new].iter().map(|(key, value)| (key.to_vec(), value.to_vec())));

            if count < 100 {
                // While the root is a leaf, the fast path reaches that leaf only for later keys.
                continue;
            }
            let again = at_once(tree.insert_stamped(&key, b"three", yes, value, |_| ()));
            let Some(Ok(Insertion::Exists { found, .. })) = again else { panic!("{again:?}") };
            assert_eq!(found, b"one");
            let key = [&key[..], b"x"].concat();
            let refused = at_once(tree.insert_stamped(&key, b"", |_| false, value, |_| ()));
            assert!(matches!(refused, Some(Ok(Insertion::Refused(_)))), "{refused:?}");
        }
        assert!(here > 230 && runs > 100, "{here} of 300 at once, {runs} of 150 runs whole");
        assert_eq!(tree.validate().await.unwrap().entries, model.len() as u64);
        for (key, value) in &model {
            assert_eq!(tree.get(key).await.unwrap().as_ref(), Some(value));
        }
    });
}

#[test]
fn of_a_run_out_of_order_only_what_ascends_is_added() {
    run(async |memory, _| {
        let stamped = TreeConfig { stamped: true, ..TreeConfig::default() };
        let tree = Tree::create(memory, stamped).await.unwrap();
        // After this, a page has room for more.
        tree.insert(b"m", b"0").await.unwrap();
        let run: [(&[u8], &[u8]); 5] =
            [(b"b", b"1"), (b"c", b"2"), (b"a", b"3"), (b"e", b"4"), (b"c", b"5")];
        let (new, _) = tree.insert_run_stamped(&run, |_| true, |_| (), |_| ()).await.unwrap();
        assert_eq!(new, 2);
        let (new, _) = tree.insert_run_stamped(&run[2..], |_| true, |_| (), |_| ()).await.unwrap();
        assert_eq!(new, 1, "there is another key in between");
        assert_eq!(tree.validate().await.unwrap().entries, 4);
    });
}

#[test]
fn without_a_cache_and_with_next_to_none_nothing_is_added_twice_or_lost() {
    for settings in [Settings::WITHOUT_CACHE, Settings::TINY] {
        let mut executor = executor(2);
        let memory = LocalNode::new(settings).worker(executor.handle());
        executor.block_on(async {
            let tree = Tree::create(memory.clone(), TreeConfig::default()).await.unwrap();
            let mut tasks = Vec::new();
            for group in 0..4 {
                let tree = tree.clone();
                let add = async move { add(&tree, (0..60).map(|count| key(group, count))).await };
                tasks.push(memory.handle().spawn(add));
            }
            for task in tasks {
                task.await.unwrap();
            }
            let all = (0..4).flat_map(|group| (0..60).map(move |count| key(group, count)));
            check(&tree, all).await;
        });
    }
}
