//! The opening of a database by its name in the catalogue of the memory pool.

use std::sync::Arc;

use latchwork_cluster::{Member, Worker};
use latchwork_memnode::{CatalogueEntry, ObjectKind};
use latchwork_txn::{Database, TransactionNode, TxnError};
use latchwork_verbs::GlobalAddr;

use crate::{DatabaseOpenError, Wait};

/// Opens the database with this name on a worker. If the catalogue has no such name, the first
/// worker of the cluster makes the database with `make`, and registers the name afterwards. So a
/// worker that finds the name also finds everything that `make` has written. The other workers wait
/// for the name.
///
/// # Errors
/// [`DatabaseOpenError::OtherKind`]; those of `make`, of the catalogue, and of [`Database::open`];
/// [`DatabaseOpenError::Late`]; [`DatabaseOpenError::Stopped`].
pub async fn open_named(
    member: &Member,
    node: Arc<TransactionNode>,
    name: &str,
    wait: &Wait<'_>,
    make: impl AsyncFnOnce(Worker, Arc<TransactionNode>) -> Result<Database<Worker>, TxnError>,
) -> Result<Database<Worker>, DatabaseOpenError> {
    let (memory, catalogue) = (&member.memory, &member.catalogue);
    let known = catalogue.lookup(memory.port(), name).await?;
    if member.index == 0 && known.is_none() {
        let is_logged = node.log().is_some();
        let kind = if is_logged { ObjectKind::LOGGED_DATABASE } else { ObjectKind::DATABASE };
        let database = make(memory.clone(), node).await?;
        let root = database.root().bits();
        catalogue.register(memory.port(), name, kind, root).await?;
        return Ok(database);
    }
    let entry = match known {
        Some(entry) => entry,
        None => {
            let what = || "the first worker did not make the database".to_owned();
            let look = async || Ok(catalogue.lookup(memory.port(), name).await?);
            wait.until(&member.handle, what, look).await?
        }
    };
    check_kind(&entry)?;
    Ok(Database::open(memory.clone(), node, GlobalAddr::from_bits(entry.value)).await?)
}

/// Checks that an entry of the catalogue names a database.
pub(crate) fn check_kind(entry: &CatalogueEntry) -> Result<(), DatabaseOpenError> {
    match entry.kind {
        ObjectKind::DATABASE | ObjectKind::LOGGED_DATABASE => Ok(()),
        kind => Err(DatabaseOpenError::OtherKind { name: entry.name.clone(), kind }),
    }
}
