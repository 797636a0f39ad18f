//! [`Simulated`]: a cluster in virtual time, wholly on the calling thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_coherence::MemoryError;
use latchwork_engine::{Counters, Node, Truth, Worker};
use latchwork_fabric::{AnyFabric, Permission, Port};
use latchwork_peers::RecoveryStep;
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_runtime::{Handle, JoinHandle, Power, VirtualWorker, run_all, run_all_watched};
use latchwork_simulation::{Kernel, RunEnd, Ties};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne, strict_check};
use latchwork_verbs::{MemoryNodeId, SetupError};
use latchwork_verbs_sim as sim;

use crate::ClusterConfig;
use crate::build::{
    Blueprint, ClusterError, Member, Nodes, agent_config, build_node, handler_config,
    name_of_worker, new_cache, worker_config,
};
use crate::costs::cpu_costs;
use crate::protocol;
use crate::{reclaim, recover};

/// The most virtual time that the building of the pool may take.
const BUILD_LIMIT: Duration = Duration::from_secs(1);

/// A cluster in one simulated world. The nodes, the protocol and the contract of the fabric are
/// those of [`Embedded`](crate::Embedded). Time is virtual. One seed decides everything that the
/// contract of a fabric leaves open, so a run can be repeated.
pub struct Simulated {
    config: ClusterConfig,
    kernel: Kernel,
    fabric: AnyFabric,
    network: sim::SimFabric,
    nodes: Nodes,
    /// The nodes that have [joined](Simulated::join) under the ids of dead ones, by their indexes.
    successors: RefCell<BTreeMap<usize, Arc<Node>>>,
    handlers: RefCell<Vec<(VirtualWorker, Worker)>>,
    /// The handlers of nodes that others have replaced.
    replaced: RefCell<Vec<(VirtualWorker, Worker)>>,
    /// Whether the lease of each node is valid.
    leases: RefCell<Vec<Arc<AtomicBool>>>,
    /// The powers (control of the CPU) of all workers and handlers, each with the index of its
    /// node.
    powers: RefCell<Vec<(usize, Power)>>,
    dead: RefCell<Vec<bool>>,
    /// The number of nodes that have died or lost their lease.
    losses: Rc<Cell<u64>>,
    watch: RefCell<Option<WorldWatch>>,
}

/// Called after every event of a [run](Simulated::run).
pub type WorldWatch = Box<dyn FnMut(&Simulated)>;

/// A node of a simulated cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SimulatedNode {
    /// A compute node, by its index.
    Compute(usize),
    /// A memory node.
    Memory(MemoryNodeId),
}

