//! [`Joined`]: one compute node of a cluster of processes.
//!
//! ```text
//!   process of memory node 0        process of compute node 3                    another compute node
//!   MemoryHost ─ memory, agent      Joined ─ Host: handler, workers, cache        Joined
//!        │                             │                                             │
//!        └──── Membership ─────────────┼──────────────── store ──────────────────────┘
//!               ids, leases            │
//!                                      └─ Introductions: nodes know each other before they act
//! ```

pub(crate) mod agents;
mod error;
mod follower;
mod group;
mod leaving;
mod peer_tracker;
mod reclaims;
mod recoveries;
mod reports;
mod start_patience;
mod withdraw;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_engine::{Counters, Node, NodeParts};
use latchwork_fabric::AnyFabric;
use latchwork_homes::HomePlace;
use latchwork_membership::{Membership, MembershipError, NodeIncarnation, NodeName, Role, View};
use latchwork_memnode::{Epochs, LineAllocator, Pool};
use latchwork_runtime::{Clock, Executor, RealDriver, Time};
use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::build::{Member, worker_config};
use crate::config::check_processes;
use crate::host::Host;
use crate::journal::give_journal;
use crate::ports::Ports;
use crate::protocol::new_node;
use crate::transport::{Link, Transport, machine};
use crate::{ClusterConfig, ConfigError};

pub use error::JoinError;
pub use group::NodeGroup;
pub(crate) use peer_tracker::{Introductions, lost_memory};
pub use recoveries::NodeRecovery;
pub use reports::is_free;
pub use start_patience::{StartPatience, StartWait};

/// The longest time between two checks whether the memory nodes are formatted.
const LOOK: Duration = Duration::from_millis(200);

/// The compute node of this process, with its handler, in a cluster of processes. Peers and memory
/// nodes are other processes.
///
/// [`leave`](Joined::leave) ends the node gracefully. A node that is dropped without a leave is
/// dead for its peers. The dead node stays the owner of its lines.
pub struct Joined {
    host: Host,
    is_one_host: bool,
    // The link also holds the listener, if the transport has one.
    _link: Link,
    epochs: Arc<Epochs>,
    group: NodeGroup,
    introductions: Introductions,
    /// When all nodes of the group had come, on the clock of the recoveries and on that of the
    /// workers.
    began: [Time; 2],
    // Dropped last, because other nodes must not share memory of a node that is already dead.
    membership: Mortal,
}

/// A membership that ends its node at once, without a graceful leave, when it is dropped.
pub(crate) struct Mortal(pub(crate) Membership);

impl Drop for Mortal {
    fn drop(&mut self) {
        self.0.die();
    }
}

impl Joined {
    /// Joins as the compute node of `membership`, together with the other compute nodes of the
    /// configuration. All of them start within the limit of `patience`, with the same
    /// configuration. One compute node formats the memory nodes: the node that decides the fact for
    /// this first. The other nodes use the pool as it is. A node that cannot start leaves the
    /// cluster.
    ///
    /// # Errors
    /// A wrong configuration; another node that did not come or did not format in time; a refusal
    /// by the machine or by a peer; an error of the store.
    pub fn start<'a>(
        config: ClusterConfig,
        transport: &Transport,
        membership: Membership,
        patience: impl Into<StartPatience<'a>>,
    ) -> Result<Joined, JoinError> {
        let mortal = Mortal(membership);
        match Begun::begin(config, transport, &mortal.0, patience.into()) {
            Ok(Begun { host, is_one_host, link, epochs, group, introductions }) => {
                let (membership, _link) = (mortal, link);
                let began = [introductions.recoveries().now(), host.clock.now()];
                Ok(Joined {
                    host,
                    is_one_host,
                    _link,
                    epochs,
                    group,
                    introductions,
                    began,
                    membership,
                })
            }
            Err(error) => {
                // The node owns nothing that another node could miss. If the leave fails too, the
                // drop of `mortal` makes the node dead.
                let _ = mortal.0.leave();
                Err(error)
            }
        }
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        &self.host.config
    }

    /// The clock of this process's workers. If all nodes of the group are on [one
    /// machine](Joined::is_one_host), this is the machine's clock. Otherwise each node starts its
    /// own clock when all nodes of the group have come.
    pub fn clock(&self) -> Clock {
        self.host.clock
    }

    /// Whether all nodes of the group are on one machine. False when a node cannot identify its
    /// machine.
    pub fn is_one_host(&self) -> bool {
        self.is_one_host
    }

    /// This process's compute node.
    pub fn node(&self) -> &Arc<Node> {
        strict_assert_eq!(self.host.nodes.len(), 1, "a process has one compute node");
        &self.host.nodes[0]
    }

    /// This process's compute node, as a slice of one.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.host.nodes
    }

    /// The counters of this process's workers.
    pub fn counters(&self) -> Counters {
        self.node().counters()
    }

    /// The compute nodes that started together with this one.
    pub fn group(&self) -> &NodeGroup {
        &self.group
    }

    /// The recoveries from the deaths of compute nodes, as far as this node knows of them. A
    /// cluster without recovery has deaths here that were only fenced.
    pub fn recoveries(&self) -> Vec<NodeRecovery> {
        self.introductions.recoveries().since(self.began[0])
    }

    /// When all nodes of the group had come, on the clock of the workers.
    pub fn began(&self) -> Time {
        self.began[1]
    }

    /// This node's membership.
    pub fn membership(&self) -> &Membership {
        &self.membership.0
    }

    /// Runs `body` on every worker of this process's node, each on its own thread. Returns the
    /// results in the order of the workers. A worker's [`Member`] has the worker's index among the
    /// workers of the whole group.
    ///
    /// # Errors
    /// A thread that could not be started, that panicked, or that could not leave gracefully.
    /// [`JoinError::LeaseLost`] when the node was not a member at the start or at the end of the
    /// run.
    pub fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, JoinError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        if !self.is_member() {
            return Err(JoinError::LeaseLost);
        }
        let end = self.host.run_on(self.host.config.workers, body);
        // A lost lease explains every failure of a worker. It also makes every result worthless.
        if self.is_member() { Ok(end?) } else { Err(JoinError::LeaseLost) }
    }

    /// Whether the node's lease is certainly valid. Without a valid lease the node is dead for its
    /// peers, or will be soon, and it touches no memory.
    fn is_member(&self) -> bool {
        self.membership.0.lease().is_valid()
    }
}

