//! A tree in a pool that has room for only a few pages.

use std::time::Duration;

use latchwork_blink::{Tree, TreeError};
use latchwork_cluster::{ClusterConfig, Embedded, Member, Protocol, Simulated};
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_verbs_sim::SimConfig;

use crate::tree::shape::Shape;
use crate::tree::shared::{key, pass_time, shared_tree};

const LIMIT: Duration = Duration::from_secs(60);

/// Inserts new keys until the pool is full. Returns the keys.
async fn fill(member: Member) -> Result<Vec<u64>, TreeError> {
    let tree = shared_tree(&member, async |_| Ok(())).await?;
    let mut inserted = Vec::new();
    for k in 0.. {
        // The keys are spread, so that all leaves fill up.
        let n = (k * 7919 % 1024) * 8 + member.index as u64;
        match tree.insert(&key(n), &[7; 100]).await {
            Ok(()) => inserted.push(n),
            Err(TreeError::Memory(MemoryError::OutOfMemory(what))) => {
                assert!(what.contains("more memory"), "{what}");
                break;
            }
            Err(error) => return Err(error),
        }
        pass_time(&member).await;
    }
    // The keys that were inserted can still be updated.
    for n in &inserted {
        tree.update(&key(*n), &[8; 100]).await?;
    }
    tree.release_spares().await?;
    Ok(inserted)
}

async fn check(member: Member, inserted: Vec<u64>) -> Result<(), TreeError> {
    let port = member.memory.port();
    let root = member.catalogue.lookup(port, "tree").await.expect("no error").expect("a tree");
    let root = latchwork_verbs::GlobalAddr::from_bits(root.value);
    let tree = Tree::open(member.memory.clone(), root, crate::tree::shape::FAN_OUT_3).await?;
    assert_eq!(tree.validate().await?.entries, inserted.len() as u64);
    for n in inserted {
        assert_eq!(tree.get(&key(n)).await?, Some(vec![8; 100]));
    }
    Ok(())
}

/// Two memory nodes of three chunks each. The first one keeps one chunk for itself.
fn tiny(seed: u64, protocol: Protocol) -> (Shape, ClusterConfig) {
    let shape = Shape { nodes: 3, workers: 1, ..Shape::drawn(seed, protocol) };
    let config = shape.config();
    let mut config = ClusterConfig { memory_bytes: 3 * config.chunk_size, ..config };
    config.pool.reuse_wait = Duration::from_millis(5);
    (shape, config)
}

fn all(filled: Vec<Result<Vec<u64>, TreeError>>, shape: Shape) -> Vec<u64> {
    let filled = filled
        .into_iter()
        .map(|worker| worker.unwrap_or_else(|error| panic!("{shape:?}: {error}")))
        .collect::<Vec<_>>()
        .concat();
    assert!(filled.len() > 100, "{shape:?}: only {} keys fit", filled.len());
    filled
}

#[test]
fn a_full_pool_is_an_error_that_says_what_would_do_and_the_tree_stays_whole() {
    for (seed, protocol) in (0..3).flat_map(|seed| Protocol::ALL.map(|p| (seed, p))) {
        let (shape, config) = tiny(seed, protocol);
        let cluster = Simulated::start(config, shape.network()).expect("a configuration");
        let filled = cluster.run(LIMIT, fill).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        let inserted = all(filled, shape);
        let checked = cluster
            .run_on(1, LIMIT, move |member| check(member, inserted.clone()))
            .unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        checked.into_iter().for_each(|node| node.unwrap_or_else(|e| panic!("{shape:?}: {e}")));
    }
}

#[test]
fn threads_fill_a_pool_and_keep_what_they_have() {
    for protocol in Protocol::ALL {
        let (shape, config) = tiny(9, protocol);
        let cluster = Embedded::start(config).expect("a configuration");
        let filled = cluster.run(fill).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        let inserted = all(filled, shape);
        let checked = cluster
            .run_on(1, |member| check(member, inserted.clone()))
            .unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        checked.into_iter().for_each(|node| node.unwrap_or_else(|e| panic!("{shape:?}: {e}")));
    }
}

#[test]
fn nodes_without_work_hold_no_freed_lines_back() {
    async fn churn(member: Member) -> Result<(), MemoryError> {
        let memory = &member.memory;
        if member.index != 0 {
            // Allocates one line at first, so that the node is active, and then does nothing.
            let line = memory.allocate().await?;
            memory.free(line).await?;
            member.handle.sleep(Duration::from_millis(600)).await;
            return Ok(());
        }
        member.handle.sleep(Duration::from_millis(50)).await;
        // This allocates many more lines in total than the pool has.
        for _ in 0..40 {
            let mut lines = Vec::new();
            for _ in 0..50 {
                lines.push(memory.allocate().await?);
            }
            for line in lines {
                memory.free(line).await?;
            }
            pass_time(&member).await;
        }
        Ok(())
    }
    for protocol in Protocol::ALL {
        let (shape, mut config) = tiny(9, protocol);
        config.pool.reuse_wait = Duration::from_secs(1);
        let cluster = Embedded::start(config.clone()).expect("a configuration");
        let ends = cluster.run(churn).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        ends.into_iter().for_each(|end| end.unwrap_or_else(|e| panic!("{shape:?}: {e}")));
        for network in [SimConfig::default(), SimConfig::rough()] {
            let cluster = Simulated::start(config.clone(), network).expect("a configuration");
            let ends = cluster.run(LIMIT, churn).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
            ends.into_iter().for_each(|end| end.unwrap_or_else(|e| panic!("{shape:?}: {e}")));
        }
    }
}
