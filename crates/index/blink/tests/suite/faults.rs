//! User errors and damaged pages: clear errors, no panic, no endless loop.

use std::ops::{Bound, ControlFlow};

use latchwork_blink::{Leaf, Tree, TreeConfig, TreeError, TreeRules};
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::{GlobalAddr, MemoryNodeId};
use proptest::prelude::*;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

const FAN_OUT_4: TreeConfig = TreeConfig {
    stamped: false,
    max_entries_leaf: Some(4),
    max_entries_inner: Some(4),
    rules: TreeRules::ALL,
};

fn run(settings: Settings, test: impl AsyncFnOnce(LocalNode, LocalMemory)) {
    let mut executor = executor(3);
    let node = LocalNode::new(settings);
    let memory = node.worker(executor.handle());
    executor.block_on(test(node, memory));
}

#[test]
fn keys_and_values_out_of_bounds_are_refused_and_those_at_the_bounds_are_not() {
    run(Settings::CALM, async |_, memory| {
        let tree = Tree::create(memory, TreeConfig::default()).await.unwrap();
        let limits = tree.limits();
        assert!(matches!(tree.insert(b"", b"").await, Err(TreeError::KeyEmpty)));
        assert!(matches!(tree.get(b"").await, Err(TreeError::KeyEmpty)));
        let long_key = vec![1; limits.key_max + 1];
        let error = tree.upsert(&long_key, b"").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "a key of 41 bytes is too long: with this line size at most 40 bytes fit"
        );
        let long_value = vec![1; limits.value_max + 1];
        let error = tree.insert(b"key", &long_value).await.unwrap_err();
        assert!(matches!(error, TreeError::ValueTooLong { len: 129, max: 128 }), "{error}");

        for k in 0..100_u8 {
            let mut key = vec![7; limits.key_max];
            key[usize::from(k % 40)] = k;
            tree.upsert(&key, &vec![k; limits.value_max]).await.unwrap();
        }
        assert_eq!(tree.validate().await.unwrap().entries, 100);
    });
}

#[test]
fn a_bulk_load_that_fails_leaves_the_tree_as_it_was() {
    run(Settings::CALM, async |node, memory| {
        let tree = Tree::create(memory, FAN_OUT_4).await.unwrap();
        let keys = || (0..50_u64).map(|k| k.to_be_bytes().to_vec());
        let unsorted = keys().chain([vec![0]]).map(|key| (key, b"value"));
        let error = tree.bulk_load(unsorted, 1.0).await.unwrap_err();
        assert!(matches!(error, TreeError::Unsorted { index: 50 }), "{error}");
        let too_long = keys().chain([vec![9; 41]]).map(|key| (key, b"value"));
        assert!(matches!(tree.bulk_load(too_long, 1.0).await, Err(TreeError::KeyTooLong { .. })));
        let fill = tree.bulk_load([(b"key", b"value")], 1.5).await;
        assert!(matches!(fill, Err(TreeError::FillFactor(_))));
        assert_eq!(tree.validate().await.unwrap().entries, 0);
        assert_eq!(node.live_lines(), 1, "the pages written so far are freed");

        tree.insert(b"key", b"value").await.unwrap();
        let late = keys().map(|key| (key, b"value"));
        assert!(matches!(tree.bulk_load(late, 1.0).await, Err(TreeError::NotEmpty)));
    });
}

#[test]
fn what_is_no_tree_cannot_be_opened() {
    run(Settings::CALM, async |_, memory| {
        let line = memory.allocate().await.unwrap();
        let error = Tree::open(memory.clone(), line, FAN_OUT_4).await.unwrap_err();
        assert!(matches!(error, TreeError::Corrupt { page, .. } if page == line), "{error}");
        let nowhere = GlobalAddr::new(MemoryNodeId(7), 0);
        let error = Tree::open(memory, nowhere, FAN_OUT_4).await.unwrap_err();
        assert!(matches!(error, TreeError::Memory(_)), "{error}");
    });
}

