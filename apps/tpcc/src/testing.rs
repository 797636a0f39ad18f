//! Small databases on one worker, for tests.

use std::future::Future;
use std::sync::Arc;

use latchwork_cluster::Worker;
use latchwork_harness::config::command_line;
use latchwork_harness::driver::Started;
use latchwork_harness::progress::Title;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_txn::{Transaction, TxnError};
use latchwork_workload::tpcc::TpccTable;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::session::{Logged, Session};
use crate::settings::Settings;
use crate::tables::{Store, Tables};

/// A loaded database of two warehouses.
pub(crate) fn loaded() -> Started<Session> {
    let flags = "tpcc -w 2 --set items=200 --set customers=30 --compute-nodes 1 --threads 1 --cache-mb 16 --memory-mb 64";
    let cli = command_line("tpcc", flags.split_whitespace()).expect("flags");
    let started = Session::new(Settings::new(cli).expect("settings"));
    let started = Started::new(started).expect("a cluster");
    started.driver.load(&started.cluster).expect("a database");
    started
}

/// Runs `body` on the database's only worker.
pub(crate) fn with<T, F, Fut>(started: &Started<Session>, body: F) -> T
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(Store, Tables) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, AppError>> + 'static,
{
    let body = Arc::new(body);
    let on_worker = move |session: Arc<Session>, phase: Arc<PhaseProgress>, member| {
        let body = body.clone();
        async move {
            let (store, tables) = session.open(&phase, &member, Logged::No).await?;
            body(store, tables).await
        }
    };
    let title = Title { name: "test", what: "steps" };
    let ended = started.driver.on_all(&started.cluster, (title, 1), on_worker);
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
