//! How a new compute node joins under the id of a node that was lost.
//!
//! The lost node keeps its [`Node`], which the send queues and batches from and to it hold. So what
//! was in flight never reaches the new node, and a check of a batch is about the node that posted
//! it, not about the id. The new node is a new [`Node`] that every other node keeps out at first.

use std::rc::Rc;

use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, SetupError, Target};

use crate::fabric::SimFabric;
use crate::inbox::Mailbox;
use crate::node::{Host, Node, bit};

impl SimFabric {
    /// Lets a new compute node join under the id of a node that was [killed](SimFabric::kill) or
    /// [disconnected](SimFabric::disconnect). The new node has an empty inbox and no regions. It
    /// has fenced and removed no node. [`inbox`](SimFabric::inbox),
    /// [`register`](SimFabric::register) and [`endpoint`](SimFabric::endpoint) are about the new
    /// node from now on, and so are all other calls with this id.
    ///
    /// Nothing that the old node posted takes effect any more, also not the rest of a WRITE that
    /// has begun. Batches to the old node fail as before the call, and never reach the new node.
    /// But messages of the old node stay in the inboxes to which they came, and so do the messages
    /// that a gate holds at [`Leg::Inbox`](crate::Leg::Inbox).
    ///
    /// Every other node and memory node keeps the new node out until it
    /// [admits](SimFabric::admit) the node: no request from or to the new node begins, and its
    /// batch fails with [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected).
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`], and [`SetupError::DuplicateNode`] if the node is not
    /// disconnected, or shares the host of a memory node.
    pub fn replace(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        let old = self.known(id)?;
        let memory = self.world.memory_hosts();
        let is_shared = memory.iter().any(|host| Rc::ptr_eq(host, &old.host));
        if is_shared || !old.host.gone.get() {
            return Err(SetupError::DuplicateNode(id));
        }
        old.replaced.set(true);
        memory.iter().for_each(|host| host.keep_out(id));
        for other in self.world.compute_nodes() {
            other.host.keep_out(id);
            other.unadmitted.set(other.unadmitted.get() | bit(id));
        }
        let mailbox = Mailbox::new(self.world.kernel.clone(), self.world.config.inbox_capacity);
        let new = Node::new(id, Host::new(), mailbox);
        strict_assert!(new.admits(id) && !new.host.keeps_out(id), "a node keeps itself out");
        self.world.nodes.borrow_mut()[id.index()] = Some(new);
        Ok(())
    }

    /// Makes compute node `at` serve and use the present node with the id `node`: the inverse of
    /// [`keep_out`](SimFabric::keep_out) and [`remove_peer`](SimFabric::remove_peer). Batches that
    /// `at` posted to a [replaced](SimFabric::replace) node, or before this call to its successor,
    /// still fail. Later posts reach the new node.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn admit(&self, at: ComputeNodeId, node: ComputeNodeId) -> Result<(), SetupError> {
        let (at, node) = (self.known(at)?, self.known(node)?.id);
        at.host.admit(node);
        at.removed.set(at.removed.get() & !bit(node));
        at.unadmitted.set(at.unadmitted.get() & !bit(node));
        Ok(())
    }

    /// Makes memory node `at` serve the present node with the id `node`: the inverse of
    /// [`fence_memory_node`](SimFabric::fence_memory_node).
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`] and [`SetupError::UnknownNode`].
    pub fn admit_at_memory_node(
        &self,
        at: MemoryNodeId,
        node: ComputeNodeId,
    ) -> Result<(), SetupError> {
        let there = self.world.there(Target::Memory(at));
        let there = there.ok_or(SetupError::UnknownMemoryNode(at))?;
        there.host.admit(self.known(node)?.id);
        Ok(())
    }
}

impl Node {
    /// Whether this node has admitted the node that joined under the id of a replaced node. True
    /// for an id that was never replaced.
    pub(crate) fn admits(&self, node: ComputeNodeId) -> bool {
        self.unadmitted.get() & bit(node) == 0
    }
}
