//! [`Cluster`]: a cluster on either fabric.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, ClusterError, Embedded, Member, Simulated};
use latchwork_runtime::Time;
use latchwork_selcc::{Counters, Node};
use latchwork_verbs_sim::{NicProfile, SimConfig};

use crate::progress::{self, Extent, Timekeeper, Title};
use crate::{AppError, ClusterFlags, FabricChoice, Phase};

/// Virtual time that one body may take: beyond every deadline, and out of reach of any real run.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A cluster in this process: threads in real time, or a simulated world in virtual time.
pub enum Cluster {
    /// Threads on shared memory.
    Embedded(Box<Embedded>),
    /// A simulated world.
    Simulated(Box<Simulated>),
}

impl Cluster {
    /// Starts the cluster.
    ///
    /// # Errors
    /// What is wrong with the configuration, or what the machine refused.
    pub fn start(config: ClusterConfig, fabric: &FabricChoice) -> Result<Cluster, ClusterError> {
        Ok(match fabric {
            FabricChoice::Shm => Cluster::Embedded(Embedded::start(config)?.into()),
            FabricChoice::Sim(nic) => {
                let network = SimConfig::nic(NicProfile::clone(nic));
                Cluster::Simulated(Simulated::start(config, network)?.into())
            }
        })
    }

    /// Runs `body` on every worker of every compute node, and returns the results in the order of the
    /// workers. On shared memory each worker is a thread; in a simulated world all run on this one.
    ///
    /// # Errors
    /// As [`Embedded::run`] and [`Simulated::run`].
    pub fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = T> + 'static,
    {
        match self {
            Cluster::Embedded(cluster) => cluster.run(body),
            Cluster::Simulated(cluster) => cluster.run(LIMIT, body),
        }
    }

    /// As [`run`](Cluster::run), of a phase of a program: shows how far it is, and fails with the first error of any worker.
    ///
    /// # Errors
    /// That of the phase; a worker without a result; as [`run`](Cluster::run).
    pub fn run_phase<T, F, Fut>(
        &self,
        title: Title,
        extent: Extent,
        phase: &Phase,
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        T: Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Option<T>> + 'static,
    {
        let time = match self {
            Cluster::Embedded(cluster) => Timekeeper::Real(cluster.clock()),
            Cluster::Simulated(_) => Timekeeper::Virtual(self.now()),
        };
        let ran = progress::show(title, extent, time, phase, || self.run(body));
        phase.end()?;
        let workers = ran.map_err(|error| ClusterFlags::cluster_error(self.config(), &error))?;
        let lost = || AppError::Failed("a worker ended without a result".to_owned());
        workers.into_iter().map(|worker| worker.ok_or_else(lost)).collect()
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        match self {
            Cluster::Embedded(cluster) => cluster.config(),
            Cluster::Simulated(cluster) => cluster.config(),
        }
    }

    /// The compute nodes.
    pub fn nodes(&self) -> &[Arc<Node>] {
        match self {
            Cluster::Embedded(cluster) => cluster.nodes(),
            Cluster::Simulated(cluster) => cluster.nodes(),
        }
    }

    /// What each compute node has counted so far.
    pub fn counters(&self) -> Vec<Counters> {
        self.nodes().iter().map(|node| node.counters()).collect()
    }

    /// The time now: what the workers' clocks show.
    pub fn now(&self) -> Time {
        match self {
            Cluster::Embedded(cluster) => cluster.clock().now(),
            Cluster::Simulated(cluster) => cluster.kernel().now(),
        }
    }

    /// The hash of all that has happened in a simulated world: the same flags give the same again.
    pub fn event_hash(&self) -> Option<u64> {
        match self {
            Cluster::Embedded(_) => None,
            Cluster::Simulated(cluster) => Some(cluster.kernel().event_hash()),
        }
    }
}
