//! Loading: all workers take parts of the population, and add their rows without transactions.

use crate::session::{Logged, Session};
use latchwork_cluster::Member;
use latchwork_harness::{AppError, Phase};
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// What all workers that load share.
pub(crate) struct Load {
    session: Arc<Session>,
    phase: Arc<Phase>,
    /// The next part that nobody has taken.
    next: AtomicU64,
}

/// What one worker did.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) rows: u64,
    /// When it was done.
    pub(crate) end: Time,
}

impl Load {
    pub(crate) fn new(session: &Arc<Session>, phase: &Arc<Phase>) -> Load {
        Load { session: session.clone(), phase: phase.clone(), next: AtomicU64::new(0) }
    }
}

/// Loads parts until there are none. Nothing when the phase failed.
pub(crate) async fn load(load: Arc<Load>, member: Member) -> Option<Done> {
    let done = Box::pin(take_parts(&load, &member)).await;
    done.map_err(|error| load.phase.fail(error)).ok()
}

async fn take_parts(load: &Load, member: &Member) -> Result<Done, AppError> {
    let (session, phase) = (&load.session, &load.phase);
    let (store, tables) = session.open(phase, member, Logged::No).await?;
    let population = &session.settings.population;
    let mut done = Done::default();
    // Which part a worker takes decides nothing but where its rows stand.
    while let Some(part) = population.part(load.next.fetch_add(1, Ordering::Relaxed)) {
        let mut rows = population.rows(part);
        while let Some(row) = rows.next() {
            let loaded = store.load(tables.of(row.table), row.key, row.row).await;
            loaded.map_err(|error| session.txn_error(&error))?;
            done.rows += 1;
            phase.count(member.index);
        }
        if phase.stopped() {
            return Ok(done);
        }
        phase.reach(member.handle.now());
    }
    done.end = member.handle.now();
    Ok(done)
}
