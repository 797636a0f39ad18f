//! [`Instance`]: a database that this process has open.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use latchwork_cluster::{ClusterConfig, Member, Worker};
use latchwork_memnode::{ObjectKind, Pool};
use latchwork_runtime::sync::Mutex;
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_txn::{
    Checkpoint, Database, DatabaseId, Health, NodeId, Recovery, TransactionNode, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_wal::storage::{Disk, Storage};
use latchwork_wal::{Device, Log, LogDirectory, Loss, Timestamp, WalError};

use crate::named::check_kind;
use crate::nodes::deadline;
use crate::steps::{Step, Steps};
use crate::{DatabaseOpenError, DatabaseOptions, Nodes, Wait, draw_id, open_named, replay};

/// A database that this process has open on its compute nodes of one cluster. Clones share one
/// state. An instance is not bound to a worker: each worker gets an [`Opened`](crate::Opened).
///
/// An instance belongs to the first cluster on which it is opened. With a log, the instance makes
/// the database in the cluster's memory from the log. If the memory already has a database of that
/// name, the opening fails, because that database may lack commits of the log. If opening fails on
/// one worker, the instance stays unusable. If the failed opening had already made the database, a
/// new instance with the same log needs a new cluster.
///
/// Every worker of every compute node must [open](Instance::open) the instance, all at the same
/// time. [`run`](Instance::run) does this.
#[derive(Clone)]
pub struct Instance(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    options: DatabaseOptions,
    /// The compute nodes of this process, by their indexes in the cluster.
    pub(crate) nodes_here: Range<usize>,
    /// Whether other processes may have the database open too.
    is_shared: bool,
    /// The number of workers of each node.
    pub(crate) workers: usize,
    id: DatabaseId,
    directory: Option<Arc<LogDirectory>>,
    /// The timing of a simulated device.
    device: Option<Device>,
    found: Found,
    /// The result of the replay of the logs. The result is a second copy of all rows, so it is
    /// dropped when all workers have restored their parts.
    recovery: Mutex<Option<Arc<Recovery>>>,
    nodes: Nodes,
    pub(crate) steps: Steps,
    /// The memory pool of the cluster to which the instance belongs; `None` before the first
    /// opening. Two pools are compared by the address of the state that their clones share. The
    /// instance keeps a clone, so no other pool can get that address.
    pool: Mutex<Option<Pool>>,
    /// The address of the database's root, once the first worker has made or found the database.
    root: Mutex<Option<GlobalAddr>>,
}

/// The content of a directory when it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// The number of rows, including the rows that define tables.
    pub rows: usize,
    /// The number of records that replay has read. A record of a log has the writes of one commit,
    /// on any node. A record of the checkpoint has many rows. Commits whose segments a checkpoint
    /// has removed are not counted.
    pub records: u64,
    /// The highest timestamp of the commits and of the checkpoint; zero in an empty directory.
    pub last: Timestamp,
}

impl Found {
    /// Whether the directory held no commit and no row, so that the database is new.
    pub fn is_new(&self) -> bool {
        self.last == Timestamp::ZERO && self.rows == 0
    }
}

impl Instance {
    /// Opens the logs and checkpoints in a directory. If the directory is empty or missing, the
    /// database is new. Otherwise the database is as its last run left it, whether that run closed
    /// the database or crashed.
    ///
    /// # Errors
    /// A directory that another process or this process has open; damage, with the name of the
    /// file; errors of the operating system. An opening that fails loses no commit.
    pub fn at(
        directory: impl AsRef<Path>,
        cluster: &ClusterConfig,
        options: DatabaseOptions,
    ) -> Result<Instance, DatabaseOpenError> {
        let path = directory.as_ref();
        if path.as_os_str().is_empty() {
            return Err(DatabaseOpenError::NoPath);
        }
        let disk = Disk::new(path).map_err(|cause| unwritable(path, cause))?;
        Instance::on(Arc::new(disk), None, cluster, options)
    }

    /// Like [`at`](Instance::at), in any storage. In a simulated world, `device` determines the
    /// times of the log.
    ///
    /// # Errors
    /// As [`at`](Instance::at).
    pub fn on(
        storage: Arc<dyn Storage>,
        device: Option<Device>,
        cluster: &ClusterConfig,
        options: DatabaseOptions,
    ) -> Result<Instance, DatabaseOpenError> {
        options.log.check().map_err(WalError::from)?;
        let directory = replay::open(storage, options.accept_loss)?;
        let (replayed, _) = replay(&directory, options.replay_threads)?;
        let rows = replayed.keys().filter(|(_, latest)| latest.value.is_some()).count();
        let found = Found { rows, records: replayed.groups, last: replayed.highest };
        let recovery = Some(Recovery::new(replayed));
        let id = directory.database();
        let here = (0..cluster.compute_nodes, false);
        Ok(Instance::new(cluster, here, options, id, (Some(directory), device), found, recovery))
    }

