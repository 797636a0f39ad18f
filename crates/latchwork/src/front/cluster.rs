//! [`Cluster`]: a cluster of threads, of actors of a world or of processes, behind one type.

use std::fmt;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded, Simulated};
#[cfg(feature = "processes")]
use latchwork_cluster::{Joined, StartPatience, Transport};
use latchwork_database::Instance;
use latchwork_engine::Counters;
#[cfg(feature = "processes")]
use latchwork_membership::Membership;
use latchwork_runtime::Time;
use latchwork_verbs_sim::SimConfig;

use super::error::Result;
use super::named::{NamedDatabase, NamedTree};
use super::running::{Process, Running};
use super::worker::ClusterWorker;

/// A cluster whose programs share trees and databases by their names.
///
/// | | compute nodes | time |
/// | --- | --- | --- |
/// | [`start`](Cluster::start) | threads of this process | real |
/// | [`simulated`](Cluster::simulated) | actors of one world on this thread | virtual, repeatable |
/// | `join` (feature `processes`) | one in this process, the others in other processes | real |
///
/// A program moves from one kind to another by a change of this one call.
///
/// # The end
///
/// - [`run`](Cluster::run) returns when every worker has ended. By then each database has written
///   its log, and each tree has freed the lines that it kept for splits.
/// - [`close`](Cluster::close) closes the databases and leaves a cluster of processes. The call
///   returns the errors of both.
/// - The drop of a cluster without `close` does the same, and traces the errors. After a panic, a
///   process does not leave its cluster: its lines may be locked, so its node counts as dead.
/// - A process that is killed closes nothing. In a database with a log, every acknowledged commit
///   is in the log.
pub struct Cluster(Running);

impl Cluster {
    /// Starts a cluster of threads of this process.
    ///
    /// # Errors
    /// A wrong configuration, or a refusal by the machine.
    pub fn start(config: ClusterConfig) -> Result<Cluster> {
        Ok(Embedded::start(config)?.into())
    }

    /// Starts a cluster in virtual time, all on this thread. The seed of the configuration decides
    /// every delay and every order, so that a run can be repeated.
    ///
    /// # Errors
    /// As [`start`](Cluster::start).
    pub fn simulated(config: ClusterConfig, network: SimConfig) -> Result<Cluster> {
        Ok(Simulated::start(config, network)?.into())
    }

    /// Joins a cluster of processes as the compute node of `membership`, together with the other
    /// compute nodes of the configuration.
    ///
    /// # Errors
    /// Those of [`Joined::start`].
    #[cfg(feature = "processes")]
    pub fn join<'a>(
        config: ClusterConfig,
        transport: &Transport,
        membership: Membership,
        patience: impl Into<StartPatience<'a>>,
    ) -> Result<Cluster> {
        Ok(Joined::start(config, transport, membership, patience)?.into())
    }

    /// Sets the longest time of three kinds of waits: for the opening of a tree, for other workers
    /// and the log when a database opens or closes, and for the other processes in an
    /// [`exchange`](Cluster::exchange). 60 s by default. The value applies to trees and databases
    /// that are opened later. A wait for one line ends by the `deadline` of the
    /// configuration.
    pub fn with_patience(mut self, patience: Duration) -> Cluster {
        self.0.patience = patience;
        self
    }

    /// Sets the most virtual time of one run in a simulated cluster. 600 s by default. In real time
    /// a run has no such limit.
    pub fn with_limit(mut self, limit: Duration) -> Cluster {
        self.0.limit = limit;
        self
    }

    /// A tree by its name, with settings, which the program opens before a run. A tree with the
    /// default settings needs no such call: [`ClusterWorker::tree`] opens the tree.
    pub fn tree(&self, name: &str) -> NamedTree<'_> {
        NamedTree::new(&self.0, name)
    }

    /// A database by its name, with its tables and its log, which the program opens before a run.
    /// In the run, workers get the database by [`ClusterWorker::database`].
    pub fn database(&self, name: &str) -> NamedDatabase<'_> {
        NamedDatabase::new(&self.0, name)
    }

    /// The open database with this name, for questions about its losses and its health. Drop the
    /// value before [`close`](Cluster::close): the directory of the log stays in use until the
    /// value is dropped.
    pub fn instance(&self, name: &str) -> Option<Instance> {
        self.0.names.database(name)
    }

    /// Runs `body` on every worker of every compute node of this process. Returns the results in
    /// the order of the workers. While the body runs, all open databases are open on its worker. A
    /// program may run again for another phase: all workers end one phase before any begins the
    /// next.
    ///
    /// # Errors
    /// The first error of all workers, after all of them have ended. After a panic the cluster runs
    /// nothing any more: start a new one.
    pub fn run<T, F>(&self, body: F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: AsyncFn(ClusterWorker) -> Result<T> + Send + Sync + 'static,
    {
        self.0.run(body)
    }

    /// Waits until every process of the cluster has given a value under `name`, and returns the
    /// values in the order of the nodes. So this call ends a phase of all processes, and
    /// [`run`](Cluster::run) ends it on the workers of this process only. Each name is for one
    /// call. A cluster in one process returns the value at once.
    ///
    /// # Errors
    /// A process that has died, has left, or does not come within the
    /// [patience](Cluster::with_patience) of this process. A wrong name: it has at most 40 letters,
    /// digits, `.`, `_` and `-`.
    pub fn exchange(&self, name: &str, value: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.0.exchange(name, value)
    }

    /// Closes all databases: all appended log records are written, and another cluster can open the
    /// directories. A node of a cluster of processes then leaves its cluster.
    ///
    /// # Errors
    /// The first error of a log, also for the last commits that no caller waited for; those of
    /// `Joined::leave`.
    pub fn close(mut self) -> Result<()> {
        self.0.end()
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        &self.0.config
    }

    /// The counters of all workers of this process.
    pub fn counters(&self) -> Counters {
        self.0.nodes().iter().map(|node| node.counters()).sum()
    }

    /// The time of the cluster: real, or that of the simulated world.
    pub fn now(&self) -> Time {
        self.0.now()
    }

    /// The simulated world, with its faults, if the cluster is simulated.
    pub fn world(&self) -> Option<&Simulated> {
        self.0.world()
    }
}

impl From<Embedded> for Cluster {
    fn from(threads: Embedded) -> Cluster {
        Cluster(Running::new(threads.config().clone(), Process::Threads(Box::new(threads))))
    }
}

impl From<Simulated> for Cluster {
    fn from(world: Simulated) -> Cluster {
        Cluster(Running::new(world.config().clone(), Process::World(Box::new(world))))
    }
}

#[cfg(feature = "processes")]
impl From<Joined> for Cluster {
    fn from(joined: Joined) -> Cluster {
        Cluster(Running::new(joined.config().clone(), Process::Joined(Some(Box::new(joined)))))
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("config", &self.0.config).finish_non_exhaustive()
    }
}
