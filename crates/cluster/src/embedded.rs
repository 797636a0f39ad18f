//! [`Embedded`]: a cluster on shared memory, all in this process.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use latchwork_fabric::{Fabric, Port, Threaded};
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_runtime::{Clock, Executor, Notifier, RealDriver};
use latchwork_selcc::{Counters, Node, Worker};
use latchwork_verbs_shm as shm;

use crate::ClusterConfig;
use crate::build::{Blueprint, ClusterError, Member, Nodes, handler_config, worker_config};

/// A cluster of memory nodes and compute nodes in one process, on shared memory: the embedded default.
///
/// Memory nodes are nothing but memory. Each compute node has a thread that sleeps until a message
/// arrives while none of the node's workers polls; workers are threads that [`run`](Embedded::run)
/// starts. Dropping the cluster ends the threads.
pub struct Embedded {
    config: ClusterConfig,
    clock: Clock,
    fabric: Threaded,
    nodes: Nodes,
    handlers: Vec<Handler>,
}

struct Handler {
    stop: Arc<AtomicBool>,
    notifier: Notifier,
    thread: Option<thread::JoinHandle<()>>,
}

impl Embedded {
    /// Starts the cluster.
    ///
    /// # Errors
    /// What is wrong with the configuration, or what the machine refused.
    pub fn start(config: ClusterConfig) -> Result<Embedded, ClusterError> {
        Embedded::start_on(config, Threaded::Shm(shm::Fabric::new(shm::Config::default())))
    }

    /// Starts the cluster on a fabric that has no nodes yet: all of its nodes are of this process, whatever is
    /// between them.
    ///
    /// # Errors
    /// As [`start`](Embedded::start).
    pub fn start_on(config: ClusterConfig, threaded: Threaded) -> Result<Embedded, ClusterError> {
        config.check()?;
        let clock = Clock::start();
        let fabric = Fabric::from(threaded.clone());
        let blueprint = Blueprint::new(&fabric, &config)?;
        let mut executor =
            Executor::new(RealDriver::with_clock(clock), worker_config(&config, usize::MAX));
        let handle = executor.handle();
        let port = Port::new(&fabric, blueprint.first(), &handle)?;
        handle.add_poller(port.poller());
        let nodes = executor.block_on(blueprint.build(&port, &config))?;
        if config.prefault {
            threaded.prefault();
            nodes.nodes.iter().for_each(|node| node.cache().arena().prefault());
        }
        let mut cluster = Embedded { config, clock, fabric: threaded, nodes, handlers: Vec::new() };
        for index in 0..cluster.nodes.nodes.len() {
            let handler = cluster.start_handler(index)?;
            cluster.handlers.push(handler);
        }
        Ok(cluster)
    }

    fn start_handler(&self, index: usize) -> Result<Handler, ClusterError> {
        let node = self.nodes.nodes[index].clone();
        let config = handler_config(&self.config, index);
        let (fabric, clock) = (self.fabric.clone(), self.clock);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (started, start) = mpsc::channel();
        let body = move || {
            let mut executor = Executor::new(RealDriver::with_clock(clock), config);
            let handle = executor.handle();
            let fabric = Fabric::from(fabric);
            let worker = Port::new(&fabric, node.id(), &handle).and_then(|port| {
                Ok(Worker::start_handler(&node, port, fabric.inbox(node.id())?, &handle))
            });
            match worker {
                Ok(_worker) => {
                    // The starter waits for this word.
                    let _ = started.send(Ok(handle.notifier()));
                    executor.run_until_stopped(&stopped);
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        };
        let name = format!("node{}-handler", index + 1);
        let thread = thread::Builder::new().name(name).spawn(body)?;
        let notifier = start.recv().map_err(|_| ClusterError::Panicked)??;
        Ok(Handler { stop, notifier, thread: Some(thread) })
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// The process's clock, which all workers share.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The compute nodes.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes.nodes
    }

    /// What all workers counted.
    pub fn counters(&self) -> Counters {
        self.nodes().iter().map(|node| node.counters()).sum()
    }

    /// Runs `body` on every worker of every compute node, each on a thread of its own, and returns
    /// the results in the order of the workers.
    ///
    /// # Errors
    /// When a thread could not be started, panicked, or could not leave in order.
    pub fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        self.run_on(self.config.workers, body)
    }

    /// As [`run`](Embedded::run), with this many workers on each node.
    ///
    /// # Errors
    /// As [`run`](Embedded::run).
    pub fn run_on<T, F, Fut>(&self, workers: usize, body: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        let body = &body;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for node in 0..self.nodes.nodes.len() {
                for worker in 0..workers {
                    let index = node * workers + worker;
                    let name = format!("node{}-worker{worker}", node + 1);
                    let thread = thread::Builder::new().name(name);
                    threads.push(
                        thread
                            .spawn_scoped(scope, move || self.work((node, worker, index), body))?,
                    );
                }
            }
            // Every thread is joined before the first error is returned.
            let ends: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            ends.into_iter().map(|end| end.unwrap_or(Err(ClusterError::Panicked))).collect()
        })
    }

    fn work<T, F, Fut>(&self, place: (usize, usize, usize), body: &F) -> Result<T, ClusterError>
    where
        F: Fn(Member) -> Fut,
        Fut: Future<Output = T>,
    {
        let driver = RealDriver::with_clock(self.clock);
        let mut config = worker_config(&self.config, place.2);
        config.sweep_tasks = self.config.sweep_tasks;
        let mut executor = Executor::new(driver, config);
        let handle = executor.handle();
        let fabric = Fabric::from(self.fabric.clone());
        let node = &self.nodes.nodes[place.0];
        let member = Member::start(&fabric, node, &self.nodes.pool, place, &handle)?;
        let memory = member.memory.clone();
        let result = executor.block_on(body(member));
        executor.block_on(memory.leave())?;
        Ok(result)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        for handler in &self.handlers {
            handler.stop.store(true, Ordering::Release);
            handler.notifier.notify();
        }
        for handler in &mut self.handlers {
            if let Some(thread) = handler.thread.take() {
                // A panic of the handler has been reported on standard error already.
                let _ = thread.join();
            }
        }
    }
}
