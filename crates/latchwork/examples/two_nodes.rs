//! Two compute nodes share one tree: each writes its own keys, then reads the keys of the other.
//! Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example two_nodes
//! ```

use latchwork::{Cluster, ClusterConfig, ClusterWorker, Result};

const KEYS: u64 = 1_000;

/// Starts the cluster, and runs two phases on it.
pub fn main() -> Result<()> {
    let config = ClusterConfig { compute_nodes: 2, ..ClusterConfig::default() };
    let cluster = Cluster::start(config)?;
    // `run` calls the function on every worker, and returns when all of them have ended.
    cluster.run(write)?;
    for (node, found) in cluster.run(read)?.into_iter().enumerate() {
        println!("node {} found {found} of {KEYS} keys of the other node", node + 1);
        if found != KEYS {
            return Err("keys are missing".into());
        }
    }
    cluster.close()
}

/// Worker 0 writes the even keys, worker 1 the odd keys: both change the same pages.
async fn write(worker: ClusterWorker) -> Result<()> {
    // The first worker that asks for the name makes the tree.
    let tree = worker.tree("numbers").await?;
    for number in 0..KEYS {
        let key = 2 * number + worker.index as u64;
        tree.insert(&key.to_be_bytes(), b"hello").await?;
    }
    Ok(())
}

/// Counts the keys of the other worker.
async fn read(worker: ClusterWorker) -> Result<u64> {
    let tree = worker.tree("numbers").await?;
    let mut found = 0;
    for number in 0..KEYS {
        let key = 2 * number + 1 - worker.index as u64;
        found += u64::from(tree.get(&key.to_be_bytes()).await?.is_some());
    }
    Ok(found)
}
