//! The tree against a `BTreeMap`, one operation after another.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use latchwork_blink::{Tree, TreeConfig, TreeError};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Get(Vec<u8>),
    GetMany(Vec<Vec<u8>>),
    Insert(Vec<u8>, Vec<u8>),
    Update(Vec<u8>, Vec<u8>),
    UpdateRange(Vec<u8>, usize, Vec<u8>),
    Upsert(Vec<u8>, Vec<u8>),
    Modify(Vec<u8>),
    Remove(Vec<u8>),
    ScanUp(Bound<Vec<u8>>, usize),
    ScanDown(Bound<Vec<u8>>, usize),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..120u64).prop_map(|k| k.to_be_bytes().to_vec()),
        2 => (0..120u64).prop_map(|k| format!("user{k:09}").into_bytes()),
        1 => vec(prop_oneof![Just(0u8), Just(1), Just(255)], 1..12),
        1 => vec(any::<u8>(), 1..=40),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![2 => vec(any::<u8>(), 8), 1 => vec(any::<u8>(), 0..=128)]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        3 => key().prop_map(Bound::Included),
        3 => key().prop_map(Bound::Excluded),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => key().prop_map(Op::Get),
        1 => vec(key(), 0..40).prop_map(Op::GetMany),
        6 => (key(), value()).prop_map(|(key, value)| Op::Insert(key, value)),
        2 => (key(), value()).prop_map(|(key, value)| Op::Update(key, value)),
        1 => (key(), 0..16usize, vec(any::<u8>(), 0..8))
            .prop_map(|(key, at, bytes)| Op::UpdateRange(key, at, bytes)),
        3 => (key(), value()).prop_map(|(key, value)| Op::Upsert(key, value)),
        1 => key().prop_map(Op::Modify),
        2 => key().prop_map(Op::Remove),
        1 => (bound(), 0..40usize).prop_map(|(from, limit)| Op::ScanUp(from, limit)),
        1 => (bound(), 0..40usize).prop_map(|(from, limit)| Op::ScanDown(from, limit)),
    ]
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| key.as_slice())
}

