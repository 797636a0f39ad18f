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

use super::follower::{Follower, Shared};
use super::start_patience::{StartPatience, StartWait};
use crate::JoinError;
use crate::ports::Ports;
use crate::transport::Link;

/// The interval between two checks, while this node waits for others.
const MEET: Duration = Duration::from_millis(10);

/// The handle of the membership thread. Dropping the handle ends the thread.
pub(crate) struct Introductions {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Introductions {
    /// Starts the thread.
    pub(crate) fn start(membership: &Membership, link: &Link) -> Result<Self, JoinError> {
        let shared = Arc::new(Shared::new(membership, link));
        let follower = shared.clone();
        let thread = thread::Builder::new().name("introductions".to_owned());
        let thread = thread.spawn(move || Follower::new(follower).follow())?;
        Ok(Introductions { shared, thread: Some(thread) })
    }

    /// Sets this process's compute node. From then on the thread also reclaims dead nodes, and ends
    /// the node's waits for nodes that died or left.
    pub(crate) fn serve(&self, node: &Arc<Node>, ports: &Ports) {
        *self.shared.node.lock() = Some((node.clone(), ports.clone()));
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
        // A change of the nodes that this node knows does not change the view, so each wait is
        // short.
        let clock = Clock::start();
        loop {
            let waited = self.shared.membership.wait(MEET, arrived);
            let view = self.shared.membership.view();
            if let Some(error) = lost_memory(&view).or_else(|| self.shared.link.stranger(&view)) {
                return Err(error);
            }
            match waited {
                Err(MembershipError::Deadline { .. })
                    if clock.now() < Time::ZERO + patience.limit => {}
                Err(error) => return Err(self.explain(memory_nodes, error)),
                Ok(view) => return Ok(view),
            }
            let there = self.known_memory();
            let waiting = match self.unreachable_memory() {
                Some((node, why)) if there < memory_nodes => StartWait::Reach { node, why },
                None if there < memory_nodes => StartWait::Memory { there, wanted: memory_nodes },
                _ => StartWait::Introductions,
            };
            if !(patience.goes_on)(&waiting) {
                return Err(JoinError::GivenUp);
            }
        }
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
