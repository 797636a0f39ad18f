//! [`Introductions`]: a thread that tells a process's fabric of the nodes that come and go.
//!
//! # Nobody is met who is not known
//!
//! A compute node that touches a line may be sent a message by any other, and must be answered. So of two compute nodes
//! the one with the higher epoch waits, before it touches anything, until it knows the other and the other says, in its
//! contact, that it knows this one, with this epoch. The lower one waits for nobody: there is no circle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_membership::{Member, MemberState, Membership, MembershipError, NodeName, View};
use latchwork_runtime::sync::{AtomicBool, Mutex, Ordering};
use latchwork_runtime::{Clock, Time};
use latchwork_selcc::Node;

use super::patience::{Patience, Waiting};
use crate::JoinError;
use crate::transport::Link;

/// How long a look at the view waits for a change, and so how late the thread sees that it shall end.
const LOOK: Duration = Duration::from_millis(100);

/// How long the node's workers may take to see that another is gone.
const MISS: Duration = Duration::from_secs(5);

/// Between two looks at who is known, while this node waits for others.
const MEET: Duration = Duration::from_millis(10);

/// How long a node that died may take to be kept out.
const FENCE: Duration = Duration::from_secs(5);

/// The thread. Dropping this ends it.
pub(crate) struct Introductions {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    membership: Membership,
    link: Link,
    stop: AtomicBool,
    known: Mutex<Known>,
    /// This process's compute node, once there is one.
    node: Mutex<Option<Arc<Node>>>,
}

#[derive(Default)]
struct Known {
    /// The epochs of the nodes that the fabric knows.
    epochs: BTreeMap<NodeName, u64>,
    /// What was wrong with nodes that the fabric refused, by their epochs.
    refused: BTreeMap<NodeName, (u64, String)>,
}

impl Introductions {
    /// Starts the thread.
    pub(crate) fn start(membership: &Membership, link: &Link) -> Result<Self, JoinError> {
        let shared = Arc::new(Shared {
            membership: membership.clone(),
            link: link.clone(),
            stop: AtomicBool::new(false),
            known: Mutex::default(),
            node: Mutex::default(),
        });
        let follower = shared.clone();
        let thread = thread::Builder::new().name("introductions".to_owned());
        let thread = thread.spawn(move || follower.follow())?;
        Ok(Introductions { shared, thread: Some(thread) })
    }

    /// Names this process's compute node, which forgets the messages of nodes that are gone.
    pub(crate) fn serve(&self, node: &Arc<Node>) {
        *self.shared.node.lock() = Some(node.clone());
    }

    /// Waits until this node and so many memory nodes, and all compute nodes that were there before it, are introduced.
    pub(crate) fn wait(
        &self,
        memory_nodes: usize,
        patience: Patience<'_>,
    ) -> Result<Arc<View>, JoinError> {
        let me = self.shared.membership.me();
        let (name, epoch) = (me.node, me.epoch);
        let arrived = |view: &View| {
            let known = self.shared.known.lock();
            let mut memory = 0;
            for member in view.joined() {
                let is_known = known.epochs.get(&member.node) == Some(&member.epoch);
                match member.node {
                    NodeName::Memory(_) => memory += usize::from(is_known),
                    NodeName::Compute(_) if member.epoch < epoch => {
                        let says = member.contact.get(&knows(name)) == Some(&epoch.to_string());
                        if !(is_known && says) {
                            return false;
                        }
                    }
                    NodeName::Compute(_) => {}
                }
            }
            memory >= memory_nodes
        };
        // Whom this node knows changes behind the view.
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
            let waiting = match there < memory_nodes {
                true => Waiting::Memory { there, wanted: memory_nodes },
                false => Waiting::Introductions,
            };
            if !(patience.goes_on)(&waiting) {
                return Err(JoinError::GivenUp);
            }
        }
    }

    fn known_memory(&self) -> usize {
        let known = self.shared.known.lock();
        known.epochs.keys().filter(|node| node.memory().is_some()).count()
    }

    fn explain(&self, memory_nodes: usize, error: MembershipError) -> JoinError {
        if let Some((node, (_, why))) = self.shared.known.lock().refused.iter().next() {
            return JoinError::Introduction { node: *node, why: why.clone() };
        }
        let memory = self.known_memory();
        if memory < memory_nodes {
            return JoinError::MemoryNodesAbsent { there: memory, wanted: memory_nodes };
        }
        error.into()
    }
}

