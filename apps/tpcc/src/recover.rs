//! Durable data: the recovery of a database from its log, and its checkpoints.

use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_harness::outcome::say;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_txn::{Checkpoint, TransactionNode, TxnError};
use latchwork_wal::{Log, WalError};
use latchwork_workload::tpcc::TpccTable;

use crate::about::table_id;
use crate::log::Logs;
use crate::outcome::Saved;
use crate::session::{Logged, Session};

/// The longest wait of a checkpoint for running transactions, and for the log.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(60);

/// The shortest pause before a checkpoint that the device refused is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The steps of a recovery. All workers take each step together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Rows, into tables that the first worker makes.
    Rows,
    Indexes,
}

/// One worker's part in the recovery of the database from its log.
pub(crate) async fn recover(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    step: Step,
    member: Member,
) -> Result<(), AppError> {
    let (store, _) = session.open(&phase, &member, Logged::No).await?;
    let Some(stored) = &session.settings.stored else { return Ok(()) };
    let done = match step {
        Step::Rows => match session.settings.terminals.shares {
            None => stored.recovery.rows(&store).await,
            Some(shares) => {
                let table_of = |id| TpccTable::ALL.into_iter().find(|table| table_id(*table) == id);
                let owner = |id, key: &[u8]| {
                    // A row without a warehouse may stand on any node.
                    table_of(id).map_or(0, |table| shares.placer(table, key))
                };
                stored.recovery.rows_of(&store, owner).await
            }
        },
        Step::Indexes => stored.recovery.indexes(&store).await,
    };
    done.map_err(|error| session.txn_error(&error))
}

/// The first worker writes a checkpoint. The other workers keep running, because their nodes answer
/// requests for the lines in their caches.
pub(crate) async fn checkpoint(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Result<Option<Saved>, AppError> {
    let (store, _) = session.open(&phase, &member, Logged::Yes).await?;
    if member.index > 0 {
        return Ok(None);
    }
    let nodes = session.all_nodes(&member, CHECKPOINT_WAIT).await?;
    let written = write(&session, &store, &member, &nodes).await;
    let Checkpoint { rows, bytes, .. } = written.map_err(|error| session.txn_error(&error))?;
    Ok(Some(Saved { rows, bytes }))
}

/// Ends the run when the log of this worker's node has failed. On the first worker of all, writes
/// checkpoints. Both until `over`.
pub(crate) async fn keep_logs(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    store: crate::tables::Store,
    member: Member,
    over: impl Fn() -> bool,
) {
    const LOOK: Duration = Duration::from_millis(50);
    if !session.settings.logs.as_ref().is_some_and(Logs::are_files) {
        return;
    }
    let every = session.settings.checkpoint.filter(|_| member.index == 0);
    let mut next = member.handle.now() + every.unwrap_or_default();
    while !over() {
        let log = store.node().log();
        if let Some(error) = log.and_then(Log::trouble).filter(WalError::is_final) {
            // In asynchronous mode no commit waits for the log, so none would report the failure.
            return phase.fail(session.txn_error(&error.into()));
        }
        if let Some(every) = every
            && member.handle.now() >= next
        {
            let pause = match keep_writing(&session, &store, &member).await {
                Ok(true) => every,
                Ok(false) => every.max(AGAIN),
                Err(error) => return phase.fail(error),
            };
            next = member.handle.now() + pause;
        }
        member.handle.sleep(LOOK).await;
    }
}

/// Writes a checkpoint during a run. `false`: the device refused it. The run goes on, because the
/// log has everything, and the device may have room again later.
async fn keep_writing(
    session: &Session,
    store: &crate::tables::Store,
    member: &Member,
) -> Result<bool, AppError> {
    let nodes = session.all_nodes(member, CHECKPOINT_WAIT).await?;
    // With an asynchronous log, a checkpoint would wait until the device has room.
    let trouble = nodes.iter().find_map(|node| node.log()?.trouble());
    let written = match trouble {
        Some(error) => Err(error.into()),
        None => write(session, store, member, &nodes).await,
    };
    match written {
        Ok(_) => Ok(true),
        Err(TxnError::Log(error)) if !error.is_final() => {
            say(&format!("tpcc: a checkpoint was not written and will be tried again: {error}"));
            Ok(false)
        }
        Err(error) => Err(session.txn_error(&error)),
    }
}

async fn write(
    session: &Session,
    store: &crate::tables::Store,
    member: &Member,
    nodes: &[Arc<TransactionNode>],
) -> Result<Checkpoint, TxnError> {
    let Some(logs) = &session.settings.logs else { return Ok(Checkpoint::default()) };
    let deadline = member.handle.now() + CHECKPOINT_WAIT;
    store.checkpoint(nodes, &logs.directory, deadline).await
}
