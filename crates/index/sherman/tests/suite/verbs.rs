//! The verbs of each operation, and what torn reads do.

use std::time::Duration;

use latchwork_sherman::{Check, Config, Counters, Tree};
use latchwork_verbs_sim::SimConfig;

use crate::common::{World, get, key};

fn since(tree: &Tree, before: Counters) -> Counters {
    let now = tree.counters();
    Counters {
        reads: now.reads - before.reads,
        writes: now.writes - before.writes,
        swaps: now.swaps - before.swaps,
        swaps_failed: now.swaps_failed - before.swaps_failed,
        releases: now.releases - before.releases,
        handed_over: now.handed_over - before.handed_over,
        cache_hits: now.cache_hits - before.cache_hits,
        ..Counters::default()
    }
}

async fn loaded(tree: &Tree) {
    tree.bulk_load((0..500).map(|n| (key(n), key(n))), 0.8).await.unwrap();
    // The inner nodes come into the cache.
    for n in 0..500 {
        get(tree, n).await.unwrap();
    }
}

#[test]
fn a_cached_search_is_one_read_and_an_update_three_batches() {
    let world = World::new(1, (1, 1, 1), 512, Config::SHERMAN);
    world.first(|tree| async move {
        loaded(&tree).await;
        let before = tree.counters();
        get(&tree, 7).await.unwrap();
        let read = Counters { reads: 1, cache_hits: 1, ..Counters::default() };
        assert_eq!(since(&tree, before), read);
        let before = tree.counters();
        tree.update(&key(7), &key(8)).await.unwrap();
        // The compare-and-swap, the READ, and one batch of the entry and the release.
        let update = Counters { swaps: 1, writes: 1, ..read };
        assert_eq!(since(&tree, before), update);
    });
}

#[test]
fn fg_releases_by_a_request_of_its_own_and_reads_the_path() {
    for (config, reads) in [(Config::FG_PLUS, 1), (Config::FG, 2)] {
        let world = World::new(1, (1, 1, 1), 512, config);
        world.first(|tree| async move {
            loaded(&tree).await;
            let height = tree.validate().await.unwrap().nodes_per_level.len() as u64;
            let path = if reads == 1 { 1 } else { height };
            let before = tree.counters();
            get(&tree, 7).await.unwrap();
            assert_eq!(since(&tree, before).reads, path);
            let before = tree.counters();
            tree.update(&key(7), &key(8)).await.unwrap();
            let update = since(&tree, before);
            assert_eq!((update.swaps, update.reads), (1, path));
            assert_eq!((update.writes, update.releases), (1, 1));
        });
    }
}

#[test]
fn an_update_with_a_lock_that_was_handed_over_is_a_read_and_a_write() {
    let world = World::new(1, (1, 1, 1), 512, Config::SHERMAN);
    let worker = world.worker(0, 0);
    let tree = worker.tree.clone();
    let before = world.first(|tree| async move {
        loaded(&tree).await;
        tree.counters()
    });
    let updates = (0..10).map(|n| {
        let tree = tree.clone();
        worker.handle.spawn(async move { tree.update(&key(7), &key(n)).await.unwrap() })
    });
    world.run_all(updates.collect());
    let all = since(&tree, before);
    // Each chain is one taking and four hand-overs: 10 updates are two chains.
    assert_eq!((all.handed_over, all.swaps, all.swaps_failed), (8, 2, 0));
    assert_eq!((all.reads, all.writes, all.releases), (10, 10, 0));
}

/// Torn values that readers got beside a writer, over many seeds.
fn torn_values(check: Check) -> usize {
    const LEN: usize = 48;
    let mut torn = 0;
    for seed in 0..60 {
        let config = Config { check, value_len: LEN, ..Config::SHERMAN };
        let config = Config { longest_read: Duration::from_secs(1), ..config };
        let world = World::with(seed, (1, 2, 1), 1024, config, SimConfig::rough());
        let (writer, reader) = (world.worker(0, 0), world.worker(1, 0));
        world.first(|tree| async move { tree.insert(&key(1), &[0; LEN]).await.unwrap() });
        let tree = writer.tree.clone();
        let write = writer.handle.spawn(async move {
            for n in 1..40 {
                tree.update(&key(1), &[n; LEN]).await.unwrap();
            }
            0
        });
        let tree = reader.tree.clone();
        let read = reader.handle.spawn(async move {
            let mut torn = 0;
            for _ in 0..60 {
                let mut value = Vec::new();
                assert!(tree.get(&key(1), &mut value).await.unwrap());
                torn += usize::from(value.iter().any(|&byte| byte != value[0]));
            }
            torn
        });
        torn += world.run_all(vec![write, read])[1];
    }
    torn
}

#[test]
fn tags_and_checksums_show_torn_values_and_the_published_versions_do_not() {
    assert_eq!(torn_values(Check::Words), 0);
    assert_eq!(torn_values(Check::Checksum), 0);
    assert!(torn_values(Check::Published) > 0);
}
