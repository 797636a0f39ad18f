//! Opening the tree.

use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_harness::{AppError, stop};
use latchwork_memnode::{ObjectKind, PoolError};
use latchwork_rtree::RTree;
use latchwork_verbs::GlobalAddr;

use super::{CONFIG, Index};
use crate::session::Session;

/// How long workers wait for the worker that makes the tree.
const TREE_WAIT: Duration = Duration::from_secs(30);
/// The duration of one attempt to find the tree.
const TREE_LOOK: Duration = Duration::from_millis(100);

/// Opens the tree of this name on a worker; the first worker makes it.
pub(crate) async fn open(
    session: &Session,
    member: &Member,
    name: &str,
) -> Result<Index, AppError> {
    let (memory, handle) = (&member.memory, &member.handle);
    let port = memory.port();
    let failed = |error: &dyn std::fmt::Display| {
        AppError::Failed(format!("tree {name} cannot be opened: {error}"))
    };
    let known = member.catalogue.lookup(port, name).await.map_err(|error| failed(&error))?;
    if member.index == 0 && known.is_none() {
        let tree = RTree::create(memory.clone(), CONFIG).await;
        let tree = tree.map_err(|error| session.tree_error(&error))?;
        let root = tree.root().bits();
        let named = member.catalogue.register(port, name, ObjectKind::RTREE, root).await;
        named.map_err(|error| failed(&error))?;
        return Ok(tree);
    }
    let deadline = handle.now() + TREE_WAIT;
    let entry = loop {
        let look = deadline.min(handle.now() + TREE_LOOK);
        match member.catalogue.wait_for(port, handle, name, look).await {
            // The worker that makes the tree may have failed.
            Err(PoolError::NotFound { .. }) if look < deadline && !stop::is_aborted() => {}
            entry => break entry,
        }
    };
    let root = GlobalAddr::from_bits(entry.map_err(|error| failed(&error))?.value);
    let tree = RTree::open(memory.clone(), root, CONFIG).await;
    tree.map_err(|error| session.tree_error(&error))
}
