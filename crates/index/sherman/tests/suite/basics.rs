//! A tree against a map, with one task and with many.

use latchwork_index::contract::{Model, apply, operation};
use latchwork_sherman::{Check, Config, LockMemory, Shared, ShermanError, Tree};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{World, get, increment, key};

/// Every arm of the paper's ablation, and the published check.
fn arms() -> Vec<(&'static str, Config)> {
    let combined = Config { combine: true, ..Config::FG_PLUS };
    let host = Config { lock_memory: LockMemory::Host, ..combined };
    vec![
        ("fg", Config::FG),
        ("fg-plus", Config::FG_PLUS),
        ("combine", combined),
        ("host table", host),
        ("local locks", Config { local_locks: true, ..host }),
        ("sherman", Config::SHERMAN),
        ("on chip", Config { lock_memory: LockMemory::Chip, ..Config::SHERMAN }),
        ("one lock", Config { locks: 1, ..Config::SHERMAN }),
        ("little cache", Config { cache_bytes: 2000, ..Config::SHERMAN }),
        ("published", Config { check: Check::Published, ..Config::SHERMAN }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_tree_is_a_sorted_map(
        operations in vec(operation(a_key(), a_key()), 1..700),
        arm in 0..arms().len(),
        seed in any::<u64>(),
    ) {
        let (name, config) = arms()[arm];
        let world = World::new(seed >> 10, (2, 1, 1), 512, config);
        world.first(|tree| async move {
            let mut model = Model::new();
            for operation in operations {
                apply(&tree, &mut model, operation).await;
            }
            let statistics = tree.validate().await.unwrap();
            assert_eq!(statistics.entries, model.len() as u64, "{name}");
            assert_eq!(statistics.unposted_nodes, 0, "{name}");
            assert_eq!(tree.shared().locked(), 0, "{name}");
        });
    }
}

fn a_key() -> impl Strategy<Value = Vec<u8>> {
    (0..500_u64).prop_map(|n| key(n * n).to_vec())
}

/// Enough inserts for three levels in small nodes, and every key removed again.
#[test]
fn a_tree_of_three_levels_fills_and_empties() {
    for (name, config) in arms() {
        let world = World::new(1, (2, 1, 1), 512, config);
        world.first(|tree| async move {
            for n in 0..1500 {
                tree.insert(&key(n * 7919 % 1500), &key(n)).await.unwrap();
            }
            let statistics = tree.validate().await.unwrap();
            assert_eq!((statistics.entries, statistics.unposted_nodes), (1500, 0), "{name}");
            assert!(statistics.nodes_per_level.len() >= 3, "{name}: {statistics:?}");
            for n in 0..1500 {
                assert!(tree.remove(&key(n)).await.unwrap(), "{name}");
            }
            assert_eq!(tree.validate().await.unwrap().entries, 0, "{name}");
        });
    }
}

#[test]
fn many_tasks_of_many_nodes_lose_no_increment() {
    const KEYS: u64 = 60;
    for (name, config) in arms() {
        if config.check == Check::Published {
            continue;
        }
        for seed in 0..4 {
            let world = World::new(seed, (2, 3, 2), 512, config);
            let tasks: Vec<_> = world.all().enumerate().collect();
            let tasks = tasks.into_iter().flat_map(|(index, worker)| {
                (0..3).map(move |task| {
                    let tree = worker.tree.clone();
                    worker.handle.spawn(async move {
                        for step in 0..40_u64 {
                            let n = (index as u64 * 7 + task * 3 + step * step) % KEYS;
                            increment(&tree, n).await;
                            get(&tree, (n + step) % KEYS).await.unwrap();
                        }
                    })
                })
            });
            let count = 40 * world.run_all(tasks.collect()).len() as u64;
            let sum = world.first(|tree| async move {
                tree.validate().await.unwrap();
                let mut sum = 0;
                for n in 0..KEYS {
                    sum += get(&tree, n).await.unwrap().unwrap_or(0);
                }
                sum
            });
            assert_eq!(sum, count, "{name}, seed {seed}");
            let handed: u64 = world.all().map(|w| w.tree.counters().handed_over).sum();
            assert_eq!(handed > 0, config.local_locks, "{name}");
        }
    }
}

#[test]
fn a_bulk_load_fills_every_level_and_only_an_empty_tree() {
    for (name, config) in arms() {
        let world = World::new(5, (2, 2, 1), 512, config);
        world.first(|tree| async move {
            let entries = |n: u64| (key(n * 2), key(n));
            let loaded = tree.bulk_load((0..3000).map(entries), 0.8).await.unwrap();
            assert_eq!(loaded, 3000, "{name}");
            let statistics = tree.validate().await.unwrap();
            assert_eq!((statistics.entries, statistics.unposted_nodes), (3000, 0), "{name}");
            let fill = 3000.0 / statistics.room as f64;
            assert!((0.7..0.85).contains(&fill), "{name}: {fill}");
            let again = tree.bulk_load((0..3).map(entries), 0.8).await;
            assert!(matches!(again, Err(ShermanError::NotEmpty)), "{name}");
        });
        let worker = world.worker(1, 0);
        world.run(worker.handle.spawn(async move {
            for n in [0, 1, 2, 3001, 4000, 5998, 6000] {
                let expected = (n % 2 == 0 && n < 6000).then_some(n / 2);
                assert_eq!(get(&worker.tree, n).await.unwrap(), expected, "{name}");
            }
        }));
    }
}

#[test]
fn wrong_lengths_and_wrong_settings_are_refused_in_a_line() {
    let world = World::new(5, (1, 1, 1), 512, Config::SHERMAN);
    let resources = world.worker(0, 0).resources;
    world.first(|tree| async move {
        for (config, line) in [
            (
                Config { value_len: 16, ..Config::SHERMAN },
                "the tree has value length 8, and is opened with 16",
            ),
            (
                Config { locks: 3, ..Config::SHERMAN },
                "the tree has locks 32768, and is opened with 3",
            ),
            (Config::FG_PLUS, "the tree has check 0, and is opened with 2"),
        ] {
            let shared = Shared::new(&config);
            let opened = Tree::open(resources.clone(), &shared, config, tree.anchor()).await;
            assert_eq!(opened.unwrap_err().to_string(), line);
        }
        let wrong = tree.upsert(b"abc", &key(1)).await.unwrap_err();
        assert_eq!(wrong.to_string(), "a key of 3 bytes: the keys of this tree have 8");
        let wrong = tree.insert(&key(1), b"abc").await.unwrap_err();
        assert_eq!(wrong.to_string(), "a value of 3 bytes: the values of this tree have 8");
        assert!(matches!(tree.update(&key(1), &key(1)).await, Err(ShermanError::NotFound)));
        tree.insert(&key(1), &[7; 8]).await.unwrap();
        tree.update_range(&key(1), 2, &[9; 3]).await.unwrap();
        let wrong = tree.update_range(&key(1), 7, b"ab").await.unwrap_err();
        assert_eq!(wrong.to_string(), "bytes 7 to 9 are not all inside a value of 8 bytes");
        let mut value = Vec::new();
        assert!(tree.get(&key(1), &mut value).await.unwrap());
        assert_eq!(value, [7, 7, 9, 9, 9, 7, 7, 7]);
    });
}
