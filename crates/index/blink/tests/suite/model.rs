//! The tree against a `BTreeMap`, one operation after another.

use std::ops::Bound;

use latchwork_blink::{Tree, TreeConfig, TreeRules, TreeValue};
use latchwork_index::contract::{Model, Operation, apply, operation};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{LocalMemory, LocalNode, Settings, executor};

#[derive(Clone, Debug)]
enum Op {
    One(Operation),
    GetMany(Vec<Vec<u8>>),
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

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        19 => operation(key(), value()).prop_map(Op::One),
        1 => vec(key(), 0..40).prop_map(Op::GetMany),
    ]
}

async fn run(tree: &Tree<LocalMemory>, model: &mut Model, op: Op) {
    match op {
        Op::One(operation) => apply(tree, model, operation).await,
        Op::GetMany(keys) => get_many(tree, model, &keys).await,
    }
}

async fn get_many(tree: &Tree<LocalMemory>, model: &Model, keys: &[Vec<u8>]) {
    let mut found = vec![None];
    let visit = |number: usize, value: TreeValue<'_>| (number, value.to_vec());
    tree.get_many(keys, visit, &mut found).await.unwrap();
    let wanted = keys.iter().enumerate();
    let wanted: Vec<_> =
        wanted.map(|(number, key)| Some((number, model.get(key)?.clone()))).collect();
    assert_eq!(found, wanted);
    // The fast path gives the same results for the keys that it finds.
    let mut told = 0;
    tree.try_get_many(keys, visit, |number, found| {
        assert_eq!(number, told);
        told += 1;
        assert!(found.is_none_or(|found| found == wanted[number]));
    });
    assert_eq!(told, keys.len());
}

fn settings() -> impl Strategy<Value = Settings> {
    prop_oneof![Just(Settings::CALM), Just(Settings::TINY), Just(Settings::WITHOUT_CACHE)]
}

fn config() -> impl Strategy<Value = TreeConfig> {
    let fan_out = prop_oneof![
        Just(TreeConfig::default()),
        Just(TreeConfig {
            stamped: false,
            max_entries_leaf: Some(3),
            max_entries_inner: Some(3),
            rules: TreeRules::ALL
        }),
        Just(TreeConfig {
            stamped: false,
            max_entries_leaf: Some(2),
            max_entries_inner: Some(4),
            rules: TreeRules::ALL
        }),
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
                run(&tree, &mut model, op).await;
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
            let all = Operation::ScanUp(Bound::Unbounded, 1000);
            apply(&tree, &mut model, all).await;
            for op in later {
                run(&tree, &mut model, op).await;
            }
            tree.validate().await.unwrap();
        });
    }
}
