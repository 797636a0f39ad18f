//! [`Embedded`]: a cluster on shared memory in this process.

use std::future::Future;
use std::sync::Arc;

use latchwork_engine::{Counters, Node};
use latchwork_fabric::{AnyFabric, Port, Threaded};
use latchwork_runtime::{Clock, Executor, RealDriver};
use latchwork_verbs_shm as shm;

use crate::ClusterConfig;
use crate::build::{Blueprint, ClusterError, Member, Nodes, worker_config};
use crate::config::check_threads;
use crate::host::Host;
use crate::ports::Ports;

/// A cluster of memory nodes and compute nodes in one process, on shared memory. Programs that
/// embed Latchwork use this cluster by default.
///
/// A memory node is only memory. Each compute node has a handler thread. While none of the node's
/// workers polls, the handler sleeps until a message arrives. Workers are threads that
/// [`run`](Embedded::run) starts. Dropping the cluster ends the handler threads.
pub struct Embedded(Host);

impl Embedded {
    /// Starts the cluster.
    ///
    /// # Errors
    /// A wrong configuration, or the machine gives no memory or no thread.
    pub fn start(config: ClusterConfig) -> Result<Embedded, ClusterError> {
        Embedded::start_on(config, Threaded::Shm(shm::ShmFabric::new(shm::ShmConfig::default())))
    }

    /// Starts the cluster on an empty fabric of any kind. All nodes are in this process.
    ///
    /// # Errors
    /// Like [`start`](Embedded::start).
    pub fn start_on(config: ClusterConfig, threaded: Threaded) -> Result<Embedded, ClusterError> {
        config.check()?;
        check_threads(&config)?;
        let clock = Clock::start();
        let fabric = AnyFabric::from(threaded.clone());
        let blueprint = Blueprint::new(&fabric, &config)?;
        let mut executor =
            Executor::new(RealDriver::with_clock(clock), worker_config(&config, usize::MAX));
        let handle = executor.handle();
        let port = Port::new(&fabric, blueprint.first(), &handle)?;
        handle.add_poller(port.poller());
        let nodes = executor.block_on(blueprint.build(&port, &config, false))?;
        let Nodes { pool, nodes, agents, .. } = nodes;
        Ok(Embedded(Host::start(config, clock, Ports::new(threaded), pool, (nodes, 0), agents)?))
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        &self.0.config
    }

    /// The clock of the process, which all workers share.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// The compute nodes.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.0.nodes
    }

    /// The agents of the memory nodes, if the protocol has homes.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.0.agents.iter()
    }

    /// The sum of the counters of all workers, with those of the agents.
    pub fn counters(&self) -> Counters {
        self.nodes().iter().chain(self.agents()).map(|node| node.counters()).sum()
    }

    /// Runs `body` on every worker of every compute node, each on its own thread. Returns the
    /// results in the order of the workers.
    ///
    /// # Errors
    /// A thread that could not be started, that panicked, or that could not leave gracefully.
    pub fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        self.run_on(self.0.config.workers, body)
    }

    /// Like [`run`](Embedded::run), with `workers` workers on each node.
    ///
    /// # Errors
    /// Like [`run`](Embedded::run).
    pub fn run_on<T, F, Fut>(&self, workers: usize, body: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        self.0.run_on(workers, body)
    }
}
