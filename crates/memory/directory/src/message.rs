//! The messages about a line, between nodes and the home of the line.

use latchwork_latch::{Hold, NodeSet, Want};
use latchwork_verbs::ComputeNodeId;
use smallvec::SmallVec;

/// The number of a line's exclusive ownerships so far, modulo [`Rules::modulus`](crate::Rules). All
/// tenures in the home's entry are of its present era.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Era(pub u8);

/// What a holder shall do with its copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Give a copy to the requester, and keep one.
    Copy,
    /// Give the line to the requester. Ends the tenure.
    Move,
    /// Discard the copy: the requester has the bytes from elsewhere. Ends the tenure.
    Invalidate,
}

/// The demand on a holder to serve a requester. A directive belongs to one tenure of the holder:
/// a copy is of the tenure's era, and the end of a tenure has the era of the requester, which
/// follows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Directive {
    /// What the holder shall do.
    pub kind: Kind,
    /// The era of the requester's tenure.
    pub era: Era,
    /// For the end of a tenure: the number of copies that the tenure has to serve before.
    pub copies: u8,
    /// The requester.
    pub to: ComputeNodeId,
    /// The requester's frame, which the machines do not interpret.
    pub buffer: u64,
}

/// A node's request for a line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Request {
    /// The wanted access.
    pub mode: Want,
    /// The requester's frame, which the machines do not interpret.
    pub buffer: u64,
}

/// From where a requester gets the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Source {
    /// From the home's memory, with the reply.
    Memory,
    /// The requester's shared copy is valid. Before it becomes exclusive, it has to serve the
    /// readers that the home has directed to it.
    Kept {
        /// The number of copies of the ending tenure.
        copies: u8,
    },
    /// From a holder.
    Holder,
}

/// The home's answer to a request, which begins a tenure of the requester.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Reply {
    /// The ownership. It may be more than the requester wants.
    pub mode: Want,
    /// The era of the tenure.
    pub era: Era,
    /// From where the bytes come.
    pub source: Source,
    /// The directive that the requester sends to the holder of the changes.
    pub holder: Option<(ComputeNodeId, Kind, u8)>,
    /// The other sharers, which the requester invalidates.
    pub others: NodeSet,
}

/// A message about a line.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Message {
    /// To the home: a node requests the line.
    Request(Request),
    /// To the home: a node gives the line up. Its changes are in the home's memory. It has served
    /// this many copies in its tenure.
    Evict {
        /// The number of copies.
        served: u8,
    },
    /// A directive is served, or a request is complete.
    Done {
        /// The era of the tenure that the request begins.
        era: Era,
        /// The copy stays, because the requester is dead.
        kept: bool,
    },
    /// A lock keeps the receiver's request waiting, or the request that the home serves. The
    /// message may be late, and about an earlier request.
    Busy {
        /// The era of the tenure that the request begins. From the home: any.
        era: Era,
    },
    /// From the home: the answer to a request.
    Reply(Reply),
    /// From the home: the request is refused, try again.
    Retry,
    /// From the home: the answer to an eviction.
    Evicted {
        /// Whether the tenure is over. Otherwise directives are on their way.
        accepted: bool,
    },
    /// To a holder: a directive.
    Directive(Directive),
    /// From a holder: the line is in the receiver's frame.
    Line {
        /// The ownership of the receiver.
        mode: Want,
        /// The era of the receiver's tenure.
        era: Era,
    },
    /// From a holder: the line does not come.
    Gone {
        /// The era of the receiver's tenure.
        era: Era,
    },
    /// To the home: the sender waits for a dead node.
    Stuck {
        /// The dead node.
        dead: ComputeNodeId,
    },
    /// From the home, which recovers the line: complete the open request, and request nothing.
    Settle {
        /// The era of the recovery.
        era: Era,
        /// The dead nodes. The receiver acts when no message of them can arrive any more.
        dead: NodeSet,
        /// The line of the receiver's request was to come from a dead node.
        failed: bool,
    },
    /// To the home: no request of the sender is open.
    Settled {
        /// The era of the recovery.
        era: Era,
    },
    /// From the home: the copy is of this era now.
    Rebase {
        /// The era of the recovery.
        era: Era,
        /// The copy counts as changed as a whole: the home's memory may lack changes.
        adopt: bool,
    },
    /// To the home: the answer to [`Message::Rebase`].
    Rebased {
        /// The era of the recovery.
        era: Era,
        /// The ownership of the sender.
        hold: Hold,
        /// The home's memory may lack changes that the sender's copy has.
        changed: bool,
    },
    /// From the home: this node has died, and only its copy had the newest bytes of the line.
    Lost {
        /// The dead node.
        node: ComputeNodeId,
    },
}

/// The receiver of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Party {
    /// The home of the line.
    Home,
    /// A compute node.
    Node(ComputeNodeId),
}

/// The bytes that arrive before the message, in one batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Bytes {
    /// None.
    Nothing,
    /// The whole line, into the frame of the receiver. The sender's frame is the source, or the
    /// home's memory.
    Line {
        /// The frame.
        buffer: u64,
    },
    /// The changes, into the home's memory.
    Changes,
}

/// A message to send.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Sent {
    /// The receiver.
    pub to: Party,
    /// The bytes.
    pub bytes: Bytes,
    /// The message.
    pub message: Message,
}

impl Sent {
    pub(crate) fn home(message: Message) -> Sent {
        Sent { to: Party::Home, bytes: Bytes::Nothing, message }
    }

    pub(crate) fn node(to: ComputeNodeId, message: Message) -> Sent {
        Sent { to: Party::Node(to), bytes: Bytes::Nothing, message }
    }
}

/// Directives in order of arrival. Few nodes want most lines.
pub(crate) type Directives = SmallVec<[Directive; 1]>;
