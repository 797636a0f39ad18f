//! Opening the tree.

use latchwork_cluster::Member;
use latchwork_harness::{AppError, driver};
use latchwork_memnode::ObjectKind;
use latchwork_rtree::RTree;

use super::{CONFIG, Index};
use crate::settings::Settings;

/// Opens the tree of this name on a worker; the first worker makes it.
pub(crate) async fn open(
    settings: &Settings,
    member: &Member,
    name: &str,
) -> Result<Index, AppError> {
    let memory = || member.memory.clone();
    let make = async || {
        let tree = RTree::create(memory(), CONFIG).await;
        let tree = tree.map_err(|error| settings.tree_error(&error))?;
        let root = tree.root();
        Ok((tree, root))
    };
    let open = async |root| {
        let tree = RTree::open(memory(), root, CONFIG).await;
        tree.map_err(|error| settings.tree_error(&error))
    };
    driver::named(member, ("tree", name), ObjectKind::RTREE, make, open).await
}
