//! Durable data: the recovery of a database from its log, and its checkpoints.

use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_txn::Checkpoint;
use latchwork_workload::tpcc::TpccTable;

use crate::about::table_id;
use crate::outcome::Saved;
use crate::session::{Logged, Session};

/// The longest wait of a checkpoint for running transactions, and for the log.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(60);

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
        Step::Rows => match session.settings.shares {
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
    let Checkpoint { rows, bytes, .. } = write(&session, &store, &member).await?;
    Ok(Some(Saved { rows, bytes }))
}

/// Writes checkpoints during a run, until `over`.
pub(crate) async fn keep_writing(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    store: crate::tables::Store,
    member: Member,
    over: impl Fn() -> bool,
) {
    const LOOK: Duration = Duration::from_millis(50);
    let Some(every) = session.settings.checkpoint else { return };
    loop {
        let next = member.handle.now() + every;
        while member.handle.now() < next {
            if over() {
                return;
            }
            member.handle.sleep(LOOK).await;
        }
        if let Err(error) = write(&session, &store, &member).await {
            return phase.fail(error);
        }
    }
}

async fn write(
    session: &Session,
    store: &crate::tables::Store,
    member: &Member,
) -> Result<Checkpoint, AppError> {
    let Some(logs) = &session.settings.logs else { return Ok(Checkpoint::default()) };
    let nodes = session.all_nodes(member, CHECKPOINT_WAIT).await?;
    let deadline = member.handle.now() + CHECKPOINT_WAIT;
    let written = store.checkpoint(&nodes, &logs.directory, deadline).await;
    written.map_err(|error| session.txn_error(&error))
}
