//! Two compute nodes share one tree: each writes its own keys, then reads the keys of the other.
//! Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example two_nodes
//! ```

use std::time::Duration;

use latchwork::blink::{Tree, TreeConfig};
use latchwork::cluster::{ClusterConfig, Embedded, Member};
use latchwork::coherence::CoherentMemory;
use latchwork::memnode::ObjectKind;
use latchwork::verbs::GlobalAddr;

type Error = Box<dyn std::error::Error + Send + Sync>;

const KEYS: u64 = 1_000;

/// Starts the cluster, and runs two phases on it.
pub fn main() -> Result<(), Error> {
    let config = ClusterConfig { compute_nodes: 2, ..ClusterConfig::default() };
    let cluster = Embedded::start(config)?;
    // `run` calls the function on every worker, and returns when all of them have ended.
    for result in cluster.run(write)? {
        result?;
    }
    for (node, found) in cluster.run(read)?.into_iter().enumerate() {
        let found = found?;
        println!("node {} found {found} of {KEYS} keys of the other node", node + 1);
        if found != KEYS {
            return Err(format!("{} keys are missing", KEYS - found).into());
        }
    }
    Ok(())
}

/// Opens the tree. The first worker creates the tree and registers its root under a name.
async fn tree(member: &Member) -> Result<Tree<impl CoherentMemory>, Error> {
    let (memory, catalogue) = (member.memory.clone(), &member.catalogue);
    let port = memory.port().clone();
    if member.index == 0 && catalogue.lookup(&port, "tree").await?.is_none() {
        let tree = Tree::create(memory, TreeConfig::default()).await?;
        catalogue.register(&port, "tree", ObjectKind(1), tree.root().bits()).await?;
        return Ok(tree);
    }
    let deadline = member.handle.now() + Duration::from_secs(10);
    let entry = catalogue.wait_for(&port, &member.handle, "tree", deadline).await?;
    Ok(Tree::open(memory, GlobalAddr::from_bits(entry.value), TreeConfig::default()).await?)
}

/// Worker 0 writes the even keys, worker 1 the odd keys: both change the same pages.
async fn write(member: Member) -> Result<(), Error> {
    let tree = tree(&member).await?;
    for number in 0..KEYS {
        let key = 2 * number + member.index as u64;
        tree.insert(&key.to_be_bytes(), b"hello").await?;
    }
    Ok(())
}

/// Counts the keys of the other worker.
async fn read(member: Member) -> Result<u64, Error> {
    let tree = tree(&member).await?;
    let mut found = 0;
    for number in 0..KEYS {
        let key = 2 * number + 1 - member.index as u64;
        found += u64::from(tree.get(&key.to_be_bytes()).await?.is_some());
    }
    Ok(found)
}