    /// Makes a database without a log, which ends with its cluster.
    pub fn in_memory(cluster: &ClusterConfig, options: DatabaseOptions) -> Instance {
        let (id, here) = (draw_id(cluster.seed), (0..cluster.compute_nodes, false));
        Instance::new(cluster, here, options, id, (None, None), Found::default(), None)
    }

    /// Like [`in_memory`](Instance::in_memory), on a cluster of processes, of which this process
    /// has the compute nodes `here`. Each process makes an instance with the same options. The
    /// first worker of the cluster makes the database and its tables. The workers of the other
    /// processes wait for both.
    pub fn in_memory_here(
        cluster: &ClusterConfig,
        here: Range<usize>,
        options: DatabaseOptions,
    ) -> Instance {
        let (id, here) = (draw_id(cluster.seed), (here, true));
        Instance::new(cluster, here, options, id, (None, None), Found::default(), None)
    }

    fn new(
        cluster: &ClusterConfig,
        (nodes_here, is_shared): (Range<usize>, bool),
        options: DatabaseOptions,
        id: DatabaseId,
        (directory, device): (Option<Arc<LogDirectory>>, Option<Device>),
        found: Found,
        recovery: Option<Recovery>,
    ) -> Instance {
        strict_assert_eq!(
            directory.is_some(),
            recovery.is_some(),
            "a log is recovered, and nothing else is"
        );
        strict_assert!(directory.is_some() || device.is_none(), "a device without a log");
        strict_assert!(found.is_new() || directory.is_some(), "rows without a log");
        Instance(Arc::new(Inner {
            options,
            nodes_here,
            is_shared,
            workers: cluster.workers,
            id,
            directory,
            device,
            found,
            recovery: Mutex::new(recovery.map(Arc::new)),
            nodes: Nodes::new(cluster.compute_nodes),
            steps: Steps::default(),
            pool: Mutex::new(None),
            root: Mutex::new(None),
        }))
    }

    /// The name in the memory pool.
    pub fn name(&self) -> &str {
        &self.0.options.name
    }

    /// The content of the directory when it was opened.
    pub fn found(&self) -> Found {
        self.0.found
    }

    /// The losses of the logs that [`DatabaseOptions::accept_loss`] accepted. Empty if there was no
    /// loss.
    pub fn losses(&self) -> &[Loss] {
        self.0.directory.as_ref().map_or(&[], |directory| directory.losses())
    }

    /// For each compute node of this process that has started: the state of the transactions that
    /// continue without a caller, for example because their caller dropped the future of the
    /// commit.
    pub fn health(&self) -> Vec<(NodeId, Health)> {
        let nodes = self.0.nodes.up().map(|(_, node)| node);
        nodes.map(|node| (node.clock().node(), node.health())).collect()
    }

    /// Begins a phase on the compute nodes of this process. [`run`](Instance::run) calls it before
    /// its workers start. A program that calls [`with_open`](crate::with_open) on its workers calls
    /// `begin` first.
    ///
    /// # Errors
    /// [`DatabaseOpenError::OtherCluster`], and the error of an earlier opening.
    pub fn begin(&self, nodes: &[Arc<latchwork_cluster::Node>]) -> Result<(), DatabaseOpenError> {
        let inner = &self.0;
        for node in nodes {
            inner.belong(node.allocator().pool())?;
        }
        inner.steps.check()?;
        // The task that writes a simulated log belongs to a worker, and ends with the phase. So
        // with a simulated device each phase has new nodes and logs.
        inner.nodes.begin(inner.device.is_some());
        Ok(())
    }

    /// Closes the logs, after all workers have ended. All appended records are written. Another
    /// instance can open the directory when the last clone of this instance is dropped.
    ///
    /// # Errors
    /// The errors of the log, which may concern the last commits, for which no caller waited.
    pub fn close(self) -> Result<(), DatabaseOpenError> {
        let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
        let handle = executor.handle();
        let inner = &self.0;
        let logs = inner.nodes.up().filter_map(|(_, node)| node.log().cloned());
        // In a simulated world the first worker of each node has closed its log already.
        let mut ends = Ok(());
        for log in logs.filter(|_| inner.device.is_none()) {
            let deadline = handle.now() + inner.options.patience;
            // Every log is closed. The first error is returned.
            ends = ends.and(executor.block_on(log.close(&handle, deadline)));
        }
        Ok(ends?)
    }
}