/// A compute node that has started, without its membership.
struct Begun {
    host: Host,
    is_one_host: bool,
    link: Link,
    epochs: Arc<Epochs>,
    group: NodeGroup,
    introductions: Introductions,
}

impl Begun {
    fn begin(
        config: ClusterConfig,
        transport: &Transport,
        membership: &Membership,
        patience: StartPatience<'_>,
    ) -> Result<Begun, JoinError> {
        let geometry = config.check()?;
        check_processes(&config)?;
        let me = membership.me();
        let NodeName::Compute(id) = me.node else {
            return Err(JoinError::NotCompute { node: me.node });
        };
        let link = transport.open(membership)?;
        link.check_protocol(config.protocol)?;
        let threaded = link.threaded();
        let fabric = AnyFabric::from(threaded.clone());
        link.add_compute(id)?;
        let arena = |bytes| fabric.new_region(bytes).map_err(JoinError::from);
        let (line_size, least) = (config.line_size as usize, config.frames_min());
        let cache = Cache::with_memory_in(config.cache_size(), line_size, least, arena)?
            .with_replacement(config.node.replacement_policy());
        // The cache is registered before any port registers its own memory. So all nodes register
        // it as their first region, and its key is the same on all nodes.
        let arena = fabric.register(id, cache.arena().clone())?;
        let contact = link.contact(me.node)?;
        let terms = agents::terms_of(&config);
        membership.contact(agents::PROTOCOL, &terms)?;
        membership.contact(link.key(), &contact)?;
        let introductions = Introductions::start(membership, &link, Some(terms))?;
        let view = introductions.wait(config.memory_nodes, patience)?;

        let mut executor = Executor::new(RealDriver::new(), worker_config(&config, usize::MAX));
        let handle = executor.handle();
        let ports = Ports::leased(threaded, membership.lease());
        let port = ports.port(id, &handle)?;
        handle.add_poller(port.poller());
        let facts = PoolFacts::of(&view)?;
        let mine = me.party().to_string();
        let maker = membership.decide(&facts.maker, mine.as_bytes())?;
        let memory = memory_of(&view, config.memory_nodes);
        let pool = if maker == mine.as_bytes() {
            let nodes =
                memory.iter().filter_map(|(party, bytes)| Some((party.node.memory()?, *bytes)));
            let nodes: Vec<_> = nodes.collect();
            let pool = executor.block_on(Pool::format(&port, &nodes, geometry, config.seed))?;
            let parties: Vec<_> = memory.iter().map(|(party, _)| party.to_string()).collect();
            membership.decide(&facts.ready, parties.join(" ").as_bytes())?;
            tracing::info!(
                memory_nodes = parties.join(" "),
                ?geometry,
                "the memory nodes are formatted"
            );
            pool
        } else {
            let maker = String::from_utf8_lossy(&maker).into_owned();
            facts.wait(membership, maker, patience)?;
            tracing::info!("the memory nodes are formatted already");
            executor.block_on(Pool::join(&port))?
        };
        check_pool(&pool, &config)?;
        let epochs = executor.block_on(Epochs::register(&pool, &port, id, config.pool))?;
        let parts = NodeParts {
            id,
            cache,
            arena,
            geometry,
            allocator: LineAllocator::new(&epochs),
            epochs: epochs.clone(),
            settings: config.node.clone(),
        };
        let changes = (config.directory_changes(), HomePlace::Agents);
        let (node, _) = new_node(parts, config.protocol, changes, &config.selcc, false);
        node.set_member_epoch(membership.me().epoch);
        executor
            .block_on(give_journal(&node, &port, &config))
            .inspect_err(|_| withdraw::withdraw(&ports, id, &epochs))?;
        introductions.serve(&node, &ports);
        drop((executor, port, handle));
        let memory: Vec<_> = memory.into_iter().map(|(party, _)| party).collect();
        let met = introductions.wait_for_agents(&memory, patience);
        let gathered =
            met.and_then(|()| gather(config, ports.clone(), pool, node, membership, patience));
        let (host, is_one_host, group) =
            gathered.inspect_err(|_| withdraw::withdraw(&ports, id, &epochs))?;
        Ok(Begun { host, is_one_host, link, epochs, group, introductions })
    }
}

