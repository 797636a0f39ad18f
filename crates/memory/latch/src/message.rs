//! The messages of compute nodes about a line.

use latchwork_verbs::ComputeNodeId;
use smallvec::SmallVec;

use crate::hold::Want;

/// The number of an invalidation request. The number wraps at
/// [`Rules::seq_modulus`](crate::Rules::seq_modulus).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Seq(pub u16);

/// The access for which an invalidation request is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RequestKind {
    /// The sender waits to read (SELCC's PeerRd).
    Read,
    /// The sender waits to write (SELCC's PeerWr).
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

/// An invalidation request (SELCC 5.1). The sender cannot withdraw the request (rule R5 of the
/// [crate]). Until the one final answer arrives, the sender keeps its shared bit, its frame
/// and the line record that takes the answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct InvalidationRequest {
    /// The requester.
    pub from: ComputeNodeId,
    /// The node to which the requester sent the request. A request can move on to another node,
    /// inside a grant or as a message of its own. The answer names this node, so that the requester
    /// knows which of its requests is answered.
    pub asked: ComputeNodeId,
    /// The access that the requester wants.
    pub kind: RequestKind,
    /// The requester's number for this request.
    pub seq: Seq,
    /// With [`Rules::aging`](crate::Rules::aging), grows with every attempt that did not get the
    /// line, up to [`Rules::priority_max`](crate::Rules::priority_max) (SELCC 5.3.2). Otherwise 0.
    pub priority: u8,
    /// The offset of the requester's frame in its arena, for the forward. The machine sets 0, and
    /// the engine sets the offset when it sends the request. The machine does not interpret the
    /// offset.
    pub buffer: u64,
}

/// The ownership that a grant gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum GrantMode {
    /// The receiver may read. Its registered wait becomes shared ownership in the latch word when
    /// the giver's downgrade takes effect.
    Shared,
    /// The receiver may write. It becomes the exclusive holder in the latch word when the giver's
    /// hand-over takes effect. Requests of other nodes travel in the grant.
    Exclusive,
}

/// An answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Answer {
    /// Final, without the line: the node has nothing to give, or another access comes first. The
    /// requester looks at the word again after a back-off.
    Dropped,
    /// Final, without the line: the requester need not wait for the node. If all answers are of
    /// this kind, the requester looks at the word again at once.
    Released,
    /// Not final: the request is queued, and a final answer follows.
    Queued,
    /// Final, without the line: a transaction of the node has locked the line in an incompatible
    /// mode. The request is not queued any longer. The requester's accesses that do not wait for
    /// locks end.
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
    /// does not use its copy and does not clear its shared bit.
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

/// The most requests that a node queues per line: as many as there are other nodes.
pub const REMEMBERED_MAX: usize = ComputeNodeId::MAX as usize - 1;

/// The number of queued requests that can travel with a hand-over: a message of 14 words has room
/// for ten beside the grant. The giver sends the others on after the hand-over.
pub const TRAVELLING_MAX: usize = 10;

/// Queued requests in order of arrival. A hand-over with more requests than can travel sorts them
/// by priority. The first two requests need no heap allocation, because every miss makes a record
/// and few nodes want most lines.
pub type QueuedRequests = SmallVec<[InvalidationRequest; 2]>;
const _: () = assert!(REMEMBERED_MAX > TRAVELLING_MAX, "a queue holds what travels");
const _: () =
    assert!(REMEMBERED_MAX < ComputeNodeId::MAX as usize, "a node queues no request of its own");
const _: () = assert!(TRAVELLING_MAX > 0, "a hand-over takes a request along");
