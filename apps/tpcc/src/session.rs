//! The state that all phases of one run of the program share and do not change.

use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::{Member, Worker};
use latchwork_coherence::MemoryError;
use latchwork_database::{DatabaseOpenError, Nodes, Wait, open_named};
use latchwork_harness::{AppError, ClusterFlags, PhaseProgress, RunCluster};
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_txn::{Database, DatabaseId, Health, NodeId, TxnError};
use latchwork_wal::Stats;

use crate::about::About;
use crate::log::{self, Logs, open_failed};
use crate::settings::{LESS, Settings};
use crate::tables::{Store, Tables};
use crate::transactions::Failure;

/// The database's name in the catalogue. In a cluster that outlives the run, the name also has the
/// run.
const NAME: &str = "tpcc";

/// The longest time that workers wait for the worker that makes the database.
const WAIT: Duration = Duration::from_secs(30);

/// The settings, and the shared state of the workers of each compute node.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    /// The database's name in the catalogue.
    name: String,
    nodes: Nodes,
}

/// Whether the commits of a phase are in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Logged {
    /// They are, if there is a log.
    Yes,
    No,
}

impl Session {
    pub(crate) fn new(settings: Settings) -> Session {
        let nodes = Nodes::new(settings.common.cluster.compute_nodes);
        Session { settings, name: NAME.to_owned(), nodes }
    }

    /// Enters what is known only when the cluster has started.
    pub(crate) fn join(&mut self, cluster: &RunCluster) -> Result<(), AppError> {
        self.name = cluster.name(NAME);
        self.settings.join(cluster)
    }

    /// Begins a phase. With a simulated log, the nodes are made anew, because the worker that
    /// writes the log ends with its phase.
    pub(crate) fn begin_phase(&self) {
        let simulated = self.settings.logs.as_ref().is_some_and(Logs::is_simulated);
        self.nodes.begin(simulated);
    }

    /// Ends a worker's part in a phase. The first worker of a node stays until the node's other
    /// workers have ended, because it may write their log. Before its own end, the whole log is
    /// written.
    pub(crate) async fn end_phase(
        &self,
        phase: &PhaseProgress,
        member: &Member,
    ) -> Result<(), AppError> {
        let stopped = || phase.stopped();
        let wait = Wait { limit: WAIT, stopped: &stopped };
        let ended = self.nodes.end(member, self.settings.common.cluster.workers, &wait).await;
        ended.map_err(|error| open_failed(&error))
    }

    /// Closes this process's logs in files, so that a later start knows their ends.
    pub(crate) fn close_logs(&self) -> Result<(), AppError> {
        let Some(logs) = &self.settings.logs else { return Ok(()) };
        let logs = self.nodes().into_iter().filter(|_| !logs.is_simulated());
        let logs: Vec<_> = logs.filter_map(|node| node.log().cloned()).collect();
        let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
        let handle = executor.handle();
        executor.block_on(async {
            for log in logs {
                let closed = log.close(&handle, handle.now() + WAIT).await;
                closed.map_err(|error| log::failed(&error))?;
            }
            Ok(())
        })
    }

    /// The statistics of this process's logs so far; `None` without logs.
    pub(crate) fn log_stats(&self) -> Option<Stats> {
        let stats =
            |(_, node): (usize, Arc<latchwork_txn::TransactionNode>)| Some(node.log()?.stats());
        let logs = self.settings.logs.as_ref().filter(|logs| logs.are_written());
        logs.map(|_| log::sum(self.nodes.up().filter_map(stats)))
    }

    /// The compute nodes of this process that have started in this phase.
    pub(crate) fn nodes(&self) -> Vec<Arc<latchwork_txn::TransactionNode>> {
        self.nodes.up().map(|(_, node)| node).collect()
    }

    /// All compute nodes, after they have started. All must be in this process.
    pub(crate) async fn all_nodes(
        &self,
        member: &Member,
        limit: Duration,
    ) -> Result<Vec<Arc<latchwork_txn::TransactionNode>>, AppError> {
        let wait = Wait { limit, stopped: &|| false };
        self.nodes.all(&member.handle, &wait).await.map_err(|error| open_failed(&error))
    }

    /// Errors outside of transactions on this process's compute nodes in this phase, by node number
    /// from 1.
    pub(crate) fn health(&self) -> Vec<(usize, Health)> {
        let nodes = self.nodes.up().map(|(index, node)| (index + 1, node.health()));
        nodes.filter(|(_, health)| !health.is_good()).collect()
    }

