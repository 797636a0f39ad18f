//! Sherman's tree as the table.

use latchwork_cluster::Member;
use latchwork_harness::AppError;
use latchwork_harness::driver::named;
use latchwork_memnode::ObjectKind;
use latchwork_sherman::{Resources, Tree};

use super::{TableIndex, TableSettings};
use crate::settings::Settings;

impl TableIndex for Tree {
    async fn open(settings: &Settings, member: &Member) -> Result<Tree, AppError> {
        let TableSettings::Sherman(sherman) = &settings.index else {
            return Err(AppError::Failed("the table has another index".to_owned()));
        };
        let (shared, config) = (sherman.shared(member.node), sherman.config);
        let resources = || Resources {
            port: member.memory.port().clone(),
            handle: member.handle.clone(),
            lines: member.memory.node().allocator().clone(),
        };
        let make = async || {
            let tree = Tree::create(resources(), &shared, config).await;
            let tree = tree.map_err(|error| settings.index_error(&error))?;
            let anchor = tree.anchor();
            Ok((tree, anchor))
        };
        let open = async |anchor| {
            let tree = Tree::open(resources(), &shared, config, anchor).await;
            tree.map_err(|error| settings.index_error(&error))
        };
        named(member, ("table", &settings.table), ObjectKind::SHERMAN, make, open).await
    }
}
