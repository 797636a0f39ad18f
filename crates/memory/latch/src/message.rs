//! The messages of compute nodes about a line.

use latchwork_verbs::ComputeNodeId;
use smallvec::SmallVec;

use crate::hold::Want;

/// The number of an invalidation request. The number wraps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Seq(pub u16);

/// The access for which an invalidation request is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RequestKind {
    /// PeerRd: the sender waits to read.
    Read,
    /// PeerWr: the sender waits to write.
    Write,
}

impl RequestKind {
    /// Whether a transaction lock in this mode excludes the access. Readers are compatible with
    /// each other, a writer is compatible with no other access.
    pub(crate) fn is_locked_out_by(self, lock: Option<Want>) -> bool {
        match lock {
            None => false,
            Some(Want::Shared) => self == RequestKind::Write,
            Some(Want::Exclusive) => true,
        }
    }
}

/// An invalidation request (SELCC 5.1). The sender cannot withdraw the request: until its one final
/// answer arrives, the sender keeps its shared bit, its frame and the record that takes the answer
/// (rule R5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct InvalidationRequest {
    /// The requester.
    pub from: ComputeNodeId,
    /// The node to which the requester sent the request. A request can travel with a hand-over to
    /// another node. The answer names this node, so that the requester knows which of its requests
    /// is answered.
    pub asked: ComputeNodeId,
    /// The access that the requester wants.
    pub kind: RequestKind,
    /// The requester's number for this request.
    pub seq: Seq,
    /// Grows with every attempt that did not get the line, up to
    /// [`Rules::priority_max`](crate::Rules::priority_max) (SELCC 5.3.2).
    pub priority: u8,
    /// The address of the requester's frame, for the forward. The protocol does not interpret the
    /// address.
    pub buffer: u64,
}

/// The ownership that a grant gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum GrantMode {
    /// The receiver's registered wait has become shared ownership.
    Shared,
    /// The receiver is the exclusive holder. Requests of other nodes travel in the grant.
    Exclusive,
}

/// An answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Answer {
    /// Final, without the line: the node has nothing to give. The requester looks at the word again
    /// after a back-off.
    Dropped,
    /// Final, without the line: the obstacle is removed. The requester looks at the word again at
    /// once.
    Released,
    /// Not final: the request is queued, and a final answer follows.
    Queued,
    /// Final, without the line: a transaction of the node has locked the line in an incompatible
    /// mode. The request is not queued. The requester's accesses that do not wait for locks end.
    Busy,
}

/// A message about a line.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum LatchMessage {
    /// An invalidation request.
    Request(InvalidationRequest),
    /// An answer without the line.
    Answer {
        /// The node to which the request was sent.
        asked: ComputeNodeId,
        /// The number of the request.
        seq: Seq,
        /// The answer.
        answer: Answer,
    },
    /// An answer with the line. The bytes were forwarded into the requester's frame before.
    Grant {
        /// The node to which the request was sent.
        asked: ComputeNodeId,
        /// The number of the request.
        seq: Seq,
        /// The ownership that the grant gives.
        mode: GrantMode,
        /// Requests of other nodes that travel with exclusive ownership.
        travelling: QueuedRequests,
    },
    /// The giver's operation is complete: the latch word states the ownership that request `seq`
    /// got.
    Settled {
        /// The number of the request.
        seq: Seq,
    },
    /// A final answer to a writer. Until the writer reports the outcome of the pledge, the sender
    /// does not use its copy, and its shared bit stays set.
    Pledged {
        /// The pledger. It may differ from `asked`, because requests travel.
        by: ComputeNodeId,
        /// The node to which the request was sent.
        asked: ComputeNodeId,
        /// The number of the request, which is also the number of the pledge.
        seq: Seq,
    },
    /// The report on a pledge: the writer has the line, and the pledger's bit is cleared.
    Taken {
        /// The writer.
        by: ComputeNodeId,
        /// The number of the pledge.
        seq: Seq,
    },
    /// The report on a pledge: no node has written, and the pledger shares the line as before.
    GaveUp {
        /// The writer.
        by: ComputeNodeId,
        /// The number of the pledge.
        seq: Seq,
    },
}

/// The number of requests that a node queues per line: one of every other node.
pub const REMEMBERED_MAX: usize = ComputeNodeId::MAX as usize - 1;

/// The number of queued requests that can travel with a hand-over. The giver sends the others on
/// after the hand-over.
pub const TRAVELLING_MAX: usize = 10;

/// Queued requests in order of arrival. The first two need no allocation: every miss makes a
/// record, and few nodes want most lines.
pub type QueuedRequests = SmallVec<[InvalidationRequest; 2]>;
const _: () = assert!(REMEMBERED_MAX > TRAVELLING_MAX, "a queue holds what travels");
const _: () =
    assert!(REMEMBERED_MAX < ComputeNodeId::MAX as usize, "a node queues no request of its own");
const _: () = assert!(TRAVELLING_MAX > 0, "a hand-over takes a request along");