impl Simulated {
    /// Builds the cluster in its own world, with the configuration's seed. If the network simulates
    /// a NIC profile, the CPU costs of the workers come from that profile.
    ///
    /// # Errors
    /// A wrong configuration, or the machine gives no memory.
    pub fn start(mut config: ClusterConfig, network: sim::SimConfig) -> Result<Self, ClusterError> {
        config.check()?;
        // A run with drawn timing searches for races, so the seed orders events of one instant. A
        // run with a NIC profile measures, so such events keep the order in which they were
        // scheduled.
        let ties = match network.timing {
            sim::Timing::Drawn(_) => Ties::Seeded,
            sim::Timing::Nic(_) => Ties::FirstCome,
        };
        if let sim::Timing::Nic(profile) = &network.timing {
            config.sweep_cost = Duration::from_nanos(profile.cpu.sweep_ns);
            config.node.costs.get_or_insert(cpu_costs(&profile.cpu));
        }
        let kernel = Kernel::with_ties(config.seed, ties);
        let network = sim::SimFabric::new(&kernel, network);
        let fabric = AnyFabric::from(network.clone());
        let blueprint = Blueprint::new(&fabric, &config)?;
        let builder = VirtualWorker::spawn(&kernel, worker_config(&config, usize::MAX));
        let handle = builder.handle();
        let port = Port::new(&fabric, blueprint.first(), &handle)?;
        let poller = port.poller();
        handle.add_poller(poller.clone());
        let build = {
            let (port, config) = (port.clone(), config.clone());
            async move { blueprint.build(&port, &config, true).await }
        };
        let nodes = builder.run(BUILD_LIMIT, build).map_err(world)??;
        handle.remove_poller(&poller);
        let leases: Vec<_> = nodes.nodes.iter().map(|_| Arc::new(AtomicBool::new(true))).collect();
        let mut handlers = Vec::new();
        let mut powers = Vec::new();
        for (index, node) in nodes.nodes.iter().enumerate() {
            let actor = VirtualWorker::spawn(&kernel, handler_config(&config, index));
            let handle = actor.handle();
            let port = Port::permitted(&fabric, node.id(), &handle, lasts(&leases[index]))?;
            let inbox = fabric.inbox(node.id())?;
            let worker = Worker::start_handler(node, port, inbox, &handle);
            powers.push((index, actor.power()));
            handlers.push((actor, worker));
        }
        let cores = 0..config.home_cores();
        let places = nodes.agents.iter().flat_map(|agent| cores.clone().map(move |c| (agent, c)));
        for (agent, core) in places {
            let actor = VirtualWorker::spawn(&kernel, agent_config(&config, core));
            actor.power().take_share(config.homes.home_share.get());
            let handle = actor.handle();
            let port = Port::new(&fabric, agent.id(), &handle)?;
            let inbox = fabric.inbox(agent.id())?;
            let worker = Worker::start_handler(agent, port, inbox, &handle);
            handlers.push((actor, worker));
        }
        let dead = RefCell::new(vec![false; nodes.nodes.len()]);
        let powers = RefCell::new(powers);
        let cluster = Simulated {
            config,
            kernel,
            fabric,
            network,
            nodes,
            successors: RefCell::default(),
            handlers: RefCell::new(handlers),
            replaced: RefCell::default(),
            leases: RefCell::new(leases),
            powers,
            dead,
            losses: Rc::default(),
            watch: RefCell::default(),
        };
        strict_check!(cluster);
        Ok(cluster)
    }

    /// Asserts what holds between any two events of the world.
    fn check(&self) {
        let nodes = self.nodes.nodes.len();
        let of_agents = self.nodes.agents.len() * usize::from(self.config.home_cores());
        assert_eq!(
            self.handlers.borrow().len(),
            nodes + of_agents,
            "a node or a core has no handler"
        );
        assert_eq!(self.leases.borrow().len(), nodes, "every node has a lease");
        assert_eq!(self.dead.borrow().len(), nodes, "every node lives or is dead");
        let powers = self.powers.borrow();
        assert!(powers.len() >= nodes, "the powers of the handlers are never removed");
        for (index, (node, power)) in powers.iter().take(nodes).enumerate() {
            assert_eq!(*node, index, "handlers come first, in the order of their nodes");
            assert!(!power.has_ended(), "the handler of node {node} has ended before its world");
        }
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// The world.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The fabric.
    pub fn fabric(&self) -> &AnyFabric {
        &self.fabric
    }

    /// The simulated fabric, with operations that only a simulated fabric has.
    pub fn network(&self) -> &sim::SimFabric {
        &self.network
    }

    /// The compute nodes with which the cluster has started.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes.nodes
    }

    /// The compute node that has the id of this index now.
    ///
    /// # Panics
    /// When there is no such index.
    pub fn node(&self, index: usize) -> Arc<Node> {
        let successors = self.successors.borrow();
        successors.get(&index).unwrap_or(&self.nodes.nodes[index]).clone()
    }

