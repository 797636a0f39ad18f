//! What compute nodes say to each other about a line.

use latchwork_verbs::ComputeNodeId;
use smallvec::SmallVec;

use crate::{Seq, Want};

/// What an invalidation asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RequestKind {
    /// PeerRd: the sender waits to read.
    Read,
    /// PeerWr: the sender waits to write.
    Write,
}

impl RequestKind {
    /// Whether a transaction lock in this mode stands in the way: readers go together, writers with
    /// nobody.
    pub(crate) fn is_locked_out_by(self, lock: Option<Want>) -> bool {
        match lock {
            None => false,
            Some(Want::Shared) => self == RequestKind::Write,
            Some(Want::Exclusive) => true,
        }
    }
}

/// An invalidation message (SELCC 5.1). It is final: its sender keeps its bit, its frame and its
/// place to answer to until it got the one final answer to it (rule R5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Request {
    /// Who asks.
    pub from: ComputeNodeId,
    /// Who was asked first: requests travel with a hand-over, and the answer names this node, so
    /// that the asker knows which of its questions was answered.
    pub asked: ComputeNodeId,
    /// What for.
    pub kind: RequestKind,
    /// The asker's number for the question.
    pub seq: Seq,
    /// Grows with every retry, up to [`Rules::priority_max`](crate::Rules::priority_max) (SELCC
    /// 5.3.2).
    pub priority: u8,
    /// Where the asker's frame is: opaque to the protocol, an address for the forward.
    pub buffer: u64,
}

/// How a grant is owned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum GrantMode {
    /// The receiver's registered wait has become shared ownership.
    Shared,
    /// The receiver is the exclusive holder; requests of others travel along.
    Exclusive,
}

/// An answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Answer {
    /// Final, without the line: the node holds nothing that it could give. Look at the word again,
    /// after a pause.
    Dropped,
    /// Final, without the line: what stood in the way is gone. Look at the word again at once.
    Released,
    /// Not final: remembered, the answer will come.
    Queued,
    /// Final, without the line: a transaction of the node has locked it in a mode that does not go
    /// together with the request. Nothing is remembered. Accesses that do not wait for locks end.
    Busy,
}

/// What a message about a line says.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Message {
    /// An invalidation.
    Request(Request),
    /// An answer without the line.
    Answer {
        /// Who was asked.
        asked: ComputeNodeId,
        /// Which question.
        seq: Seq,
        /// The answer.
        answer: Answer,
    },
    /// An answer with the line, whose bytes were forwarded into the asker's frame before.
    Grant {
        /// Who was asked.
        asked: ComputeNodeId,
        /// Which question.
        seq: Seq,
        /// How the line is owned now.
        mode: GrantMode,
        /// Requests that travel along with exclusive ownership.
        travelling: Remembered,
    },
    /// The giver's operation on the word is complete: the grant of question `seq` is in the word.
    Settled {
        /// Which question.
        seq: Seq,
    },
    /// A final answer to a writer: the sender's copy is not used and its bit stays set, until the
    /// writer reports what became of this pledge.
    Pledged {
        /// Who pledges: not always who was asked, since questions travel.
        by: ComputeNodeId,
        /// Who was asked.
        asked: ComputeNodeId,
        /// Which question, and so the number of the pledge.
        seq: Seq,
    },
    /// The report on a pledge: the writer has the line, and the pledger's bit is gone.
    Taken {
        /// The writer.
        by: ComputeNodeId,
        /// Which pledge.
        seq: Seq,
    },
    /// The report on a pledge: nobody has written, and the pledger shares the line as before.
    GaveUp {
        /// The writer.
        by: ComputeNodeId,
        /// Which pledge.
        seq: Seq,
    },
}

/// How many requests a node remembers per line: one of every other node.
pub const REMEMBERED_MAX: usize = ComputeNodeId::MAX as usize - 1;

/// How many of them can travel with a hand-over. The others are sent on behind it.
pub const TRAVELLING_MAX: usize = 10;

/// Requests in order of arrival. The first two take no memory of their own: a record is made for
/// every miss, and most lines are wanted by few.
pub type Remembered = SmallVec<[Request; 2]>;