/// The first memory node that has died: what it held is lost, and so is all that was to be done with it.
pub(crate) fn lost_memory(view: &View) -> Option<JoinError> {
    let dead = view.dead().find(|member| member.node.memory().is_some())?;
    Some(JoinError::MemoryLost { node: dead.node, how: "died" })
}

impl Drop for Introductions {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been reported on standard error already.
            let _ = thread.join();
        }
    }
}

/// The key in a node's contact under which it says with which epoch it knows another.
fn knows(node: NodeName) -> String {
    format!("knows-{node}")
}

impl Shared {
    fn follow(&self) {
        let mut seen: Option<Arc<View>> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let revision = seen.as_ref().map(|view| view.revision);
            match self.membership.wait(LOOK, |view| Some(view.revision) != revision) {
                Ok(view) => seen = Some(view),
                // Whom the fabric refused it may take now. A store that does not answer is the keeper's trouble.
                Err(_) if self.known.lock().refused.is_empty() => continue,
                Err(_) => {}
            }
            for member in seen.iter().flat_map(|view| view.members.values()) {
                self.meet(member);
            }
        }
    }

    fn meet(&self, member: &Member) {
        let me = self.membership.me();
        if member.node == me.node {
            return;
        }
        let known = self.known.lock().epochs.get(&member.node).copied();
        let contact = member.contact.get(self.link.key());
        match (member.state, known) {
            (MemberState::Joined, Some(epoch)) if epoch == member.epoch => {}
            (MemberState::Joined, known) => {
                if known.is_some() {
                    self.forget(member.node);
                }
                if let Some(contact) = contact {
                    self.learn(member, contact);
                }
            }
            (MemberState::Dead, known) => {
                // Also where it was never met: it may have been on its way.
                let contact = contact.map(String::as_str);
                let is_certain = self.link.fence(member.node, member.epoch, contact, FENCE);
                if known.is_some() {
                    match is_certain {
                        true => tracing::info!(node = %member.node, "a dead node is fenced"),
                        false => {
                            tracing::warn!(node = %member.node, "a dead node could not be fenced for certain")
                        }
                    }
                    self.forget(member.node);
                }
            }
            (MemberState::Left, Some(_)) => self.forget(member.node),
            (MemberState::Left, None) => {}
        }
    }

    fn learn(&self, member: &Member, contact: &str) {
        let me = self.membership.me();
        if let Err(error) = self.link.add_peer(me.node, member.node, contact) {
            let why = (member.epoch, error.to_string());
            let before = self.known.lock().refused.insert(member.node, why.clone());
            // It is tried again and again.
            if before != Some(why) {
                tracing::warn!(node = %member.node, epoch = member.epoch, %error, "a node cannot be reached");
            }
            return;
        }
        if let (NodeName::Compute(id), Some(own)) = (member.node, &*self.node.lock()) {
            // Whoever had the id before is gone, and this one cannot have sent anything yet.
            own.forget(id);
        }
        let mut known = self.known.lock();
        known.refused.remove(&member.node);
        known.epochs.insert(member.node, member.epoch);
        drop(known);
        tracing::info!(node = %member.node, epoch = member.epoch, contact, "a node can be reached");
        if matches!((me.node, member.node), (NodeName::Compute(_), NodeName::Compute(_))) {
            // Where it cannot be said the other waits, until its deadline or this node's end.
            let _ = self.membership.contact(&knows(member.node), &member.epoch.to_string());
        }
    }

    fn forget(&self, node: NodeName) {
        self.link.remove_peer(node);
        if let (NodeName::Compute(id), Some(own)) = (node, &*self.node.lock()) {
            own.miss(id);
            // Before another one of that id is let in.
            let clock = Clock::start();
            while own.minds(id) && clock.now() < Time::ZERO + MISS {
                thread::park_timeout(MEET / 10);
            }
        }
        let mut known = self.known.lock();
        known.epochs.remove(&node);
        known.refused.remove(&node);
    }
}
