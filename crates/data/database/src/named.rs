//! The opening of a database by its name in the catalogue of the memory pool.

use std::sync::Arc;

use latchwork_cluster::{Member, Worker};
use latchwork_memnode::ObjectKind;
use latchwork_txn::{Database, Node, TxnError};
use latchwork_verbs::GlobalAddr;

use crate::{OpenError, Wait};

/// The catalogue kind of a database without a log.
const DATABASE: ObjectKind = ObjectKind(2);
/// The catalogue kind of a database with a log.
pub(crate) const LOGGED: ObjectKind = ObjectKind(3);

/// Opens the database with this name on a worker. If there is no such database, the first worker of
/// the cluster makes it with `make`, and then registers its name. So a worker that finds the
/// database also finds everything that `make` has written.
///
/// # Errors
/// Those of `make`, of the catalogue, and of [`Database::open`]; [`OpenError::Late`];
/// [`OpenError::Stopped`].
pub async fn open_named(
    member: &Member,
    node: Arc<Node>,
    name: &str,
    wait: &Wait<'_>,
    make: impl AsyncFnOnce(Worker, Arc<Node>) -> Result<Database<Worker>, TxnError>,
) -> Result<Database<Worker>, OpenError> {
    let (memory, catalogue) = (&member.memory, &member.catalogue);
    let known = catalogue.lookup(memory.port(), name).await?;
    if member.index == 0 && known.is_none() {
        let kind = if node.log().is_some() { LOGGED } else { DATABASE };
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
    Ok(Database::open(memory.clone(), node, GlobalAddr::from_bits(entry.value)).await?)
}
