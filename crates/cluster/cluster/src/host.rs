//! [`Host`]: the threads of one process. Each compute node has a handler thread for its whole life.
//! Worker threads exist during a run.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use latchwork_engine::{Node, Worker};
use latchwork_memnode::Pool;
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_runtime::{Clock, Executor, ExecutorConfig, Notifier, RealDriver};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::ComputeNodeId;

use crate::ClusterConfig;
use crate::build::{
    ClusterError, Member, agent_config, handler_config, name_of_worker, worker_config,
};
use crate::ports::Ports;

/// The running compute nodes of this process. Dropping the host ends the handlers.
pub(crate) struct Host {
    pub(crate) config: ClusterConfig,
    pub(crate) clock: Clock,
    pub(crate) ports: Ports,
    pub(crate) pool: Pool,
    pub(crate) nodes: Vec<Arc<Node>>,
    /// The index of the first of these nodes among all compute nodes, from 0.
    pub(crate) first: usize,
    /// The agents of the memory nodes of this process.
    pub(crate) agents: Vec<Arc<Node>>,
    handlers: Vec<Handler>,
}

/// A thread that serves its node while none of the node's workers polls.
struct Handler {
    stop: Arc<AtomicBool>,
    notifier: Notifier,
    thread: Option<thread::JoinHandle<()>>,
}

impl Host {
    /// Starts the nodes' handlers.
    pub(crate) fn start(
        config: ClusterConfig,
        clock: Clock,
        ports: Ports,
        pool: Pool,
        (nodes, first): (Vec<Arc<Node>>, usize),
        agents: Vec<Arc<Node>>,
    ) -> Result<Host, ClusterError> {
        if config.prefault {
            ports.prefault();
            nodes.iter().for_each(|node| node.cache().arena().prefault());
        }
        let handlers = Vec::new();
        let mut host = Host { config, clock, ports, pool, nodes, first, agents, handlers };
        for index in 0..host.agents.len() {
            for core in 0..host.config.home_cores() {
                let agent = &host.agents[index];
                let memory = ComputeNodeId::MAX - agent.id().get();
                let (own, name) =
                    (agent_config(&host.config, core), format!("agent{memory}-{core}"));
                let handler = host.start_handler(agent, own, name)?;
                host.handlers.push(handler);
            }
        }
        for own in 0..host.nodes.len() {
            let index = host.first + own;
            let config = handler_config(&host.config, index);
            let name = format!("node{}-handler", index + 1);
            let handler = host.start_handler(&host.nodes[own], config, name)?;
            host.handlers.push(handler);
        }
        strict_assert!(!host.handlers.is_empty(), "a process without a node starts no threads");
        Ok(host)
    }

    fn start_handler(
        &self,
        node: &Arc<Node>,
        config: ExecutorConfig,
        name: String,
    ) -> Result<Handler, ClusterError> {
        let node = node.clone();
        let (ports, clock) = (self.ports.clone(), self.clock);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (started, start) = mpsc::channel();
        let body = move || {
            let mut executor = Executor::new(RealDriver::with_clock(clock), config);
            let handle = executor.handle();
            let worker = ports
                .of_worker(node.id(), &handle)
                .map(|(port, inbox)| Worker::start_handler(&node, port, inbox, &handle));
            match worker {
                Ok(_worker) => {
                    // The thread that starts the handler waits for this result.
                    let _ = started.send(Ok(handle.notifier()));
                    executor.run_until_stopped(&stopped);
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        };
        let thread = thread::Builder::new().name(name.clone()).spawn(body)?;
        let ended = |_| ClusterError::panicked(name, &"it did not start");
        let notifier = start.recv().map_err(ended)??;
        Ok(Handler { stop, notifier, thread: Some(thread) })
    }

    /// Runs `body` on `workers` workers of every compute node, each on its own thread. Returns the
    /// results in the order of the workers.
    pub(crate) fn run_on<T, F, Fut>(&self, workers: usize, body: F) -> Result<Vec<T>, ClusterError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        let body = &body;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for own in 0..self.nodes.len() {
                for worker in 0..workers {
                    let node = self.first + own;
                    let place = (node, worker, node * workers + worker);
                    let name = name_of_worker(node, worker);
                    let thread = thread::Builder::new().name(name.clone());
                    let thread = thread.spawn_scoped(scope, move || self.work(own, place, body))?;
                    threads.push((name, thread));
                }
            }
            // All threads are joined before an error is returned.
            let mut panicked = None;
            let mut ends = Vec::new();
            for (name, thread) in threads {
                match thread.join() {
                    Ok(end) => ends.push(end),
                    Err(payload) => {
                        panicked.get_or_insert(ClusterError::panicked(name, &*payload));
                    }
                }
            }
            // A panic is reported first, because the errors of other workers may follow from the
            // panic.
            strict_assert!(
                panicked.is_some() || ends.len() == workers * self.nodes.len(),
                "{} results of {workers} workers on each of {} nodes",
                ends.len(),
                self.nodes.len()
            );
            panicked.map_or_else(|| ends.into_iter().collect(), Err)
        })
    }

    fn work<T, F, Fut>(
        &self,
        own: usize,
        place: (usize, usize, usize),
        body: &F,
    ) -> Result<T, ClusterError>
    where
        F: Fn(Member) -> Fut,
        Fut: Future<Output = T>,
    {
        let driver = RealDriver::with_clock(self.clock);
        let mut config = worker_config(&self.config, place.2);
        config.sweep_tasks = self.config.sweep_tasks;
        let mut executor = Executor::new(driver, config);
        let handle = executor.handle();
        let node = &self.nodes[own];
        strict_assert_eq!(place.0, self.first + own, "the worker is one of another node");
        let way = self.ports.of_worker(node.id(), &handle)?;
        let member = Member::start(way, node, &self.pool, place, &handle);
        let memory = member.memory.clone();
        let result = executor.block_on(body(member));
        executor.block_on(memory.leave())?;
        Ok(result)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for handler in &self.handlers {
            handler.stop.store(true, Ordering::Release);
            handler.notifier.notify();
        }
        for handler in &mut self.handlers {
            if let Some(thread) = handler.thread.take() {
                // The panic of the handler was already printed on standard error.
                let _ = thread.join();
            }
        }
    }
}
