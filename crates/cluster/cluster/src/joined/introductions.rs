//! [`Introductions`]: a thread that keeps the peers of a process's fabric equal to the view.
//!
//! # Two nodes know each other before one acts
//!
//! 1. A compute node that touches a line may get a message from any other compute node, and must
//!    answer it.
//! 2. So of two compute nodes, the node with the higher member epoch waits before it touches
//!    anything. The wait ends when that node knows the other, and the other's contact says that it
//!    knows that node, with its present member epoch.
//! 3. The node with the lower member epoch waits for no node. So no cycle of waits is possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_membership::{Member, MemberState, Membership, MembershipError, NodeName, View};
use latchwork_runtime::sync::{AtomicBool, Mutex, Ordering};
use latchwork_runtime::{Clock, Time};

use super::burials::{Burials, is_kept_out_by_all, kept_out};
use super::patience::{Patience, Waiting};
use crate::JoinError;
use crate::ports::Ports;
use crate::protocol::Node;
use crate::transport::Link;

/// How long one wait for a change of the view takes. The thread notices its end this late.
const LOOK: Duration = Duration::from_millis(100);

/// How long the node's workers may take to notice that another node has died or left.
const MISS: Duration = Duration::from_secs(5);

/// The time between two checks for known nodes, while this node waits for others.
const MEET: Duration = Duration::from_millis(10);

/// The limit of one attempt to fence a dead node.
const FENCE: Duration = Duration::from_secs(5);

/// The thread that follows the view. Dropping this ends the thread.
pub(crate) struct Introductions {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    membership: Membership,
    link: Link,
    stop: AtomicBool,
    known: Mutex<Known>,
    /// This process's compute node once it exists, with its ports.
    node: Mutex<Option<(Arc<Node>, Ports)>>,
}

#[derive(Default)]
struct Known {
    /// The member epochs of the nodes that the fabric knows.
    epochs: BTreeMap<NodeName, u64>,
    /// Why the fabric refused a node, with the node's member epoch.
    refused: BTreeMap<NodeName, (u64, String)>,
    /// The dead nodes that this node has fenced and reported.
    kept_out: BTreeSet<NodeName>,
    /// The dead nodes that could not be fenced for certain, and for which a warning was printed.
    doubtful: BTreeSet<NodeName>,
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

    /// Sets this process's compute node. The node discards the messages of nodes that died or left,
    /// and reclaims dead nodes.
    pub(crate) fn serve(&self, node: &Arc<Node>, ports: &Ports) {
        *self.shared.node.lock() = Some((node.clone(), ports.clone()));
    }

    /// Waits until the fabric knows `memory_nodes` memory nodes. Also waits until this node and all
    /// compute nodes that joined before it know each other.
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
        // The nodes that this node knows change without a change of the view.
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
                Some((node, why)) if there < memory_nodes => Waiting::Reach { node, why },
                None if there < memory_nodes => Waiting::Memory { there, wanted: memory_nodes },
                _ => Waiting::Introductions,
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

    /// A memory node that is a member but is unusable, and the reason.
    fn unreachable_memory(&self) -> Option<(NodeName, String)> {
        let known = self.shared.known.lock();
        let mut memory = known.refused.iter().filter(|(node, _)| node.memory().is_some());
        memory.next().map(|(node, (_, why))| (*node, why.clone()))
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

/// An error that names the first dead memory node, if there is one. Its content is lost, so the
/// cluster is unusable.
pub(crate) fn lost_memory(view: &View) -> Option<JoinError> {
    let dead = view.dead().find(|member| member.node.memory().is_some())?;
    Some(JoinError::MemoryLost { node: dead.node, how: "died" })
}

impl Drop for Introductions {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic was already printed on standard error.
            let _ = thread.join();
        }
    }
}

/// The key in a node's contact for another node that it knows. The value is the other node's member
/// epoch.
fn knows(node: NodeName) -> String {
    format!("knows-{node}")
}

