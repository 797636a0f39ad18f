//! Partitions of the warehouses among compute nodes: the owner of each row, and two-phase commit
//! between the nodes (SELCC 7.3.2).
//!
//! Each node owns consecutive warehouses. The node loads their rows, restores these rows after a
//! restart, and adds rows to them. So no line has rows of two nodes. This matters because a lock
//! covers a whole line: if a line had rows of two nodes, a transaction over both nodes would
//! conflict with itself. No transaction writes items, so each node reads items directly.

use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::{Member, Worker};
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_history::Recorder;
use latchwork_partition::{Owner, Partitioned, PrepareCollector, Site, Stats};
use latchwork_verbs::{ComputeNodeId, GlobalAddr};
use latchwork_workload::tpcc::TpccTable;

use crate::session::Session;
use crate::settings::Settings;
use crate::tables::{Store, Tables};
use crate::worker_barrier::{self, Point, WorkerBarrier, wait};

/// The shared state of the workers of all nodes, in a run with partitions.
pub(crate) struct Partitions {
    sites: Vec<Arc<Site>>,
    meeting: WorkerBarrier,
}

impl Partitions {
    /// The partitions for a run on these nodes, or `None` if the run has no partitions. Workers of
    /// many processes use `line` for their barriers.
    pub(crate) fn new(
        settings: &Settings,
        ids: &[ComputeNodeId],
        line: Option<GlobalAddr>,
    ) -> Option<Partitions> {
        if !settings.partitioned {
            return None;
        }
        let (nodes, workers) =
            (settings.common.cluster.compute_nodes, settings.common.cluster.workers);
        // The collector joins the parts of a transaction to one record of the history.
        let gathering = Arc::new(PrepareCollector::default());
        let site = |_| {
            let site = Site::new(workers as u8, latchwork_partition::PartitionSettings::default());
            let site = site.among(ids.to_vec());
            match settings.record {
                Some(_) => Arc::new(site.prepare_collector(gathering.clone())),
                None => Arc::new(site),
            }
        };
        let sites = (0..nodes).map(site).collect();
        Some(Partitions { sites, meeting: WorkerBarrier::new(nodes * workers, line) })
    }

    /// Starts a worker, and waits until all others have started. A worker that has not started
    /// answers no request for its rows.
    ///
    /// The recorder is set before the wait. After the wait, another worker may already have a
    /// transaction with a part on this worker. Without the recorder, this part would be missing in
    /// the history.
    pub(crate) async fn start(
        &self,
        session: &Session,
        phase: &PhaseProgress,
        member: &Member,
        (store, tables): (&Store, &Tables),
        recorder: Recorder,
    ) -> Result<Partitioned<Worker>, AppError> {
        let owner = owner(session, tables)?;
        // The check of the command line has refused larger numbers.
        let (site, worker) = (self.sites[member.node].clone(), member.worker as u8);
        let started = Partitioned::start(store.clone(), site, worker, tables.all().cloned(), owner);
        let started = started.map_err(|error| session.txn_error(&error))?;
        started.record(recorder, member.index as u16);
        self.meeting.come(Point::Begin, phase, member).await?;
        Ok(started)
    }

    /// Keeps the worker running until no other worker needs it any more.
    pub(crate) async fn leave(
        &self,
        session: &Session,
        worker: &Partitioned<Worker>,
        phase: &PhaseProgress,
        member: &Member,
    ) -> Result<(), AppError> {
        self.meeting.come(Point::End, phase, member).await?;
        // Decisions of two-phase commit may still be in flight. No worker begins a transaction any
        // more, so this wait ends.
        let is_quiet = || worker.participants() == 0 && worker.site().open() == 0;
        wait(is_quiet, Point::Quiet.what(), phase, member).await?;
        if member.worker == 0 && !phase.stopped() {
            // An aborted transaction may still be undoing its writes.
            let deadline = member.handle.now() + worker_barrier::WAIT;
            let ended = worker.database().node().quiesce(&member.handle, deadline).await;
            ended.map_err(|error| session.txn_error(&error))?;
        }
        self.meeting.come(Point::Quiet, phase, member).await
    }

    /// The statistics of this process's nodes.
    pub(crate) fn stats(&self) -> Stats {
        let all = self.sites.iter().map(|site| site.stats());
        all.fold(Stats::default(), |sum, one| sum + one)
    }
}

fn owner(session: &Session, tables: &Tables) -> Result<Owner<Worker>, AppError> {
    let Some(shares) = session.settings.terminals.shares else {
        return Err(AppError::Failed("nobody has said whose rows are whose".to_owned()));
    };
    let items = tables.of(TpccTable::Item).id();
    Ok(Rc::new(move |table, key| {
        let is_item = table.id() == items;
        // The owner rule treats all other tables alike.
        shares.owner(if is_item { TpccTable::Item } else { TpccTable::Stock }, key)
    }))
}
