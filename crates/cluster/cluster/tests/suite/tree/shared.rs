//! The tree that all workers share, and its keys.

use std::time::Duration;

use latchwork_blink::{Tree, TreeConfig, TreeError};
use latchwork_cluster::{Member, Worker};
use latchwork_memnode::ObjectKind;
use latchwork_verbs::GlobalAddr;

use crate::tree::shape::FAN_OUT_3;

const TREE: ObjectKind = ObjectKind(7);
const WAIT: Duration = Duration::from_secs(20);

/// The bytes of key number `n`. The keys are in the order of their numbers. A key has 4 to 40
/// bytes, and shares a long prefix with its neighbours.
pub(crate) fn key(n: u64) -> Vec<u8> {
    let mut key = (n as u32).to_be_bytes().to_vec();
    key.resize(4 + (n % 4) as usize * 12, b'k');
    key
}

/// The number of a key.
pub(crate) fn number(bytes: &[u8]) -> Result<u64, String> {
    let first: [u8; 4] = bytes.get(..4).and_then(|b| b.try_into().ok()).ok_or("a short key")?;
    let n = u64::from(u32::from_be_bytes(first));
    if key(n) == bytes { Ok(n) } else { Err(format!("a garbled key {bytes:02x?}")) }
}

/// The tree that the first worker makes and fills with `load`. The other workers find it.
pub(crate) async fn shared_tree(
    member: &Member,
    load: impl AsyncFnOnce(&Tree<Worker>) -> Result<(), TreeError>,
) -> Result<Tree<Worker>, TreeError> {
    shared_tree_of(member, FAN_OUT_3, load).await
}

/// Like [`shared_tree`], with another configuration.
pub(crate) async fn shared_tree_of(
    member: &Member,
    config: TreeConfig,
    load: impl AsyncFnOnce(&Tree<Worker>) -> Result<(), TreeError>,
) -> Result<Tree<Worker>, TreeError> {
    let port = member.memory.port();
    if member.index == 0 {
        let tree = Tree::create(member.memory.clone(), config).await?;
        load(&tree).await?;
        let registered = member.catalogue.register(port, "tree", TREE, tree.root().bits()).await;
        registered.expect("a new name");
        return Ok(tree);
    }
    let deadline = member.handle.now() + WAIT;
    let found = member.catalogue.wait_for(port, &member.handle, "tree", deadline).await;
    let root = GlobalAddr::from_bits(found.expect("the first worker's tree").value);
    Tree::open(member.memory.clone(), root, config).await
}

/// Lets time pass, so that all other tasks have a turn. Virtual time advances only on request: a
/// worker that never yields would do all its work at one instant.
pub(crate) async fn pass_time(member: &Member) {
    member.handle.charge(Duration::from_nanos(50 + member.handle.random_below(400)));
    member.handle.yield_now().await;
}