#[test]
fn a_tree_with_leaf_stamps_and_one_without_are_distinguished() {
    run(Settings::CALM, async |_, memory| {
        let stamped = TreeConfig { stamped: true, ..FAN_OUT_4 };
        for (made, opened, hint) in
            [(stamped, FAN_OUT_4, "stamped: true"), (FAN_OUT_4, stamped, "stamped: false")]
        {
            let tree = Tree::create(memory.clone(), made).await.unwrap();
            for k in 0..20_u64 {
                let root = tree.root();
                let error = Tree::open(memory.clone(), root, opened).await.unwrap_err();
                let is_corrupt = matches!(error, TreeError::Corrupt { page, .. } if page == root);
                assert!(is_corrupt && error.to_string().contains(hint), "{error}");
                tree.insert(&k.to_be_bytes(), b"value").await.unwrap();
            }
            Tree::open(memory.clone(), tree.root(), made).await.unwrap();
        }
    });
}

#[test]
fn a_tree_without_leaf_stamps_says_so_and_one_with_them_knows_its_leaves() {
    run(Settings::CALM, async |_, memory| {
        let plain = Tree::create(memory.clone(), FAN_OUT_4).await.unwrap();
        let stamped = TreeConfig { stamped: true, ..FAN_OUT_4 };
        let tree = Tree::create(memory, stamped).await.unwrap();
        let (_, leaf) = tree.get_stamped(b"key", |_| ()).await.unwrap();
        let go_on = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        let no_stamps = |error: TreeError| matches!(error, TreeError::NotStamped);
        let all = (Bound::Unbounded, usize::MAX);
        assert!(no_stamps(plain.get_stamped(b"key", |_| ()).await.unwrap_err()));
        assert!(no_stamps(
            plain.insert_stamped(b"key", b"", |_| true, |_| (), |_| ()).await.unwrap_err()
        ));
        assert!(no_stamps(plain.replace_stamped(b"key", b"", b"", |_| true).await.unwrap_err()));
        assert!(no_stamps(plain.remove_stamped(b"key", b"", 0, 0).await.unwrap_err()));
        assert!(no_stamps(
            plain.scan_up_stamped(all.0, all.0, all.1, go_on, |_| ()).await.unwrap_err()
        ));
        assert!(no_stamps(plain.scan_down_stamped(all.0, all.1, go_on, |_| ()).await.unwrap_err()));
        assert!(no_stamps(plain.raise_read(&leaf, 1).await.unwrap_err()));
        assert!(no_stamps(plain.still(&leaf).await.unwrap_err()));

        let foreign = Leaf { addr: plain.root(), ..leaf };
        assert!(!tree.still(&foreign).await.unwrap(), "like a leaf that has left the tree");
        assert_eq!(tree.raise_read(&foreign, 1).await.unwrap(), None);
        assert!(tree.still(&leaf).await.unwrap());
    });
}

#[test]
fn a_bulk_load_detects_a_reader_of_the_empty_tree_meanwhile() {
    run(Settings::CALM, async |node, memory| {
        let stamped = TreeConfig { stamped: true, ..FAN_OUT_4 };
        let tree = Tree::create(memory.clone(), stamped).await.unwrap();
        let (_, leaf) = tree.get_stamped(b"key", |_| ()).await.unwrap();
        let mut executor = executor(4);
        let entries = (0..50_u64).map(|k| {
            if k == 49 {
                let other = node.worker(executor.handle());
                executor.block_on(async {
                    let tree = Tree::open(other, tree.root(), stamped).await.unwrap();
                    assert!(tree.raise_read(&leaf, 7).await.unwrap().is_some());
                });
            }
            (k.to_be_bytes(), b"value")
        });
        let error = tree.bulk_load(entries, 1.0).await.unwrap_err();
        assert!(matches!(error, TreeError::InUse), "{error}");
        assert_eq!(node.live_lines(), 1, "the pages written so far are freed");
        let (_, again) = tree.get_stamped(b"key", |_| ()).await.unwrap();
        assert_eq!((again.stamp.structure, again.stamp.read), (leaf.stamp.structure, 7));
        assert_eq!(tree.bulk_load([(b"key", b"value")], 1.0).await.unwrap(), 1);
        let (found, loaded) = tree.get_stamped(b"key", |value| value.to_vec()).await.unwrap();
        assert_eq!((found, loaded.stamp.read), (Some(b"value".to_vec()), 7));
        assert!(!tree.still(&again).await.unwrap());
    });
}

