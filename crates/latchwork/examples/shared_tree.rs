//! Three compute nodes share one B-link tree: each inserts its own keys, then every node reads the
//! keys of all. Run it with
//!
//! ```text
//! cargo run --release --example shared_tree
//! ```

use std::error::Error;
use std::time::Duration;

use latchwork::blink::{Tree, TreeConfig, TreeError};
use latchwork::cluster::{ClusterConfig, Embedded, Member};
use latchwork::memnode::{ObjectKind, PoolError};
use latchwork::selcc::Worker;
use latchwork::verbs::GlobalAddr;
use thiserror::Error;

const KEYS_PER_NODE: u64 = 10_000;
const TREE: ObjectKind = ObjectKind(1);

#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Pool(#[from] PoolError),
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = ClusterConfig { compute_nodes: 3, ..ClusterConfig::default() };
    let nodes = config.compute_nodes as u64;
    let cluster = Embedded::start(config)?;

    // `run` gives every worker of every compute node a thread; two phases are two runs.
    for result in cluster.run(insert)? {
        result?;
    }
    let found = cluster.run(|member| read(member, nodes))?;
    for (node, found) in found.into_iter().enumerate() {
        println!("node {}: found {} of {} keys", node + 1, found?, nodes * KEYS_PER_NODE);
    }

    let counters = cluster.counters();
    println!(
        "{} hits, {} misses, {} lines forwarded from node to node, {} of them handed over",
        counters.cache_hits, counters.cache_misses, counters.forwards, counters.handovers
    );
    Ok(())
}

/// The first node makes the tree and registers it by name; the others wait for the name.
async fn tree(member: &Member) -> Result<Tree<Worker>, Failure> {
    let memory = member.memory.clone();
    if member.index == 0 && member.catalogue.lookup(memory.port(), "tree").await?.is_none() {
        let tree = Tree::create(memory.clone(), TreeConfig::default()).await?;
        member.catalogue.register(memory.port(), "tree", TREE, tree.root().bits()).await?;
        return Ok(tree);
    }
    let deadline = member.handle.now() + Duration::from_secs(10);
    let entry = member.catalogue.wait_for(memory.port(), &member.handle, "tree", deadline).await?;
    Ok(Tree::open(memory, GlobalAddr::from_bits(entry.value), TreeConfig::default()).await?)
}

/// Node i inserts the keys i, i + nodes, i + 2 nodes, ... so that all nodes write to the same
/// pages.
async fn insert(member: Member) -> Result<(), Failure> {
    let tree = tree(&member).await?;
    for k in 0..KEYS_PER_NODE {
        let key = k * 3 + member.node as u64;
        tree.insert(&key.to_be_bytes(), &(key * key).to_le_bytes()).await?;
    }
    Ok(())
}

async fn read(member: Member, nodes: u64) -> Result<u64, Failure> {
    let tree = tree(&member).await?;
    let mut found = 0;
    for key in 0..nodes * KEYS_PER_NODE {
        let value = tree.get(&key.to_be_bytes()).await?;
        found += u64::from(value == Some((key * key).to_le_bytes().to_vec()));
    }
    Ok(found)
}
