//! [`Running`]: the compute nodes of this process, with the names that it has opened.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Node;
use latchwork_cluster::{ClusterConfig, ClusterError, Embedded, Member, Simulated};
#[cfg(feature = "processes")]
use latchwork_cluster::{JoinError, Joined};
use latchwork_database::{Instance, with_open};
use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;
use latchwork_strict::strict_assert_eq;

use super::error::{Error, Result};
use super::names::Names;
use super::worker::ClusterWorker;

/// The default of [`Cluster::with_patience`](super::Cluster::with_patience).
const PATIENCE: Duration = Duration::from_secs(60);
/// The default of [`Cluster::with_limit`](super::Cluster::with_limit).
const LIMIT: Duration = Duration::from_secs(600);

/// A cluster that has started. The drop of this value closes the cluster.
pub(super) struct Running {
    pub(super) config: ClusterConfig,
    pub(super) patience: Duration,
    pub(super) limit: Duration,
    pub(super) names: Arc<Names>,
    /// The panic of an earlier run.
    failed: Mutex<Option<String>>,
    process: Process,
}

/// The compute nodes of this process.
pub(super) enum Process {
    Threads(Box<Embedded>),
    World(Box<Simulated>),
    /// `None` after the leave.
    #[cfg(feature = "processes")]
    Joined(Option<Box<Joined>>),
}

impl Running {
    pub(super) fn new(config: ClusterConfig, process: Process) -> Running {
        let (names, failed) = (Arc::default(), Mutex::default());
        Running { config, patience: PATIENCE, limit: LIMIT, names, failed, process }
    }

    /// Runs `body` on every worker, unless an earlier run has panicked.
    pub(super) fn run<T, F>(&self, body: F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: AsyncFn(ClusterWorker) -> Result<T> + Send + Sync + 'static,
    {
        if let Some(cause) = self.failed.lock().clone() {
            return Err(Error::Failed { cause });
        }
        let end = self.run_phase(body);
        if let Err(error @ Error::Cluster(ClusterError::Panicked { .. })) = &end {
            self.failed.lock().get_or_insert_with(|| error.to_string());
        }
        end
    }

    fn run_phase<T, F>(&self, body: F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: AsyncFn(ClusterWorker) -> Result<T> + Send + Sync + 'static,
    {
        let databases = self.names.databases();
        for database in &databases {
            database.begin(self.nodes())?;
        }
        let phase = Phase { databases, names: self.names.clone(), patience: self.patience };
        let ends = match &self.process {
            Process::Threads(threads) => {
                threads.run(async |member| phase.work(member, &body).await)?
            }
            Process::World(world) => {
                let shared = Rc::new((phase, body));
                world.run(self.limit, move |member| {
                    let shared = shared.clone();
                    async move { shared.0.work(member, &shared.1).await }
                })?
            }
            #[cfg(feature = "processes")]
            Process::Joined(joined) => {
                let joined = joined.as_ref().ok_or(JoinError::LeaseLost)?;
                joined.run(async |member| phase.work(member, &body).await)?
            }
        };
        strict_assert_eq!(
            ends.len(),
            self.nodes().len() * self.config.workers,
            "every worker of this process has a result"
        );
        first_error(ends)
    }

    /// The values that all processes have given under `name`, in the order of the nodes.
    pub(super) fn exchange(&self, name: &str, value: &[u8]) -> Result<Vec<Vec<u8>>> {
        match &self.process {
            Process::Threads(_) | Process::World(_) => {
                tracing::trace!(name, "an exchange of one process");
                Ok(vec![value.to_vec()])
            }
            #[cfg(feature = "processes")]
            Process::Joined(joined) => {
                let joined = joined.as_ref().ok_or(JoinError::LeaseLost)?;
                // The start and the leave of a node have exchanges with names of their own.
                let name = format!("program-{name}");
                Ok(joined.group().exchange(&name, value, self.patience)?)
            }
        }
    }

    /// Closes the databases, and leaves a cluster of processes.
    pub(super) fn end(&mut self) -> Result<()> {
        let closed = self.names.close();
        // After a panic the node does not leave, because its lines may be locked. So the node is
        // dead for its peers.
        #[cfg(feature = "processes")]
        if let Process::Joined(joined) = &mut self.process
            && let Some(joined) = joined.take()
            && self.failed.lock().is_none()
            && !std::thread::panicking()
        {
            let left = joined.leave().map_err(Error::from);
            return closed.and(left);
        }
        closed
    }

    pub(super) fn now(&self) -> Time {
        match &self.process {
            Process::Threads(threads) => threads.clock().now(),
            Process::World(world) => world.kernel().now(),
            #[cfg(feature = "processes")]
            Process::Joined(joined) => {
                joined.as_ref().map_or(Time::ZERO, |joined| joined.clock().now())
            }
        }
    }

    pub(super) fn world(&self) -> Option<&Simulated> {
        match &self.process {
            Process::World(world) => Some(world),
            _ => None,
        }
    }

    /// The indexes of this process's compute nodes. `None` if this process has all compute nodes.
    pub(super) fn nodes_here(&self) -> Option<Range<usize>> {
        match &self.process {
            Process::Threads(_) | Process::World(_) => None,
            #[cfg(feature = "processes")]
            Process::Joined(joined) => {
                let first = joined.as_ref().map_or(0, |joined| joined.group().rank());
                Some(first..first + 1)
            }
        }
    }

    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        match &self.process {
            Process::Threads(threads) => threads.nodes(),
            Process::World(world) => world.nodes(),
            #[cfg(feature = "processes")]
            Process::Joined(joined) => joined.as_ref().map_or(&[], |joined| joined.nodes()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `close`, this call has no effect.
        if let Err(error) = self.end() {
            tracing::error!(%error, "the cluster was not closed");
        }
    }
}

/// One run on all workers.
struct Phase {
    databases: Vec<Instance>,
    names: Arc<Names>,
    patience: Duration,
}

impl Phase {
    async fn work<T>(
        &self,
        member: Member,
        body: &impl AsyncFn(ClusterWorker) -> Result<T>,
    ) -> Result<T> {
        let run = async |opened: &[_]| {
            let worker =
                ClusterWorker::new(member.clone(), self.names.clone(), self.patience, opened);
            let end = Box::pin(body(worker.clone())).await;
            // An error of the body is reported before an error of the end.
            let closed = worker.close().await;
            let result = end?;
            closed.map(|()| result)
        };
        Box::pin(with_open(&self.databases, &member, run)).await?
    }
}

/// The results of all workers, or one error. A panic comes first, then the first error that does
/// not only repeat the error of another worker.
fn first_error<T>(ends: Vec<Result<T>>) -> Result<Vec<T>> {
    let (workers, mut results, mut errors) = (ends.len(), Vec::new(), Vec::new());
    for end in ends {
        match end {
            Ok(result) => results.push(result),
            Err(error) => errors.push(error),
        }
    }
    strict_assert_eq!(results.len() + errors.len(), workers, "the end of a worker is lost");
    let rank = |error: &Error| match error {
        Error::Cluster(ClusterError::Panicked { .. }) => 0,
        error if error.is_echo() => 2,
        _ => 1,
    };
    // Of equal ranks, the error of the first worker.
    errors.into_iter().min_by_key(rank).map_or(Ok(results), Err)
}
