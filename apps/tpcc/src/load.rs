//! Loading: all workers take parts of the population, and add their rows without transactions. With
//! partitions, the workers of a node load the share of their node.

use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_workload::tpcc::{LoadPart, TpccTable};
use serde::{Deserialize, Serialize};

use crate::session::{Logged, Session};

/// The shared state of all loading workers.
pub(crate) struct Load {
    session: Arc<Session>,
    /// The next free part. With partitions there is one number per node. Otherwise the first number
    /// counts for all nodes.
    next: Vec<AtomicU64>,
    /// This process's index, and the number of processes, which take common parts in turn.
    process: (u64, u64),
}

/// The results of one worker.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) rows: u64,
    /// The end of its loading.
    pub(crate) end: Time,
}

impl Load {
    pub(crate) fn new(session: &Arc<Session>, (process, of): (usize, usize)) -> Load {
        let nodes = session.settings.common.cluster.compute_nodes;
        let next = (0..nodes).map(|_| AtomicU64::new(0)).collect();
        let process = (process as u64, of as u64);
        Load { session: session.clone(), next, process }
    }

    /// A free part for a worker of a compute node.
    fn next(&self, node: usize) -> Option<LoadPart> {
        let settings = &self.session.settings;
        let (shares, population) = (settings.terminals.shares, &settings.population);
        let next = &self.next[if shares.is_some() { node } else { 0 }];
        let (process, of) = if shares.is_some() { (0, 1) } else { self.process };
        loop {
            // The choice of a part decides only in which lines its rows stand.
            let number = process + of * next.fetch_add(1, Ordering::Relaxed);
            let part = population.part(number)?;
            let of = shares.map(|shares| match part.table {
                TpccTable::Item => (number % u64::from(shares.nodes)) as u32,
                _ => shares.node_of(part.warehouse),
            });
            if of.is_none_or(|of| of as usize == node) {
                return Some(part);
            }
        }
    }
}

/// Loads parts until no part is free.
pub(crate) async fn load(
    load: Arc<Load>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Result<Done, AppError> {
    let session = &load.session;
    let (store, tables) = session.open(&phase, &member, Logged::No).await?;
    let population = &session.settings.population;
    let mut done = Done::default();
    while let Some(part) = load.next(member.node) {
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