impl Inner {
    /// Ends the opening on all workers. Returns the error for this worker.
    pub(crate) fn failed(&self, error: DatabaseOpenError) -> DatabaseOpenError {
        self.steps.fail(&error);
        match error {
            DatabaseOpenError::Stopped => self.steps.check().err().unwrap_or(error),
            error => error,
        }
    }

    /// Binds the instance to the cluster of `pool`, if it has no cluster yet. Otherwise checks that
    /// `pool` is of its cluster.
    pub(crate) fn belong(&self, pool: &Pool) -> Result<(), DatabaseOpenError> {
        match self.pool.lock().get_or_insert_with(|| pool.clone()).is_clone_of(pool) {
            true => Ok(()),
            false => Err(DatabaseOpenError::OtherCluster { name: self.options.name.clone() }),
        }
    }

    /// Whether a worker is the first one of this process. The first worker makes the database, or
    /// finds the existing one.
    fn leads(&self, member: &Member) -> bool {
        member.node == self.nodes_here.start && member.worker == 0
    }

    pub(crate) async fn open(
        &self,
        member: &Member,
    ) -> Result<Database<Worker>, DatabaseOpenError> {
        let (handle, workers) = (&member.handle, self.all_workers());
        let stopped = || self.steps.has_failed();
        let wait = self.wait(&stopped);
        let is_open = self.steps.is_over(Step::Tables, workers);
        if !is_open {
            // The check of the name comes before any log is opened: an opening that is refused
            // leaves the log's files as they were.
            if self.leads(member) {
                self.check_free(member).await?;
                self.steps.pass(Step::Free);
            }
            let what = || "the first worker of this process did not check the name".to_owned();
            self.steps.reached(Step::Free, 1, handle, &wait, what).await?;
        }
        let node = self.nodes.of(member, &wait, || self.start_node(member)).await?;
        let database = match self.leads(member) {
            true if !is_open => self.make(member, node, &wait).await?,
            // This worker uses the address of the database, not its name. If the name was
            // registered anew, it leads to another database than that of the first worker.
            _ => {
                let what = || "the first worker did not make the database".to_owned();
                let root = wait.until(handle, what, async || Ok(*self.root.lock())).await?;
                Database::open(member.memory.clone(), node, root).await?
            }
        };
        if !is_open {
            self.fill(member, &database, &wait).await?;
        }
        Ok(database)
    }

    /// Makes the database, or opens an existing one without a log.
    async fn make(
        &self,
        member: &Member,
        node: Arc<TransactionNode>,
        wait: &Wait<'_>,
    ) -> Result<Database<Worker>, DatabaseOpenError> {
        let recovery = self.recovery.lock().clone();
        let made = std::cell::Cell::new(false);
        let make = async |memory: Worker, node: Arc<TransactionNode>| {
            made.set(true);
            let database = Database::create(memory, node, self.id).await?;
            if let Some(recovery) = &recovery {
                recovery.tables(&database).await?;
            }
            Ok(database)
        };
        let database = open_named(member, node, &self.options.name, wait, make).await?;
        if !made.get() {
            // Another instance may have registered the name since the first check.
            self.check_free(member).await?;
        }
        *self.root.lock() = Some(database.root());
        strict_assert!(!database.root().is_null(), "a database without a root");
        Ok(database)
    }

    /// Refuses a database of this name in the memory, unless neither that database nor this
    /// instance has a log.
    async fn check_free(&self, member: &Member) -> Result<(), DatabaseOpenError> {
        let name = &self.options.name;
        let Some(entry) = member.catalogue.lookup(member.memory.port(), name).await? else {
            return Ok(());
        };
        check_kind(&entry)?;
        match &self.directory {
            Some(directory) => Err(DatabaseOpenError::InMemory {
                name: name.clone(),
                directory: directory.describe(),
            }),
            None if entry.kind == ObjectKind::LOGGED_DATABASE => {
                Err(DatabaseOpenError::HasLog { name: name.clone() })
            }
            None => Ok(()),
        }
    }

