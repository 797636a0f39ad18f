//! Small databases on one worker, for tests.

use std::future::Future;
use std::sync::Arc;

use latchwork_cluster::Worker;
use latchwork_harness::config::command_line;
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_txn::{Transaction, TxnError};
use latchwork_workload::tpcc::TpccTable;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::drive::Driver;
use crate::session::Logged;
use crate::settings::Settings;
use crate::tables::{Store, Tables};

/// A loaded database of two warehouses.
pub(crate) fn loaded() -> Driver {
    let flags = "tpcc -w 2 --set items=200 --set customers=30 --compute-nodes 1 --threads 1 --cache-mb 16 --memory-mb 64";
    let cli = command_line("tpcc", flags.split_whitespace()).expect("flags");
    let driver = Settings::new(cli).and_then(Driver::start).expect("a cluster");
    driver.load().expect("a database");
    driver
}

/// Runs `body` on the database's only worker.
pub(crate) fn with<T, F, Fut>(driver: &Driver, body: F) -> T
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(Store, Tables) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, AppError>> + 'static,
{
    let phase = Arc::new(PhaseProgress::new(1));
    let (session, body) = (driver.session.clone(), Arc::new(body));
    let shared = phase.clone();
    let on_worker = move |member| {
        let (session, body, phase) = (session.clone(), body.clone(), shared.clone());
        async move {
            let worked = async {
                let (store, tables) = session.open(&phase, &member, Logged::No).await?;
                body(store, tables).await
            };
            worked.await.map_err(|error| phase.fail(error)).ok()
        }
    };
    let title = Title { name: "test", what: "steps" };
    let ended = driver.on_all(title, Extent::Operations(1), &phase, on_worker);
    ended.expect("no error").pop().expect("one worker")
}

/// Runs a transaction of a test.
pub(crate) async fn change<R>(
    store: &Store,
    body: impl AsyncFnMut(&mut Transaction<Worker>) -> Result<R, TxnError>,
) -> Result<R, AppError> {
    store.run(body).await.map_err(|error| AppError::Failed(error.to_string()))
}

/// The existing row at a key.
pub(crate) async fn row(
    store: &Store,
    tables: &Tables,
    table: TpccTable,
    key: &[u8],
) -> Result<Vec<u8>, AppError> {
    let mut row = Vec::new();
    let found = change(store, async |tx| tx.get(tables.of(table), key, &mut row).await).await?;
    if !found {
        return Err(AppError::Failed(format!("no row of {} at {key:?}", table.name())));
    }
    Ok(row)
}

/// The inputs of terminals of that database.
pub(crate) fn inputs() -> latchwork_workload::tpcc::InputSettings {
    let flags = "tpcc -w 2 --set items=200 --set customers=30 --cache-mb 16 --memory-mb 64";
    let cli = command_line("tpcc", flags.split_whitespace()).expect("flags");
    Settings::new(cli).expect("settings").inputs
}