    /// The agents of the memory nodes, if the protocol has homes.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.agents.iter()
    }

    /// What the protocol itself says of the owners of lines, for checks.
    pub fn truth(&self) -> Box<dyn Truth> {
        let memory = |node| self.network.memory(MemoryNodeId(node)).expect("a memory node");
        let memories = (0..self.config.memory_nodes as u16).map(memory).collect();
        let geometry = self.nodes()[0].allocator().pool().geometry();
        let (protocol, survives) = (self.config.protocol, self.nodes()[0].survives());
        protocol::truth(protocol, geometry, memories, &self.nodes.homes, survives)
    }

    /// The sum of the counters of all workers, with those of the agents.
    pub fn counters(&self) -> Counters {
        let successors = self.successors.borrow();
        let all = self.nodes().iter().chain(self.agents()).chain(successors.values());
        all.map(|node| node.counters()).sum()
    }

    /// Runs `body` on every worker of every compute node until all have ended, for at most `limit`
    /// of virtual time. Returns the results in the order of the workers.
    ///
    /// # Errors
    /// [`ClusterError::World`] when the world ended before the workers; [`ClusterError::Leave`]
    /// when a worker could not leave gracefully.
    pub fn run<T, F, Fut>(&self, limit: Duration, body: F) -> Result<Vec<T>, ClusterError>
    where
        T: 'static,
        F: Fn(Member) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        self.run_on(self.config.workers, limit, body)
    }

    /// Like [`run`](Simulated::run), with `workers` workers on each node.
    ///
    /// # Errors
    /// Like [`run`](Simulated::run).
    pub fn run_on<T, F, Fut>(
        &self,
        workers: usize,
        limit: Duration,
        body: F,
    ) -> Result<Vec<T>, ClusterError>
    where
        T: 'static,
        F: Fn(Member) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let (_actors, tasks) = self.spawn(workers, body)?;
        let mut watch = self.watch.borrow_mut();
        let ends = match watch.as_mut() {
            None => run_all(&self.kernel, limit, tasks),
            Some(watch) => run_all_watched(&self.kernel, limit, tasks, || watch(self)),
        };
        let ends = ends.map_err(world)?;
        ends.into_iter().map(|end| end.map_err(ClusterError::from)).collect()
    }

    /// Sets the function that each later [`run`](Simulated::run) calls after every event, or
    /// removes that function. The function can read counters in the middle of a run. It must not
    /// call `set_watch`.
    pub fn set_watch(&self, watch: Option<WorldWatch>) {
        *self.watch.borrow_mut() = watch;
    }

    /// Like [`run`](Simulated::run), but calls `watch` after every event, and not the function of
    /// [`set_watch`](Simulated::set_watch). `watch` can check invariants at every step.
    ///
    /// # Errors
    /// Like [`run`](Simulated::run).
    pub fn run_watched<T, F, Fut>(
        &self,
        limit: Duration,
        body: F,
        mut watch: impl FnMut(&Self),
    ) -> Result<Vec<T>, ClusterError>
    where
        T: 'static,
        F: Fn(Member) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let (_actors, tasks) = self.spawn(self.config.workers, body)?;
        let end = self.kernel.run_until(self.kernel.now() + limit, || {
            watch(self);
            tasks.iter().all(JoinHandle::is_finished)
        });
        if end != RunEnd::Done {
            return Err(world(end));
        }
        let workers = self.config.workers;
        let end_of = |(index, task): (usize, &JoinHandle<_>)| {
            let end = task.take().and_then(Result::ok);
            let name = || name_of_worker(index / workers, index % workers);
            Ok(end.ok_or_else(|| ClusterError::panicked(name(), &"its task was dropped"))??)
        };
        tasks.iter().enumerate().map(end_of).collect()
    }

    fn spawn<T, F, Fut>(&self, workers: usize, body: F) -> Result<Spawned<T>, ClusterError>
    where
        T: 'static,
        F: Fn(Member) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let body = Rc::new(body);
        let mut actors = Vec::new();
        let mut tasks = Vec::new();
        for node in 0..self.nodes.nodes.len() {
            for worker in 0..workers {
                let index = node * workers + worker;
                let (actor, member) = self.start_worker((node, worker, index))?;
                let handle = actor.handle();
                let body = body.clone();
                // A service does not count towards the worker's depth, so the worker's own tasks
                // have it all.
                tasks.push(handle.spawn_service(async move {
                    let memory = member.memory.clone();
                    let result = body(member).await;
                    memory.leave().await.map(|()| result)
                }));
                actors.push(actor);
            }
        }
        Ok((actors, tasks))
    }

    /// Starts one worker, for code that steps the world itself. `place` has the index of the node,
    /// of the worker on its node, and of the worker in the cluster, each from 0. Await
    /// [`Worker::leave`] before the worker is dropped.
    ///
    /// # Errors
    /// [`ClusterError::Setup`]: a refusal of the fabric.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn start_worker(
        &self,
        place: (usize, usize, usize),
    ) -> Result<(VirtualWorker, Member), ClusterError> {
        let actor = VirtualWorker::spawn(&self.kernel, worker_config(&self.config, place.2));
        let mut powers = self.powers.borrow_mut();
        powers.retain(|(_, power)| !power.has_ended());
        powers.push((place.0, actor.power()));
        strict_assert!(place.0 < self.nodes.nodes.len(), "a worker of node {}", place.0);
        if self.is_dead(place.0) {
            actor.power().stop();
        }
        let node = self.node(place.0);
        let handle = actor.handle();
        let port = self.port(place.0, &handle)?;
        let way = (port, self.fabric.inbox(node.id())?);
        let member = Member::start(way, &node, &self.nodes.pool, place, &handle);
        Ok((actor, member))
    }

    // ---- faults of whole nodes ------------------------------------------------------------------

    /// Takes the CPU from all workers and the handler of a compute node for `duration` of virtual
    /// time. Verbs in flight continue, from and to the node. The node does not notice the pause.
    pub fn pause(&self, node: usize, duration: Duration) {
        self.with_powers(node, |power| power.stop_for(duration));
    }

    /// Crashes a compute node. Its workers never run again. Its requests that have not begun never
    /// begin, and verbs to the node fail. The other nodes are not notified.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn kill(&self, node: usize) {
        let id = self.nodes()[node].id();
        self.network.kill(id).expect("a node of this fabric");
        self.losses.update(|losses| losses + 1);
        self.dead.borrow_mut()[node] = true;
        self.with_powers(node, Power::stop);
        strict_check!(self);
    }

    /// Whether a compute node was killed.
    pub fn is_dead(&self, node: usize) -> bool {
        self.dead.borrow().get(node).is_some_and(|dead| *dead)
    }

    /// Crashes a compute node like [`kill`](Simulated::kill), but its submitted requests stay in
    /// flight. They take effect at every node that has not [fenced](Simulated::fence) the dead
    /// node.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn silence(&self, node: usize) {
        let id = self.nodes()[node].id();
        self.network.disconnect(id).expect("a node of this fabric");
        self.losses.update(|losses| losses + 1);
        self.dead.borrow_mut()[node] = true;
        self.with_powers(node, Power::stop);
        strict_check!(self);
    }

    /// Ends the lease of a compute node while the node runs. From now on the node rings no
    /// doorbell. Work requests that its workers post end with
    /// [`VerbError::SelfFenced`](latchwork_verbs::VerbError::SelfFenced). Its submitted requests
    /// stay in flight. The other nodes are not notified.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn lapse(&self, node: usize) {
        self.leases.borrow()[node].store(false, Ordering::Relaxed);
        self.losses.update(|losses| losses + 1);
    }

    /// Whether the lease of a compute node has ended. Such a node counts as dead for the other
    /// nodes, although its workers run.
    pub fn has_lapsed(&self, node: usize) -> bool {
        self.leases.borrow().get(node).is_some_and(|lease| !lease.load(Ordering::Relaxed))
    }

    /// Whether a compute node is still a member: it was not killed, and its lease has not ended.
    pub fn lives(&self, node: usize) -> bool {
        node < self.nodes().len() && !self.is_dead(node) && !self.has_lapsed(node)
    }

    /// Makes the node `by` fence a dead node from now on.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn fence(&self, by: SimulatedNode, dead: usize) {
        strict_assert!(!self.lives(dead), "node {dead} lives, and {by:?} fences it");
        let dead = self.nodes()[dead].id();
        let fenced = match by {
            SimulatedNode::Compute(node) => self.network.keep_out(self.nodes()[node].id(), dead),
            SimulatedNode::Memory(node) => self.network.fence_memory_node(node, dead),
        };
        fenced.expect("a node of this fabric");
        if let SimulatedNode::Memory(node) = by
            && let Some(agent) = self.nodes.agents.get(usize::from(node.0))
        {
            // The agent is in the process of the memory node, so nothing of the dead node reaches
            // the memory any more.
            let id = agent.id();
            let told =
                self.network.keep_out(id, dead).and_then(|()| self.network.remove_peer(id, dead));
            told.expect("an agent of this fabric");
            agent.miss(dead);
        }
    }

    /// Makes a compute node forget a dead node, in the order of a cluster of processes. First the
    /// fabric of the node removes the peer. Then every wait of the node for an answer of the dead
    /// node ends.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn forget(&self, node: usize, dead: usize) {
        strict_assert_ne!(node, dead, "a node forgets itself");
        let (own, dead) = (self.node(node), self.nodes()[dead].id());
        self.network.remove_peer(own.id(), dead).expect("a node of this fabric");
        own.miss(dead);
    }

    /// Makes a compute node reclaim a dead node: empty the dead node's epoch slot. Every member
    /// must have fenced the dead node before. The returned task says whether the slot is empty.
    ///
    /// # Errors
    /// [`SetupError::TooManyRegions`] and [`SetupError::Region`].
    ///
    /// # Panics
    /// When there is no such node.
    pub fn reclaim(&self, node: usize, dead: usize) -> Result<JoinHandle<bool>, SetupError> {
        strict_assert!(!self.lives(dead), "node {dead} lives, and loses its epoch slot");
        strict_assert_ne!(node, dead, "a dead node reclaims itself");
        let (own, dead) = (self.node(node), self.node(dead));
        let handle = self.handlers.borrow()[node].0.handle();
        let port = self.port(node, &handle)?;
        Ok(handle.clone().spawn_service(async move {
            let poller = port.poller();
            handle.add_poller(poller.clone());
            let done = reclaim::empty_slot(&port, &handle, dead.id()).await;
            handle.remove_poller(&poller);
            if done && own.survives() {
                own.end_before(dead.id(), dead.member_epoch() + 1);
            }
            done
        }))
    }

    /// Makes a compute node take a step of the recovery from the death of the node `dead`, after
    /// `delay`, in the order of [`Peers`](latchwork_peers::Peers). The returned task says whether
    /// the step is over. It also ends when another node dies or loses its lease.
    ///
    /// # Errors
    /// [`SetupError::TooManyRegions`] and [`SetupError::Region`].
    ///
    /// # Panics
    /// When there is no such node.
    pub fn recover(
        &self,
        node: usize,
        (step, dead): (RecoveryStep, usize),
        delay: Duration,
    ) -> Result<JoinHandle<bool>, SetupError> {
        strict_assert!(!self.lives(dead), "node {dead} lives, and is recovered");
        let (own, dead) = (self.node(node), self.nodes()[dead].id());
        let handle = self.handlers.borrow()[node].0.handle();
        let port = self.port(node, &handle)?;
        let (losses, known) = (self.losses.clone(), self.losses.get());
        Ok(handle.clone().spawn_service(async move {
            let goes_on = || losses.get() == known;
            let poller = port.poller();
            handle.add_poller(poller.clone());
            handle.sleep(delay).await;
            let swept = recover::Swept::default();
            let done = recover::take(step, &own, (&port, &handle), dead, &swept, &goes_on).await;
            handle.remove_poller(&poller);
            done
        }))
    }

    /// Lets a compute node take these dead nodes out of the words of lines that its accesses wait
    /// for, and no other node.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn let_mend(&self, node: usize, dead: impl IntoIterator<Item = usize>) {
        self.node(node).let_mend(dead.into_iter().map(|dead| self.nodes()[dead].id()));
    }

    /// Starts to build a node that takes the id of a dead one, with a higher member epoch. The id
    /// is free: the others have recovered the lines of the dead node and have reclaimed it. What
    /// runs of the dead node ends. The returned task has the node, which touches no line before it
    /// [joins](Simulated::join).
    ///
    /// # Errors
    /// A refusal of the fabric, or the machine gives no memory.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn replace(&self, dead: usize, epoch: u64) -> Result<Building, ClusterError> {
        strict_assert!(!self.lives(dead), "node {dead} lives, and is replaced");
        let before = self.node(dead);
        strict_assert!(epoch > before.member_epoch(), "two nodes have one signature");
        let (id, config) = (before.id(), self.config.clone());
        self.with_powers(dead, Power::stop);
        self.dead.borrow_mut()[dead] = true;
        // A node that has only lost its lease is stopped with its connections.
        self.network.disconnect(id)?;
        self.network.replace(id)?;
        for memory in 0..config.memory_nodes as u16 {
            self.network.admit_at_memory_node(MemoryNodeId(memory), id)?;
        }
        let (cache, arena) = new_cache(&self.fabric, &config, id)?;
        strict_assert_eq!(arena, before.arena(), "nodes forward lines under one key");
        self.leases.borrow_mut()[dead] = Arc::new(AtomicBool::new(true));
        let actor = VirtualWorker::spawn(&self.kernel, handler_config(&config, dead));
        let (handle, pool) = (actor.handle(), self.nodes.pool.clone());
        let port = self.port(dead, &handle)?;
        let build = {
            let handle = handle.clone();
            async move {
                let poller = port.poller();
                handle.add_poller(poller.clone());
                let node = build_node(&pool, &port, &config, (id, cache, arena)).await?;
                node.set_member_epoch(epoch);
                handle.remove_poller(&poller);
                Ok(node)
            }
        };
        Ok(Building { actor, node: handle.spawn_service(build) })
    }

    /// Makes a node that was [built](Simulated::replace) the one of the index `dead`. From now on
    /// it handles messages, and [workers](Simulated::start_worker) can start. The other nodes have
    /// to [admit](Simulated::admit) it before that.
    ///
    /// # Errors
    /// The error of the building, or a refusal of the fabric.
    ///
    /// # Panics
    /// When the building is not over.
    pub fn join(&self, dead: usize, building: Building) -> Result<(), ClusterError> {
        let Building { actor, node } = building;
        let built = node.take().expect("the building is over");
        let node =
            built.map_err(|_| ClusterError::World("the building has no end".to_owned()))??;
        let handle = actor.handle();
        let (port, inbox) = (self.port(dead, &handle)?, self.fabric.inbox(node.id())?);
        let handler = Worker::start_handler(&node, port, inbox, &handle);
        // The powers of the handlers come first. Those of the dead node's workers are of no use.
        let mut powers = self.powers.borrow_mut();
        let workers = powers.split_off(self.nodes.nodes.len());
        powers.extend(workers.into_iter().filter(|(of, _)| *of != dead));
        powers[dead] = (dead, actor.power());
        drop(powers);
        let before = std::mem::replace(&mut self.handlers.borrow_mut()[dead], (actor, handler));
        self.replaced.borrow_mut().push(before);
        self.successors.borrow_mut().insert(dead, node);
        self.dead.borrow_mut()[dead] = false;
        strict_check!(self);
        Ok(())
    }

    /// Makes the node `by` admit the node that takes the id of the node `dead`.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn admit(&self, by: SimulatedNode, dead: usize, epoch: u64) {
        let id = self.nodes()[dead].id();
        let admitted = match by {
            SimulatedNode::Memory(memory) => self.network.admit_at_memory_node(memory, id),
            SimulatedNode::Compute(node) => {
                let own = self.node(node);
                strict_assert!(!own.recovers_from(id), "node {node} is not done with {id:?}");
                own.forget(id);
                own.end_before(id, epoch);
                self.network.admit(own.id(), id)
            }
        };
        admitted.expect("a node of this fabric");
    }

    fn port(&self, node: usize, handle: &Handle) -> Result<Rc<Port>, SetupError> {
        let permission = lasts(&self.leases.borrow()[node]);
        Port::permitted(&self.fabric, self.nodes()[node].id(), handle, permission)
    }

    /// Slows a compute node and its NIC down by the factor `times`. The normal speed is 1.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn slow_down(&self, node: usize, times: u32) {
        let id = self.nodes()[node].id();
        self.network.slow_down(id, times).expect("a node of this fabric");
        self.with_powers(node, |power| power.slow_down(times));
    }

    /// Crashes a memory node: verbs to it fail, and its content is lost.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn lose_memory_node(&self, node: MemoryNodeId) -> Result<(), SetupError> {
        self.network.lose_memory_node(node)
    }

    /// The CPU time of each worker that exists now, with the index of its node.
    pub(crate) fn worked(&self) -> Vec<(usize, Duration)> {
        let powers = self.powers.borrow();
        // The powers of the nodes' handlers come first, and no handler ends.
        let handlers = self.nodes.nodes.len();
        strict_assert!(powers.len() >= handlers, "the power of a handler is gone");
        let there = powers.iter().skip(handlers).filter(|(_, power)| !power.has_ended());
        there.map(|(node, power)| (*node, power.worked())).collect()
    }

    /// The CPU time of each core of each agent, with the index of its memory node.
    pub(crate) fn agents_worked(&self) -> Vec<(usize, Duration)> {
        let (nodes, cores) = (self.nodes.nodes.len(), usize::from(self.config.home_cores()));
        let handlers = self.handlers.borrow();
        let of_agents = handlers.iter().skip(nodes).enumerate();
        of_agents.map(|(at, (actor, _))| (at / cores, actor.power().worked())).collect()
    }

    fn with_powers(&self, node: usize, act: impl Fn(&Power)) {
        let powers = self.powers.borrow();
        powers.iter().filter(|(of, _)| *of == node).for_each(|(_, power)| act(power));
    }

    /// Runs the world for `time` of virtual time, so that messages in flight arrive.
    pub fn settle(&self, time: Duration) {
        self.kernel.run_until(self.kernel.now() + time, || false);
    }
}

/// A node that is being built under the id of a dead one.
pub struct Building {
    actor: VirtualWorker,
    node: JoinHandle<Result<Arc<Node>, ClusterError>>,
}

impl Building {
    /// Whether the node can [join](Simulated::join).
    pub fn is_over(&self) -> bool {
        self.node.is_finished()
    }
}

/// The workers of a run, which run as long as their values exist, and the tasks of the run.
type Spawned<T> = (Vec<VirtualWorker>, Vec<JoinHandle<Result<T, MemoryError>>>);

/// A permission that is valid as long as the lease is.
fn lasts(lease: &Arc<AtomicBool>) -> Permission {
    let lease = Arc::clone(lease);
    Permission::while_it(move || lease.load(Ordering::Relaxed))
}

fn world(end: RunEnd) -> ClusterError {
    ClusterError::World(format!("{end:?}"))
}