    /// Restores the rows and the indexes from the log, then makes the tables of the options that
    /// do not exist. All workers call this at the same time, and each restores a part.
    async fn fill(
        &self,
        member: &Member,
        database: &Database<Worker>,
        wait: &Wait<'_>,
    ) -> Result<(), DatabaseOpenError> {
        let (handle, workers) = (&member.handle, self.all_workers());
        self.steps.end(Step::Made, workers, handle, wait).await?;
        let recovery = self.recovery.lock().clone();
        if let Some(recovery) = recovery {
            recovery.rows(database).await?;
            self.steps.end(Step::Rows, workers, handle, wait).await?;
            recovery.indexes(database).await?;
            self.steps.end(Step::Indexes, workers, handle, wait).await?;
            *self.recovery.lock() = None;
        }
        if member.index == 0 {
            self.make_tables(database).await?;
        } else if self.leads(member) {
            self.find_tables(member, database, wait).await?;
        }
        self.steps.end(Step::Tables, workers, handle, wait).await
    }

    /// Makes the tables that do not exist.
    async fn make_tables(&self, database: &Database<Worker>) -> Result<(), DatabaseOpenError> {
        for schema in &self.options.tables {
            match database.table(schema.name()).await {
                Ok(table) if table.schema() == schema => {}
                Ok(_) => {
                    return Err(DatabaseOpenError::OtherSchema { table: schema.name().to_owned() });
                }
                Err(TxnError::NoTable { .. }) => {
                    database.create_table(schema.clone()).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for the tables, which the first worker of another process makes.
    async fn find_tables(
        &self,
        member: &Member,
        database: &Database<Worker>,
        wait: &Wait<'_>,
    ) -> Result<(), DatabaseOpenError> {
        for schema in &self.options.tables {
            let table = schema.name();
            let what = || format!("another process did not make the table {table}");
            let made = async || match database.table(table).await {
                Ok(table) => Ok(Some(table)),
                Err(TxnError::NoTable { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            };
            if wait.until(&member.handle, what, made).await?.schema() != schema {
                return Err(DatabaseOpenError::OtherSchema { table: table.to_owned() });
            }
        }
        Ok(())
    }

    fn start_node(&self, member: &Member) -> Result<Arc<TransactionNode>, DatabaseOpenError> {
        // In one process, the number of a node is its index among the nodes that started together.
        // In a cluster of processes other nodes may use the same database, so the number is the
        // compute node id, which is at most 58.
        let id = member.memory.node().id().get();
        let id = if self.is_shared { NodeId(id) } else { NodeId(member.node as u8) };
        let log = match (&self.directory, self.device) {
            (None, _) => None,
            (Some(directory), None) => {
                Some(Log::threaded(directory, id, self.options.log.clone())?)
            }
            (Some(directory), Some(device)) => {
                let settings = self.options.log.clone();
                Some(Log::simulated(directory, id, settings, &member.handle, device)?)
            }
        };
        Ok(TransactionNode::new(id, log, self.options.transactions.clone()))
    }

    pub(crate) async fn checkpoint(
        &self,
        database: &Database<Worker>,
        handle: &Handle,
    ) -> Result<Checkpoint, DatabaseOpenError> {
        let Some(directory) = &self.directory else { return Err(DatabaseOpenError::NoLog) };
        let wait = self.wait(&|| false);
        let nodes = self.nodes.all(handle, &wait).await?;
        Ok(database.checkpoint(&nodes, directory, deadline(handle, &wait)).await?)
    }

    /// Ends a worker's part of a phase: see [`Nodes::end`].
    pub(crate) async fn end(&self, member: &Member) -> Result<(), DatabaseOpenError> {
        // The log of a simulated node is closed below, so all workers of the node must have ended
        // before. With a real device, the wait stops when a worker has failed.
        let stopped = || self.device.is_none() && self.steps.has_failed();
        let wait = self.wait(&stopped);
        self.nodes.end(member, self.workers, &wait).await?;
        let node = self.nodes.up().find(|(index, _)| *index == member.node);
        let log = node.and_then(|(_, node)| node.log().cloned());
        // The task that writes this log ends with this worker.
        if let (Some(log), 0, Some(_)) = (log, member.worker, self.device) {
            log.close(&member.handle, deadline(&member.handle, &wait)).await?;
        }
        Ok(())
    }

    fn wait<'a>(&self, stopped: &'a dyn Fn() -> bool) -> Wait<'a> {
        Wait { limit: self.options.patience, stopped }
    }

    fn all_workers(&self) -> usize {
        self.nodes_here.len() * self.workers
    }
}

fn unwritable(path: &Path, cause: std::io::Error) -> DatabaseOpenError {
    DatabaseOpenError::Directory { path: path.display().to_string(), cause }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { id, directory, nodes, .. } = &*self.0;
        let mut out = f.debug_struct("Instance");
        out.field("id", id).field("directory", directory).field("nodes", nodes);
        out.finish_non_exhaustive()
    }
}
