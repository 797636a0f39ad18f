//! The index of the table.

mod flags;
mod sherman;

use latchwork_blink::{Tree, TreeConfig};
use latchwork_cluster::{Member, Worker};
use latchwork_harness::AppError;
use latchwork_harness::driver::named;
use latchwork_index::OrderedIndex;
use latchwork_memnode::ObjectKind;

use crate::settings::Settings;

pub(crate) use flags::{IndexFlags, TableSettings};

/// An index that can be the table.
pub(crate) trait TableIndex: OrderedIndex + Sized {
    /// Opens the table on a worker. The first worker makes the table.
    async fn open(settings: &Settings, member: &Member) -> Result<Self, AppError>;
}

impl TableIndex for Tree<Worker> {
    async fn open(settings: &Settings, member: &Member) -> Result<Tree<Worker>, AppError> {
        let memory = || member.memory.clone();
        let make = async || {
            let tree = Tree::create(memory(), TreeConfig::default()).await;
            let tree = tree.map_err(|error| settings.index_error(&error))?;
            let root = tree.root();
            Ok((tree, root))
        };
        let open = async |root| {
            let tree = Tree::open(memory(), root, TreeConfig::default()).await;
            tree.map_err(|error| settings.index_error(&error))
        };
        named(member, ("table", &settings.table), ObjectKind::TREE, make, open).await
    }
}