#[test]
fn a_get_over_cached_pages_does_not_wait() {
    run(Settings::CALM, async |_, memory| {
        let tree = Tree::create(memory, FAN_OUT_4).await.unwrap();
        for k in 0..200_u64 {
            tree.insert(&k.to_be_bytes(), &k.to_le_bytes()).await.unwrap();
        }
        for k in 0..200_u64 {
            assert_eq!(tree.try_get(&k.to_be_bytes(), |value| value.u64(0)), Ok(Some(k)));
        }
        assert_eq!(tree.try_get(b"none", |value| value.u64(0)), Ok(None));
    });
    run(Settings::TINY, async |_, memory| {
        let tree = Tree::create(memory.clone(), FAN_OUT_4).await.unwrap();
        for k in 0..200_u64 {
            tree.insert(&k.to_be_bytes(), &k.to_le_bytes()).await.unwrap();
        }
        let missed = (0..200_u64)
            .filter(|k| tree.try_get(&k.to_be_bytes(), |value| value.u64(0)).is_err())
            .count();
        assert!(missed > 100, "four frames cannot hold the tree");
    });
}

#[test]
fn validate_names_the_page_and_what_is_wrong_with_it() {
    run(Settings::CALM, async |_, memory| {
        let tree = Tree::create(memory.clone(), FAN_OUT_4).await.unwrap();
        for k in 0..4_u64 {
            tree.insert(&k.to_be_bytes(), b"value").await.unwrap();
        }
        // Exchange the first two heads of the only page.
        let exchange = |guard: &mut latchwork_cache::WriteGuard<'_>| {
            let words = guard.words();
            let (first, second) = (words.u64(40), words.u64(48));
            words.set_u64(40, second);
            words.set_u64(48, first);
            guard.mark_dirty(0..64);
        };
        memory.write(tree.root(), exchange).await.unwrap();
        let error = tree.validate().await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("page {} is corrupt: slot ", tree.root())), "{error}");
    });
}

/// The words of a page's header.
const HEADER: usize = 5;

#[test]
fn a_misled_writer_gets_an_error_and_overwrites_nothing() {
    run(Settings::CALM, async |_, memory| {
        let tree = Tree::create(memory.clone(), FAN_OUT_4).await.unwrap();
        // This needs a root and its leaves.
        for k in 0..6_u64 {
            tree.insert(&k.to_be_bytes(), &k.to_le_bytes()).await.unwrap();
        }
        assert_eq!(tree.validate().await.unwrap().pages_per_level, [2, 1]);
        let root = tree.root();
        let cap = memory.read(root, |words| words.word(3) >> 32 & 0xffff).await.unwrap();
        let children = HEADER + cap as usize;
        let child = async |slot: usize| {
            let addr = memory.read(root, |words| words.word(children + slot)).await.unwrap();
            GlobalAddr::from_bits(addr)
        };
        let set = async |page: GlobalAddr, word: usize, value: u64| {
            let set = |guard: &mut latchwork_cache::WriteGuard<'_>| {
                let old = guard.words().word(word);
                guard.words().set_word(word, value);
                guard.mark_dirty(8 * word..8 * word + 8);
                old
            };
            memory.write(page, set).await.unwrap()
        };
        let is_corrupt = |error: TreeError| matches!(error, TreeError::Corrupt { .. });
        let (first, last) = (child(0).await, child(1).await);

        // Exchange the two children.
        set(root, children, last.bits()).await;
        set(root, children + 1, first.bits()).await;
        assert!(is_corrupt(tree.upsert(&0_u64.to_be_bytes(), b"wrong").await.unwrap_err()));
        set(root, children, first.bits()).await;
        set(root, children + 1, last.bits()).await;
        tree.validate().await.unwrap();

        // A leaf whose room is smaller than its content.
        let sizes = memory.read(first, |words| words.word(3)).await.unwrap();
        set(first, 3, sizes & !(0xffff << 32)).await;
        assert!(is_corrupt(tree.get(&0_u64.to_be_bytes()).await.unwrap_err()));
        set(first, 3, sizes).await;

        // A last leaf whose right link leads to the first leaf.
        set(last, 4, first.bits()).await;
        let go_on = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        let scan = tree.scan_up(Bound::Unbounded, usize::MAX, go_on).await;
        assert!(is_corrupt(scan.unwrap_err()));
        assert!(is_corrupt(tree.count().await.unwrap_err()));
        set(last, 4, GlobalAddr::NULL.bits()).await;

        tree.validate().await.unwrap();
        for k in 0..6_u64 {
            assert_eq!(tree.get(&k.to_be_bytes()).await.unwrap(), Some(k.to_le_bytes().to_vec()));
        }
    });
}

