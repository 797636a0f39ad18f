//! [`Introductions`]: the handle of the membership thread, which keeps the peers of the fabric
//! equal to the view. A starting node waits here until it and its peers know each other.
//!
//! # Two nodes know each other before one acts
//!
//! 1. A compute node that touches a line may get a message from any other compute node, and must
//!    answer the message.
//! 2. So a compute node waits, before it touches anything, for all members with lower member
//!    epochs. The wait ends when the node knows each of them, and each of them knows the node.
//! 3. A peer says that it knows the node by a report in its contact, with the member epoch of the
//!    node.
//! 4. No node waits for a node with a higher member epoch. So no cycle of waits is possible.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_engine::Node;
use latchwork_membership::{
    Membership, MembershipError, NodeIncarnation, NodeName, View, ViewMember,
};
use latchwork_runtime::sync::Ordering;
use latchwork_runtime::{Clock, Time};

use super::agents;
use super::follower::{Follower, Shared};
use super::recoveries::Recoveries;
use super::start_patience::{StartPatience, StartWait};
use crate::JoinError;
use crate::ports::Ports;
use crate::transport::Link;

/// The interval between two checks, while this node waits for others.
const MEET: Duration = Duration::from_millis(10);

/// The handle of the membership thread. Dropping the handle ends the thread.
pub(crate) struct Introductions {
    shared: Arc<Shared>,
    /// The terms of a compute node ([`agents::terms_of`]).
    terms: Option<String>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Introductions {
    /// Starts the thread.
    pub(crate) fn start(
        membership: &Membership,
        link: &Link,
        terms: Option<String>,
    ) -> Result<Self, JoinError> {
        let recovers = terms.as_deref().is_some_and(agents::survives);
        let shared = Arc::new(Shared::new(membership, link, recovers));
        let follower = shared.clone();
        let thread = thread::Builder::new().name("introductions".to_owned());
        let thread = thread.spawn(move || Follower::new(follower).follow())?;
        Ok(Introductions { shared, terms, thread: Some(thread) })
    }

    /// Sets this process's compute node, or the agent of its memory node. From then on the thread
    /// also ends the node's waits for nodes that died or left. For a compute node it reclaims dead
    /// nodes, and for an agent it reports which compute nodes the agent knows.
    pub(crate) fn serve(&self, node: &Arc<Node>, ports: &Ports) {
        *self.shared.node.lock() = Some((node.clone(), ports.clone()));
        // The thread tells the node of each holder of an id that it admits from here on. Those that
        // it has admitted are in the view.
        for (name, member) in &self.shared.membership.view().members {
            if let NodeName::Compute(id) = name {
                node.end_before(*id, member.epoch);
            }
        }
    }

    /// The recoveries that this node has taken part in.
    pub(super) fn recoveries(&self) -> &Recoveries {
        &self.shared.recoveries
    }

    /// Waits until the fabric knows `memory_nodes` memory nodes. Also waits until this node and all
    /// compute nodes that joined before it know each other.
    pub(crate) fn wait(
        &self,
        memory_nodes: usize,
        patience: StartPatience<'_>,
    ) -> Result<Arc<View>, JoinError> {
        let arrived = |view: &View| {
            let peers = self.shared.peers.lock();
            let is_known = |member: &&ViewMember| peers.known(member.node) == Some(member.epoch);
            peers.is_introduced() && view.memory().filter(is_known).count() >= memory_nodes
        };
        let waiting = || {
            let there = self.known_memory();
            match self.unreachable_memory() {
                Some((node, why)) if there < memory_nodes => StartWait::Reach { node, why },
                None if there < memory_nodes => StartWait::Memory { there, wanted: memory_nodes },
                _ => StartWait::Introductions,
            }
        };
        self.wait_until(patience, arrived, waiting, |error| self.explain(memory_nodes, error))
    }

    /// Waits until this node and the agents of all these memory nodes know each other, if the
    /// protocol has homes.
    pub(crate) fn wait_for_agents(
        &self,
        memory: &[NodeIncarnation],
        patience: StartPatience<'_>,
    ) -> Result<(), JoinError> {
        if !self.has_homes() {
            return Ok(());
        }
        let missing = || {
            let peers = self.shared.peers.lock();
            let is_met = |agent| peers.is_mutual(agent);
            memory.iter().find(|memory| !agents::agent_of(**memory).is_some_and(is_met))
        };
        let explain = |error: MembershipError| {
            let Some(memory) = missing() else { return error.into() };
            let refusals = self.shared.refusals.lock();
            let refusal = agents::agent_of(*memory).and_then(|agent| refusals.get(&agent.node));
            let (node, waited) = (memory.node, patience.limit);
            match refusal {
                Some((_, why)) => JoinError::Introduction { node, why: why.clone() },
                None => JoinError::NoAgent { node, waited },
            }
        };
        let waiting = || StartWait::Introductions;
        self.wait_until(patience, |_| missing().is_none(), waiting, explain).map(drop)
    }

    /// Waits for a view and peers that satisfy `arrived`. At the time limit, `explain` makes the
    /// error.
    fn wait_until(
        &self,
        patience: StartPatience<'_>,
        mut arrived: impl FnMut(&View) -> bool,
        waiting: impl Fn() -> StartWait,
        explain: impl Fn(MembershipError) -> JoinError,
    ) -> Result<Arc<View>, JoinError> {
        // A change of the nodes that this node knows does not change the view, so each wait is
        // short.
        let clock = Clock::start();
        loop {
            let waited = self.shared.membership.wait(MEET, &mut arrived);
            let view = self.shared.membership.view();
            if let Some(error) = self.refusal(&view) {
                return Err(error);
            }
            match waited {
                Err(MembershipError::Deadline { .. })
                    if clock.now() < Time::ZERO + patience.limit => {}
                Err(error) => return Err(explain(error)),
                Ok(view) => return Ok(view),
            }
            if !(patience.goes_on)(&waiting()) {
                return Err(JoinError::GivenUp);
            }
        }
    }

    /// The reason why this node cannot be a member beside the others, if there is one.
    fn refusal(&self, view: &View) -> Option<JoinError> {
        let error = lost_memory(view).or_else(|| self.shared.link.stranger(view));
        let error = error.or_else(|| agents::disagreement(view, self.terms.as_deref()?));
        error.or_else(|| agents::without_id(view).filter(|_| self.has_homes()))
    }

    /// Whether this is a compute node whose protocol has homes.
    fn has_homes(&self) -> bool {
        self.terms.as_deref().is_some_and(agents::has_homes)
    }

    fn known_memory(&self) -> usize {
        let (view, peers) = (self.shared.membership.view(), self.shared.peers.lock());
        view.memory().filter(|member| peers.known(member.node) == Some(member.epoch)).count()
    }

    /// The members that the fabric has refused, each with the reason of the last refusal.
    fn refused(&self) -> Vec<(NodeName, String)> {
        let view = self.shared.membership.view();
        let refusals = self.shared.refusals.lock();
        let is_there = |(node, (epoch, _)): &(&NodeName, &(u64, String))| {
            view.is_there(NodeIncarnation { node: **node, epoch: *epoch })
        };
        refusals.iter().filter(is_there).map(|(node, (_, why))| (*node, why.clone())).collect()
    }

    /// A memory node that is a member but is unusable, and the reason.
    fn unreachable_memory(&self) -> Option<(NodeName, String)> {
        self.refused().into_iter().find(|(node, _)| node.memory().is_some())
    }

    fn explain(&self, memory_nodes: usize, error: MembershipError) -> JoinError {
        if let Some((node, why)) = self.refused().into_iter().next() {
            return JoinError::Introduction { node, why };
        }
        let memory = self.known_memory();
        if memory < memory_nodes {
            return JoinError::MemoryNodesAbsent { there: memory, wanted: memory_nodes };
        }
        error.into()
    }
}

/// An error that names the first dead memory node, if there is one. The content of that node is
/// lost, so the cluster is unusable.
pub(crate) fn lost_memory(view: &View) -> Option<JoinError> {
    let dead = view.dead().find(|member| member.node.memory().is_some())?;
    Some(JoinError::MemoryLost { node: dead.node, how: "died" })
}

impl Drop for Introductions {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic of the thread was already printed on standard error.
            let _ = thread.join();
        }
    }
}