async fn apply(tree: &Tree<LocalMemory>, model: &mut Model, op: Op) {
    match op {
        Op::Get(key) => assert_eq!(tree.get(&key).await.unwrap(), model.get(&key).cloned()),
        Op::GetMany(keys) => {
            let mut found = vec![None];
            let visit =
                |number: usize, value: latchwork_blink::TreeValue<'_>| (number, value.to_vec());
            tree.get_many(&keys, visit, &mut found).await.unwrap();
            let wanted = keys.iter().enumerate();
            let wanted: Vec<_> =
                wanted.map(|(number, key)| Some((number, model.get(key)?.clone()))).collect();
            assert_eq!(found, wanted);
            // The fast path gives the same results for the keys that it finds.
            let mut told = 0;
            tree.try_get_many(&keys, visit, |number, found| {
                assert_eq!(number, told);
                told += 1;
                assert!(found.is_none_or(|found| found == wanted[number]));
            });
            assert_eq!(told, keys.len());
        }
        Op::Insert(key, value) => match tree.insert(&key, &value).await {
            Ok(()) => assert!(model.insert(key, value).is_none()),
            Err(TreeError::Exists) => assert!(model.contains_key(&key)),
            Err(error) => panic!("{error}"),
        },
        Op::Update(key, value) => match tree.update(&key, &value).await {
            Ok(()) => assert!(model.insert(key, value).is_some()),
            Err(TreeError::NotFound) => assert!(!model.contains_key(&key)),
            Err(error) => panic!("{error}"),
        },
        Op::UpdateRange(key, at, bytes) => match tree.update_range(&key, at, &bytes).await {
            Ok(()) => {
                let value = model.get_mut(&key).expect("known");
                value[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Err(TreeError::NotFound) => assert!(!model.contains_key(&key)),
            Err(TreeError::OutsideValue { .. }) => {
                assert!(at + bytes.len() > model[&key].len());
            }
            Err(error) => panic!("{error}"),
        },
        Op::Upsert(key, value) => {
            let new = tree.upsert(&key, &value).await.unwrap();
            assert_eq!(new, model.insert(key, value).is_none());
        }
        Op::Modify(key) => {
            let before = tree
                .modify(&key, |value| {
                    let before = value.to_vec();
                    value.write(0, &vec![7; value.len()]);
                    before
                })
                .await;
            match before {
                Ok(before) => {
                    let value = model.get_mut(&key).expect("known");
                    assert_eq!(*value, before);
                    value.fill(7);
                }
                Err(TreeError::NotFound) => assert!(!model.contains_key(&key)),
                Err(error) => panic!("{error}"),
            }
        }
        Op::Remove(key) => {
            assert_eq!(tree.remove(&key).await.unwrap(), model.remove(&key).is_some());
        }
        Op::ScanUp(from, limit) => {
            let wanted = model.range((from.clone(), Bound::Unbounded)).take(limit);
            let wanted: Vec<_> = wanted.map(|(k, v)| (k.clone(), v.clone())).collect();
            let mut got = Vec::new();
            let count = tree
                .scan_up(slice(&from), limit, |key, value| {
                    got.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                })
                .await
                .unwrap();
            assert_eq!((count, got), (wanted.len(), wanted));
        }
        Op::ScanDown(from, limit) => {
            let wanted = model.range((Bound::Unbounded, from.clone())).rev().take(limit);
            let wanted: Vec<_> = wanted.map(|(k, v)| (k.clone(), v.clone())).collect();
            let mut got = Vec::new();
            let count = tree
                .scan_down(slice(&from), limit, |key, value| {
                    got.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                })
                .await
                .unwrap();
            assert_eq!((count, got), (wanted.len(), wanted));
        }
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    prop_oneof![Just(Settings::CALM), Just(Settings::TINY), Just(Settings::WITHOUT_CACHE)]
}

fn config() -> impl Strategy<Value = TreeConfig> {
    let fan_out = prop_oneof![
        Just(TreeConfig::default()),
        Just(TreeConfig { stamped: false, max_entries_leaf: Some(3), max_entries_inner: Some(3) }),
        Just(TreeConfig { stamped: false, max_entries_leaf: Some(2), max_entries_inner: Some(4) }),
    ];
    (fan_out, any::<bool>()).prop_map(|(config, stamped)| TreeConfig { stamped, ..config })
}

/// Settings with lines in which the longest keys fit the tree.
fn roomy(settings: Settings, config: TreeConfig) -> Settings {
    Settings { line_size: if config.stamped { 1024 } else { settings.line_size }, ..settings }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_tree_is_a_sorted_map(
        ops in vec(op(), 1..250),
        settings in settings(),
        config in config(),
        seed in any::<u64>(),
    ) {
        let mut executor = executor(seed);
        let node = LocalNode::new(roomy(settings, config));
        let memory = node.worker(executor.handle());
        executor.block_on(async {
            let tree = Tree::create(memory.clone(), config).await.unwrap();
            let mut model = Model::new();
            for op in ops {
                apply(&tree, &mut model, op).await;
            }
            let statistics = tree.validate().await.unwrap();
            assert_eq!(statistics.entries, model.len() as u64);
            assert_eq!(statistics.unposted_pages, 0);
            assert_eq!(tree.count().await.unwrap(), model.len() as u64);
            tree.release_spares().await.unwrap();
            assert_eq!(statistics.pages(), node.live_lines() as u64);

            // Another handle opens the same tree by its root.
            let again = Tree::open(memory.clone(), tree.root(), config).await.unwrap();
            for (key, value) in &model {
                assert_eq!(again.get(key).await.unwrap().as_ref(), Some(value));
            }
        });
    }

    #[test]
    fn a_bulk_load_equals_inserts(
        keys in proptest::collection::btree_map(key(), value(), 0..300),
        fill in 0.1..=1.0,
        config in config(),
        later in vec(op(), 0..60),
    ) {
        let mut executor = executor(1);
        let node = LocalNode::new(roomy(Settings::TINY, config));
        let memory = node.worker(executor.handle());
        executor.block_on(async {
            let tree = Tree::create(memory, config).await.unwrap();
            let loaded = tree.bulk_load(&keys, fill).await.unwrap();
            assert_eq!(loaded, keys.len() as u64);
            let statistics = tree.validate().await.unwrap();
            assert_eq!((statistics.entries, statistics.unposted_pages), (loaded, 0));
            tree.release_spares().await.unwrap();
            assert_eq!(statistics.pages(), node.live_lines() as u64);
            let mut model = keys;
            apply(&tree, &mut model, Op::ScanUp(Bound::Unbounded, 1000)).await;
            for op in later {
                apply(&tree, &mut model, op).await;
            }
            tree.validate().await.unwrap();
        });
    }
}