    /// Opens the database on a worker. The first worker makes the database if there is none.
    pub(crate) async fn open(
        &self,
        phase: &PhaseProgress,
        member: &Member,
        logged: Logged,
    ) -> Result<(Store, Tables), AppError> {
        let stopped = || phase.stopped();
        let wait = Wait { limit: WAIT, stopped: &stopped };
        let node = self.nodes.of(member, &wait, || self.start_node(member, logged));
        let node = node.await.map_err(|error| self.open_error(&error))?;
        // A worker that finds the database also finds its tables, because `make` makes both.
        let make = async |memory, node| self.make(memory, node).await;
        let store = open_named(member, node, &self.name, &wait, make).await;
        let store = store.map_err(|error| self.open_error(&error))?;
        let tables = Tables::open(&store).await.map_err(|error| self.txn_error(&error))?;
        Ok((store, tables))
    }

    /// The shared state of a compute node's workers.
    fn start_node(
        &self,
        member: &Member,
        logged: Logged,
    ) -> Result<Arc<latchwork_txn::TransactionNode>, DatabaseOpenError> {
        // There are at most 58 compute nodes, and timestamps have room for the node numbers 0 to
        // 63.
        let id = NodeId(member.node as u8);
        // A log in files serves all phases; a simulated log serves one phase.
        let logs = self.settings.logs.as_ref();
        let logs = logs.filter(|logs| logged == Logged::Yes || !logs.is_simulated());
        let log = logs.map(|logs| logs.start(id, &member.handle)).transpose()?.flatten();
        Ok(latchwork_txn::TransactionNode::new(id, log, self.settings.txn.clone()))
    }

    /// Makes the database, with empty or recovered tables.
    async fn make(
        &self,
        memory: Worker,
        node: Arc<latchwork_txn::TransactionNode>,
    ) -> Result<Store, TxnError> {
        let settings = &self.settings;
        let id = settings.logs.as_ref().map(|logs| logs.directory.database());
        let id = id.unwrap_or(DatabaseId(settings.common.cluster.seed));
        let store = Database::create(memory, node, id).await?;
        match &settings.stored {
            Some(stored) => stored.recovery.tables(&store).await?,
            None => {
                About::new(&settings.population, settings.common.cluster.seed)
                    .create(&store)
                    .await?;
                Tables::create(&store, settings.hot_rows).await?;
            }
        }
        Ok(store)
    }

    /// A line for people about the coming run.
    pub(crate) fn headline(&self) -> String {
        let Settings { common, .. } = &self.settings;
        format!(
            "tpcc{}{}: {}; about {} MiB; {}; warm-up of {:?}",
            self.settings.command.map_or(String::new(), |command| format!(" {}", command.name())),
            common.fabric.nic().map_or(String::new(), |nic| format!(" on simulated {nic}")),
            self.settings.in_words(),
            self.settings.population_bytes >> 20,
            ClusterFlags::in_words(&common.cluster),
            self.settings.warmup,
        )
    }

    /// The error that ends a run when the database cannot be opened.
    fn open_error(&self, error: &DatabaseOpenError) -> AppError {
        match error {
            DatabaseOpenError::Txn(error) => self.txn_error(error),
            error => open_failed(error),
        }
    }

    /// The error that ends a run when the engine fails.
    pub(crate) fn txn_error(&self, error: &TxnError) -> AppError {
        match is_out_of_memory(error) {
            true => self.out_of_memory(""),
            false => AppError::Failed(format!("the database failed: {error}")),
        }
    }

    /// The error for a full memory pool. `when` stands behind the fact.
    pub(crate) fn out_of_memory(&self, when: &str) -> AppError {
        let common = &self.settings.common;
        common.out_of_memory(when, 2 * common.cluster.memory_bytes, LESS)
    }

    /// The error that ends a run when a transaction failed for another reason than a conflict.
    pub(crate) fn failure(&self, failure: &Failure) -> AppError {
        match failure {
            Failure::Txn(error) => self.txn_error(error),
            failure => AppError::Failed(format!("the database is damaged: {failure}")),
        }
    }
}

/// Whether the memory pool is full.
pub(crate) fn is_out_of_memory(error: &TxnError) -> bool {
    matches!(error.memory(), Some(MemoryError::OutOfMemory(_)))
}