/// Waits for the other nodes of the run, and starts the threads of this node.
fn gather(
    config: ClusterConfig,
    ports: Ports,
    pool: Pool,
    node: Arc<Node>,
    membership: &Membership,
    patience: StartPatience<'_>,
) -> Result<(Host, bool, NodeGroup), JoinError> {
    let group = NodeGroup::form(membership, config.compute_nodes, patience)?;
    // From here on the other nodes of the group wait for this node, so the caller can no longer end
    // the wait.
    let limit = patience.limit;
    let first = group.rank();
    let machine = machine();
    let machines = group.exchange("machines", machine.as_bytes(), limit)?;
    let is_one_host = !machine.is_empty() && machines.iter().all(|m| m == machine.as_bytes());
    // Clocks of several machines differ. So all nodes start their clocks when this exchange ends,
    // which is about the same moment.
    let clock = if is_one_host { Clock::of_machine() } else { Clock::start() };
    strict_assert!(first < group.nodes().len(), "rank {first} of {} nodes", group.nodes().len());
    let host = Host::start(config, clock, ports, pool, (vec![node], first), Vec::new())?;
    // After this exchange the handlers of all nodes run. No node begins to touch lines before.
    group.exchange("started", b"", limit)?;
    Ok((host, is_one_host, group))
}

/// The names of two facts about the present memory nodes: which node formats them, and that the
/// format is complete. The names contain the member epoch of the first memory node. So earlier
/// memory nodes, which have left, have facts with other names.
struct PoolFacts {
    maker: String,
    ready: String,
}

impl PoolFacts {
    fn of(view: &View) -> Result<PoolFacts, JoinError> {
        let first = view.memory().next().map(|member| member.epoch);
        let first = first.ok_or(JoinError::MemoryNodesAbsent { there: 0, wanted: 1 })?;
        Ok(PoolFacts { maker: format!("pool-{first}.maker"), ready: format!("pool-{first}.ready") })
    }

    /// Waits until another node has formatted the memory nodes. Fails if one of these has left or
    /// died.
    fn wait(
        &self,
        membership: &Membership,
        maker: String,
        patience: StartPatience<'_>,
    ) -> Result<(), JoinError> {
        let clock = Clock::start();
        let ready = loop {
            let left = (Time::ZERO + patience.limit) - clock.now();
            match membership.wait_for_fact(&self.ready, left.min(LOOK)) {
                Ok(ready) => break ready,
                Err(MembershipError::Deadline { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let is_there = maker.parse().is_ok_and(|maker| membership.view().is_there(maker));
            // The maker may have completed the format just before its end.
            if left.is_zero() || !is_there && membership.fact(&self.ready)?.is_none() {
                let waited = clock.now() - Time::ZERO;
                return Err(JoinError::NotFormatted { maker, waited });
            }
            if !(patience.goes_on)(&StartWait::Format { maker: maker.clone() }) {
                return Err(JoinError::GivenUp);
            }
        };
        let view = membership.view();
        let ready = String::from_utf8_lossy(&ready);
        let mut parties =
            ready.split_whitespace().filter_map(|party| party.parse::<NodeIncarnation>().ok());
        match parties.find(|party| !view.is_there(*party)) {
            Some(gone) => Err(JoinError::MemoryLost { node: gone.node, how: "left" }),
            None => Ok(()),
        }
    }
}

/// The first `count` memory nodes of a view, with their sizes in bytes.
fn memory_of(view: &View, count: usize) -> Vec<(NodeIncarnation, u64)> {
    let memory = view.memory().filter_map(|member| match member.role {
        Role::Memory { bytes, .. } => Some((member.party(), bytes)),
        Role::Compute => None,
    });
    memory.take(count).collect()
}

/// Checks that the pool has the configured sizes of lines and chunks. The pool does not change.
fn check_pool(pool: &Pool, config: &ClusterConfig) -> Result<(), JoinError> {
    let (there, asked) = (pool.geometry(), config.check()?);
    if there != asked {
        return Err(ConfigError::Geometry(format!(
            "the cluster's pool has lines of {} bytes in chunks of {}, and not of {} in {}: use its sizes, or a new cluster",
            there.line_size(),
            there.chunk_size(),
            asked.line_size(),
            asked.chunk_size()
        ))
        .into());
    }
    Ok(())
}
