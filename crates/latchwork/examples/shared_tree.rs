//! Three compute nodes share one B-link tree: each inserts its own keys, then every node reads the
//! keys of all. Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example shared_tree
//! ```

use latchwork::{Cluster, ClusterConfig, ClusterWorker, Result};

const NODES: u64 = 3;
const KEYS_PER_NODE: u64 = 10_000;

/// Inserts the keys and reads them, each on every node.
pub fn main() -> Result<()> {
    let config = ClusterConfig { compute_nodes: NODES as usize, ..ClusterConfig::default() };
    // In virtual time: Cluster::simulated(config, SimConfig::default()).
    let cluster = Cluster::start(config)?;

    // `run` calls a function on every worker of every compute node. Two phases are two runs.
    cluster.run(insert)?;
    for (node, found) in cluster.run(read)?.into_iter().enumerate() {
        println!("node {}: found {found} of {} keys", node + 1, NODES * KEYS_PER_NODE);
        if found != NODES * KEYS_PER_NODE {
            return Err("keys are missing".into());
        }
    }

    let counters = cluster.counters();
    println!(
        "{} hits, {} misses, {} lines forwarded from node to node, {} of them handed over",
        counters.cache_hits, counters.cache_misses, counters.forwards, counters.handovers
    );
    cluster.close()
}

/// Node i inserts the keys i, i + nodes, i + 2 nodes, ... so that all nodes write to the same
/// pages. The first node that asks for the tree makes it.
async fn insert(worker: ClusterWorker) -> Result<()> {
    let squares = worker.tree("squares").await?;
    for k in 0..KEYS_PER_NODE {
        let key = k * NODES + worker.node as u64;
        squares.insert(&key.to_be_bytes(), &(key * key).to_le_bytes()).await?;
    }
    Ok(())
}

/// Returns how many keys of all nodes have the right value.
async fn read(worker: ClusterWorker) -> Result<u64> {
    let squares = worker.tree("squares").await?;
    let mut found = 0;
    for key in 0..NODES * KEYS_PER_NODE {
        let value = squares.get(&key.to_be_bytes()).await?;
        found += u64::from(value == Some((key * key).to_le_bytes().to_vec()));
    }
    Ok(found)
}