impl Shared {
    fn follow(&self) {
        let mut seen: Option<Arc<View>> = None;
        let mut burials = Burials::default();
        // True while an action has failed. The thread tries again even if the view stays the same.
        let mut owes = false;
        while !self.stop.load(Ordering::Relaxed) {
            let revision = seen.as_ref().map(|view| view.revision);
            match self.membership.wait(LOOK, |view| Some(view.revision) != revision) {
                Ok(view) => seen = Some(view),
                // The fabric may now accept a node that it refused before. The keeper reports a
                // store that does not answer.
                Err(_) if self.known.lock().refused.is_empty() && !owes => continue,
                Err(_) => {}
            }
            let Some(view) = &seen else { continue };
            owes = false;
            for member in view.members.values() {
                let is_dead =
                    member.state == MemberState::Dead && member.node != self.membership.me().node;
                // Fencing comes first, because the dead node may act here until then.
                let is_out = is_dead && self.keep_out(member);
                self.meet(member);
                owes |= is_dead && !(is_out && self.bury(&mut burials, view, member));
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
            (MemberState::Dead, Some(_)) => self.forget(member.node),
            (MemberState::Left, Some(_)) => {
                self.forget(member.node);
                // Resources that the node did not need any more are free again.
                if let Some((own, _)) = &*self.node.lock() {
                    own.allocator().look_again();
                }
            }
            (MemberState::Dead | MemberState::Left, None) => {}
        }
    }

    /// Fences a dead node here, and reports it in this node's contact for all members. Returns
    /// whether both are done.
    fn keep_out(&self, dead: &Member) -> bool {
        if self.known.lock().kept_out.contains(&dead.node) {
            return true;
        }
        // A dead node that this node never met is fenced too, because its connection may be in
        // progress.
        let contact = dead.contact.get(self.link.key()).map(String::as_str);
        let is_certain = self.link.fence(dead.node, dead.epoch, contact, FENCE);
        if !is_certain && self.known.lock().doubtful.insert(dead.node) {
            tracing::warn!(node = %dead.node, "a dead node could not be fenced for certain");
        }
        let done = is_certain
            && self.membership.contact(&kept_out(dead.node), &dead.epoch.to_string()).is_ok();
        if done {
            tracing::info!(node = %dead.node, "a dead node is fenced");
            self.known.lock().kept_out.insert(dead.node);
        }
        done
    }

    /// Reclaims a dead compute node when all members have fenced it. Returns whether this node has
    /// nothing left to do until the view changes.
    fn bury(&self, burials: &mut Burials, view: &View, dead: &Member) -> bool {
        let NodeName::Compute(id) = dead.node else { return true };
        let node = self.node.lock().clone();
        match node {
            Some((own, ports)) if is_kept_out_by_all(view, dead) => {
                burials.bury(own.id(), &ports, id)
            }
            // A memory node leaves the work to compute nodes. A process whose compute node is not
            // built yet tries again.
            Some(_) => true,
            None => self.membership.me().node.compute().is_none(),
        }
    }

    fn learn(&self, member: &Member, contact: &str) {
        let me = self.membership.me();
        if let Err(error) = self.link.add_peer(me.node, member.node, contact) {
            let why = (member.epoch, error.to_string());
            let before = self.known.lock().refused.insert(member.node, why.clone());
            // The attempt is repeated, so an unchanged reason is not printed again.
            if before != Some(why) {
                tracing::warn!(node = %member.node, epoch = member.epoch, %error, "a node cannot be reached");
            }
            return;
        }
        if let (NodeName::Compute(id), Some((own, _))) = (member.node, &*self.node.lock()) {
            // The previous holder of the id is dead or has left. The new holder cannot have sent a
            // message yet.
            own.forget(id);
        }
        let mut known = self.known.lock();
        known.refused.remove(&member.node);
        known.epochs.insert(member.node, member.epoch);
        drop(known);
        tracing::info!(node = %member.node, epoch = member.epoch, contact, "a node can be reached");
        if matches!((me.node, member.node), (NodeName::Compute(_), NodeName::Compute(_))) {
            // If this report fails, the other node waits until its deadline or until this node's
            // end.
            let _ = self.membership.contact(&knows(member.node), &member.epoch.to_string());
        }
    }

    fn forget(&self, node: NodeName) {
        self.link.remove_peer(node);
        if let (NodeName::Compute(id), Some((own, _))) = (node, &*self.node.lock()) {
            own.miss(id);
            // Wait for the workers before another holder of that id is admitted.
            let clock = Clock::start();
            // When this node ends, no worker is left to notice it, and no node is admitted.
            let goes_on = || !self.stop.load(Ordering::Relaxed);
            while own.minds(id) && goes_on() && clock.now() < Time::ZERO + MISS {
                thread::park_timeout(MEET / 10);
            }
        }
        let mut known = self.known.lock();
        known.epochs.remove(&node);
        known.refused.remove(&node);
    }
}
