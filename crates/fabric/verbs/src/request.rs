//! Work requests, messages and completions: everything that a worker posts, and everything that a
//! worker polls.

use crate::address::{ComputeNodeId, LocalBuffer};
use crate::error::VerbError;
use crate::extent::Extent;
use crate::limits::BATCH_ATOMICS_MAX;

/// One verb with its addresses: an element of a batch. Offsets and lengths are in bytes and
/// multiples of 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkRequest {
    /// Copies `local.len` bytes from the target into the local buffer.
    ///
    /// The words arrive in any order. With concurrent writes the copy may be torn between any two
    /// words.
    Read {
        /// First byte on the target.
        remote: u64,
        /// Destination; belongs to the fabric until the batch completes.
        local: LocalBuffer,
    },
    /// Like [`WorkRequest::Read`], with a condition on the last atomic before the READ in the
    /// batch.
    ///
    /// The poster needs the READ only if that atomic found `value` in its word under `mask`.
    /// Otherwise a fabric may leave the READ out: the copy would cost the poster's own CPU time for
    /// nothing. A NIC cannot check the condition, and always reads. So the content of the buffer is
    /// unspecified when the condition is false. Without an atomic before the READ, the word counts
    /// as 0.
    ReadIf {
        /// First byte on the target.
        remote: u64,
        /// Destination; belongs to the fabric until the batch completes.
        local: LocalBuffer,
        /// The bits of the word that the condition compares.
        mask: u64,
        /// The value that those bits must have.
        value: u64,
    },
    /// Copies the local buffer to the target. Other nodes may see the words in any order.
    Write {
        /// First byte on the target.
        remote: u64,
        /// Source; belongs to the fabric until the batch completes. The fabric may read it at any
        /// time before the completion.
        local: LocalBuffer,
    },
    /// Writes one word. The value travels in the request (an inline WRITE).
    WriteWord {
        /// The word on the target.
        remote: u64,
        /// Its new value.
        value: u64,
    },
    /// Sets a word to `desired` if the word is `expected`. The completion has the word's old value.
    CompareSwap {
        /// The word on the target.
        remote: u64,
        /// The value that lets the swap happen.
        expected: u64,
        /// The value to store.
        desired: u64,
    },
    /// Adds `add` to a word, wrapping. The completion has the word's old value.
    FetchAdd {
        /// The word on the target.
        remote: u64,
        /// The summand; a subtraction is the addition of the two's complement.
        add: u64,
    },
    /// Puts a message into the target's inbox. Only compute nodes have an inbox.
    Send(Message),
}

impl WorkRequest {
    /// The kind of the verb, for [`WorkRequestKind::before`].
    pub const fn kind(&self) -> WorkRequestKind {
        match self {
            WorkRequest::Read { .. } | WorkRequest::ReadIf { .. } => WorkRequestKind::Read,
            WorkRequest::Write { .. } | WorkRequest::WriteWord { .. } => WorkRequestKind::Write,
            WorkRequest::CompareSwap { .. } | WorkRequest::FetchAdd { .. } => {
                WorkRequestKind::Atomic
            }
            WorkRequest::Send(_) => WorkRequestKind::Send,
        }
    }

    /// The offset and the length in bytes of the target memory that the request touches; `None` for
    /// a message.
    pub const fn remote(&self) -> Option<(u64, u64)> {
        match self {
            WorkRequest::Read { remote, local }
            | WorkRequest::ReadIf { remote, local, .. }
            | WorkRequest::Write { remote, local } => Some((*remote, local.len as u64)),
            WorkRequest::WriteWord { remote, .. }
            | WorkRequest::CompareSwap { remote, .. }
            | WorkRequest::FetchAdd { remote, .. } => Some((*remote, 8)),
            WorkRequest::Send(_) => None,
        }
    }

    /// Changes the offset on the target to its place in one region that has both ranges of the
    /// target's memory ([`Extent::place`]).
    #[inline]
    pub fn place(&mut self, extent: Extent) {
        match self {
            WorkRequest::Read { remote, .. }
            | WorkRequest::ReadIf { remote, .. }
            | WorkRequest::Write { remote, .. }
            | WorkRequest::WriteWord { remote, .. }
            | WorkRequest::CompareSwap { remote, .. }
            | WorkRequest::FetchAdd { remote, .. } => *remote = extent.place(*remote),
            WorkRequest::Send(_) => {}
        }
    }

    /// The local buffer of the request, if the request has one.
    pub const fn local(&self) -> Option<LocalBuffer> {
        match self {
            WorkRequest::Read { local, .. }
            | WorkRequest::ReadIf { local, .. }
            | WorkRequest::Write { local, .. } => Some(*local),
            _ => None,
        }
    }

    /// The request without its condition, for a fabric that executes every READ.
    #[must_use]
    pub const fn unconditional(self) -> WorkRequest {
        match self {
            WorkRequest::ReadIf { remote, local, .. } => WorkRequest::Read { remote, local },
            other => other,
        }
    }
}

/// The kinds of verbs that the order of the contract distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkRequestKind {
    /// [`WorkRequest::Read`].
    Read,
    /// [`WorkRequest::Write`] and [`WorkRequest::WriteWord`].
    Write,
    /// [`WorkRequest::CompareSwap`] and [`WorkRequest::FetchAdd`].
    Atomic,
    /// [`WorkRequest::Send`].
    Send,
}

impl WorkRequestKind {
    /// Whether a request of this kind takes effect, as a whole, before any part of a `later`
    /// request of the same batch. A fabric promises no other order.
    ///
    /// A WRITE comes before every later request, and an atomic comes before a later READ. Some of
    /// the other orders would need the fence bit of a work request (InfiniBand architecture, volume
    /// 1, work request operation ordering), and batches have no fence bit. The remaining orders are
    /// not promised, because no code of this project needs them.
    pub const fn before(self, later: WorkRequestKind) -> bool {
        matches!(
            (self, later),
            (WorkRequestKind::Write, _) | (WorkRequestKind::Atomic, WorkRequestKind::Read)
        )
    }
}

/// A message from one compute node to another. The post copies its payload of 112 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender, as the sender itself states.
    pub from: ComputeNodeId,
    /// The payload.
    pub body: [u64; Message::WORDS],
}

impl Message {
    /// Words of payload.
    pub const WORDS: usize = 14;
}

/// What the atomics of a batch returned.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AtomicOutcome {
    /// The old values of the words, in the order of the atomics in the batch. Missing atomics read
    /// as zero.
    pub old: [u64; BATCH_ATOMICS_MAX],
}

/// The report that a batch has taken effect or has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The token of [`Endpoint::post`](crate::Endpoint::post).
    pub token: u64,
    /// The results of the atomics, or the reason of the failure. A failed batch may have taken
    /// effect in part.
    pub result: Result<AtomicOutcome, VerbError>,
}