/// Bug: the header of a page claimed that a key belongs to the page, but the fence key was below
/// that key. The links then formed a cycle.
#[test]
fn links_in_a_circle_have_an_end() {
    run(Settings::CALM, async |_, memory| {
        let config = TreeConfig { stamped: true, ..FAN_OUT_4 };
        let tree = Tree::create(memory.clone(), config).await.unwrap();
        for k in 0..60_u64 {
            tree.insert(&k.to_be_bytes(), &[1; 16]).await.unwrap();
        }
        let (_, leaf) = tree.get_stamped(&30_u64.to_be_bytes(), |_| ()).await.unwrap();
        // Behind the leaf stamp: the head of the high fence, and the right link.
        let scribble = |guard: &mut latchwork_cache::WriteGuard<'_>| {
            guard.words().set_word(3 + 2, u64::MAX);
            guard.words().set_word(3 + 4, leaf.addr.bits());
            guard.mark_dirty(0..64);
        };
        memory.write(leaf.addr, scribble).await.unwrap();
        let go_on = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        assert!(matches!(tree.count().await, Err(TreeError::Corrupt { .. })));
        let scanned = tree.scan_up(Bound::Unbounded, usize::MAX, go_on).await;
        assert!(matches!(scanned, Err(TreeError::Corrupt { .. })), "{scanned:?}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn scribbled_pages_neither_panic_nor_hang(
        scribbles in proptest::collection::vec((any::<usize>(), 0..60_usize, any::<u64>(), 0..3), 1..6),
        tiny in any::<bool>(),
        stamped in any::<bool>(),
    ) {
        let settings = if tiny { Settings::TINY } else { Settings::CALM };
        run(settings, async |node, memory| {
            let config = TreeConfig { stamped, ..FAN_OUT_4 };
            let tree = Tree::create(memory.clone(), config).await.unwrap();
            let mut leaves = Vec::new();
            for k in 0..60_u64 {
                tree.insert(&(k * 7 % 60).to_be_bytes(), &[1; 16]).await.unwrap();
                leaves.extend(tree.get_stamped(&k.to_be_bytes(), |_| ()).await.ok());
            }
            let lines = node.addresses();
            for (line, word, value, kind) in scribbles {
                let scribble = |guard: &mut latchwork_cache::WriteGuard<'_>| {
                    let old = guard.words().word(word);
                    let new = match kind {
                        0 => value,
                        1 => old ^ (1 << (value % 64)),
                        _ => lines[value as usize % lines.len()].bits(),
                    };
                    guard.words().set_word(word, new);
                    guard.mark_dirty(8 * word..8 * word + 8);
                };
                memory.write(lines[line % lines.len()], scribble).await.unwrap();
            }
            let _ = tree.validate().await;
            let _ = tree.count().await;
            let go_on = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
            let _ = tree.scan_up(Bound::Unbounded, usize::MAX, go_on).await;
            let _ = tree.scan_down(Bound::Unbounded, usize::MAX, go_on).await;
            for k in 0..70_u64 {
                let key = k.to_be_bytes();
                let _ = tree.get(&key).await;
                let _ = tree.upsert(&key, &[2; 16]).await;
                let _ = tree.update(&key, &[3; 60]).await;
                let _ = tree.modify(&key, |value| value.write(0, &vec![4; value.len()])).await;
                let _ = tree.insert(&[&key[..], b"more"].concat(), &[5; 30]).await;
                let _ = tree.remove(&key).await;
                let _ = tree.insert_stamped(&key, &[6; 16], |_| true, |_| (), |_| ()).await;
                let _ = tree.replace_stamped(&key, &[6; 16], &[7; 20], |_| true).await;
                let _ = tree.remove_stamped(&key, &[7; 20], k, k).await;
            }
            for (_, leaf) in leaves {
                let _ = tree.still(&leaf).await;
                let _ = tree.raise_read(&leaf, 9).await;
            }
        });
    }
}
