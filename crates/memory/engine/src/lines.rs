//! The door between the code that knows no protocol and the records of lines under one: the
//! protocol is a type behind it, so that a program chooses the protocol at run time.
//!
//! A hit does not pass the door. It reads the frames of the node ([`WorkerCore`]), and costs the
//! same under every protocol. A miss passes the door a few times, and each time costs one indirect
//! call. [`Worker`], [`Node`], tickets and locks have no type of a protocol, so indexes,
//! transactions and programs are compiled once for all protocols.

use std::cell::Ref;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use latchwork_cache::FrameId;
use latchwork_coherence::{MemoryError, Need};
use latchwork_fabric::{AnyInbox, Port};
use latchwork_runtime::{Handle, Time};
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

use crate::in_place;
use crate::node_core::NodeCore;
use crate::waiters::LineAccess;
use crate::worker_core::{Role, WorkerCore};

/// A compute node under any protocol: its cache and the records of its lines. All workers of the
/// node share it.
pub struct Node {
    pub(crate) core: Arc<NodeCore>,
    pub(crate) lines: Arc<dyn NodeLines>,
}

impl Node {
    /// Whether this line has a record: see [`Node::lines_in_flight`]. An evicted line keeps its
    /// record after it has left its frame, until its changes have arrived in memory.
    pub fn is_in_flight(&self, line: GlobalAddr) -> bool {
        self.lines.is_in_flight(line)
    }

    /// The number of lines with a record: lines that are being obtained, released or requested,
    /// lines in a hold-off, and failed lines. Zero on a node at rest without failed lines.
    pub fn lines_in_flight(&self) -> usize {
        self.lines.in_flight()
    }

    /// The number of frames of failed lines. Such a frame serves no other line, for example because
    /// an answer to an invalidation request may still be written into it.
    pub fn lost_frames(&self) -> usize {
        self.lines.lost_frames()
    }

    /// Whether this node, as a home, recovers lines from the death or the leave of a compute node.
    /// Until the end of the recovery, another node of the id may not be admitted: a survivor takes
    /// a late demand of the home for one about the new node, and waits for the end of that node.
    pub fn recovers_from(&self, peer: ComputeNodeId) -> bool {
        self.minds(peer) || self.lines.recovers_from(peer)
    }
}

/// The fields and functions of [`NodeCore`] are those of the node.
impl Deref for Node {
    type Target = NodeCore;

    fn deref(&self) -> &NodeCore {
        &self.core
    }
}

/// One worker's view of its node's coherent memory.
///
/// Clones are cheap and stand for the same worker. The worker's executor polls for the node:
/// completions, messages, alarms and eviction. All workers of a node poll, and each worker that
/// polls serves the whole node. The polling ends when no clone exists and nothing that the worker
/// posted is in flight.
#[derive(Clone)]
pub struct Worker {
    pub(crate) core: Rc<WorkerCore>,
}

impl Worker {
    /// What is behind the door.
    #[inline]
    pub(crate) fn lines(&self) -> Ref<'_, dyn WorkerLines> {
        Ref::map(self.core.lines.borrow(), |lines| {
            lines.as_deref().expect("there while the worker has a handle")
        })
    }
}

/// The result of one attempt to use a line.
pub(crate) enum Attempt {
    /// The line is here, and reserved.
    Here(FrameId),
    /// The line is here, but a local writer holds its latch.
    Latched(FrameId),
    /// The line is here, but the access waits until this virtual time. A writer holds the latch
    /// until then, or other accesses wait for the latch already.
    Held(FrameId, Time),
    /// The line is not here, and no frame is free for it.
    NoFrame,
    /// The access waits in the record of the line, under this number.
    Asked(u64),
    /// No request was sent, and the line counts as locked: the node has no room for one more
    /// refused reader.
    Locked,
}

/// How the wait for a line ended.
pub(crate) enum End {
    Here(FrameId),
    GaveWay,
    Locked,
}

/// The result of one attempt to lock a line.
pub(crate) enum Try {
    /// The line is locked now.
    Locked(FrameId),
    /// Another lock excludes this lock, or the line may not be locked before its node locks have
    /// ended.
    Refused,
    /// The node does not own the line in the needed mode, or requests of other nodes come first.
    NotHere,
}

/// The line records of a node, under its protocol.
pub(crate) trait NodeLines: Send + Sync {
    /// See [`Node::is_in_flight`].
    fn is_in_flight(&self, line: GlobalAddr) -> bool;

    /// See [`Node::lines_in_flight`].
    fn in_flight(&self) -> usize;

    /// See [`Node::lost_frames`].
    fn lost_frames(&self) -> usize;
    fn recovers_from(&self, peer: ComputeNodeId) -> bool;

    /// See [`Node::survives`].
    fn survives(&self) -> bool;

    /// See [`Node::gives`].
    fn gives(&self) -> bool;

    /// Whether nothing of the line depends on the dead node.
    fn is_clear_of(&self, line: GlobalAddr, dead: ComputeNodeId) -> bool;

    /// Starts a worker of `node`, whose records these are.
    fn start(
        self: Arc<Self>,
        role: Role,
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: AnyInbox,
        handle: &Handle,
    ) -> Worker;
}

/// The line records of a node, as one worker uses them.
pub(crate) trait WorkerLines {
    /// Tries once: reserves the line if it is here and free, or requests it if it is not here.
    /// `first`: this is the first attempt of the access.
    fn attempt(
        &self,
        access: LineAccess,
        first: bool,
        waker: &Waker,
    ) -> Result<Attempt, MemoryError>;

    /// How the wait of the waiter `id` has ended. The waiter then leaves the record.
    fn poll_waiter(
        &self,
        addr: GlobalAddr,
        id: u64,
        waker: &Waker,
    ) -> Poll<Result<End, MemoryError>>;

    /// Removes the waiter `id`, whose access was dropped.
    fn drop_waiter(&self, addr: GlobalAddr, id: u64);

    /// Evicts a line, unless the line is in use, has failed or has an operation outstanding.
    /// Returns whether the node gave the line up.
    fn evict(&self, addr: GlobalAddr) -> bool;

    /// Begins a write-back of the line in place, if there is anything to write back, and if that is
    /// possible now.
    fn persist(&self, addr: GlobalAddr) -> Result<in_place::Attempt, MemoryError>;

    /// Handles the end of an access that obtained the line.
    fn accessed(&self, addr: GlobalAddr);

    /// Locks the line under the lock of its shard, if no other node has to act. `reserved`: the
    /// caller has a ticket. `upgrades`: the caller has a shared lock to upgrade.
    fn try_lock(&self, need: Need, reserved: bool, upgrades: bool) -> Result<Try, MemoryError>;

    /// Handles the end of the last lock of a line that is requested or has failed.
    fn unlocked(&self, addr: GlobalAddr);

    /// Keeps the worker alive after its last handle is dropped.
    fn outlive(self: Rc<Self>);
}
