//! What a worker posts: requests in ordered batches, and what comes back.

use crate::address::{ComputeNodeId, LocalBuffer};
use crate::error::VerbError;

/// Requests in one batch at most.
pub const BATCH_MAX: usize = 4;

/// Atomics (compare-and-swap, fetch-and-add) in one batch at most.
pub const BATCH_ATOMICS_MAX: usize = 2;

/// One verb. Offsets and lengths are in bytes and multiples of 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Copies `local.len` bytes from the target into the local buffer.
    ///
    /// Not placed in address order, and torn at any 8-byte word when others write at the same time.
    Read {
        /// First byte on the target.
        remote: u64,
        /// Destination; the fabric's until the batch completes.
        local: LocalBuffer,
    },
    /// As [`Request::Read`], but of use to the poster only if the last atomic before it in the
    /// batch found `value` in its word under `mask`. Where it did not, a fabric may leave the READ
    /// out: on one that copies with the poster's own CPU it is work for nothing. A NIC, which
    /// cannot know, does it. So what the buffer holds then is unspecified. Without an atomic before
    /// it in the batch, the word counts as 0.
    ReadIf {
        /// First byte on the target.
        remote: u64,
        /// Destination; the fabric's until the batch completes.
        local: LocalBuffer,
        /// The bits of the word that count.
        mask: u64,
        /// What they have to be.
        value: u64,
    },
    /// Copies the local buffer to the target; others may see any of its words first.
    Write {
        /// First byte on the target.
        remote: u64,
        /// Source; the fabric's until the batch completes, and read at any time until then.
        local: LocalBuffer,
    },
    /// Writes one word, whose value travels in the request (an inline WRITE).
    WriteWord {
        /// The word on the target.
        remote: u64,
        /// Its new value.
        value: u64,
    },
    /// Sets a word to `desired` if it is `expected`; the outcome has what it was before.
    CompareSwap {
        /// The word on the target.
        remote: u64,
        /// The value that lets the swap happen.
        expected: u64,
        /// The value to store.
        desired: u64,
    },
    /// Adds `add` to a word, wrapping; the outcome has what it was before.
    FetchAdd {
        /// The word on the target.
        remote: u64,
        /// The summand; a subtraction is the addition of the two's complement.
        add: u64,
    },
    /// Puts a message in the target's inbox; only to compute nodes.
    Send(Message),
}

impl Request {
    /// What kind of verb this is, as far as order is concerned.
    pub const fn kind(&self) -> Kind {
        match self {
            Request::Read { .. } | Request::ReadIf { .. } => Kind::Read,
            Request::Write { .. } | Request::WriteWord { .. } => Kind::Write,
            Request::CompareSwap { .. } | Request::FetchAdd { .. } => Kind::Atomic,
            Request::Send(_) => Kind::Send,
        }
    }

    /// The bytes that the request touches on the target, as offset and length; none for a message.
    pub const fn remote(&self) -> Option<(u64, u64)> {
        match self {
            Request::Read { remote, local }
            | Request::ReadIf { remote, local, .. }
            | Request::Write { remote, local } => Some((*remote, local.len as u64)),
            Request::WriteWord { remote, .. }
            | Request::CompareSwap { remote, .. }
            | Request::FetchAdd { remote, .. } => Some((*remote, 8)),
            Request::Send(_) => None,
        }
    }

    /// The local buffer, when the request has one.
    pub const fn local(&self) -> Option<LocalBuffer> {
        match self {
            Request::Read { local, .. }
            | Request::ReadIf { local, .. }
            | Request::Write { local, .. } => Some(*local),
            _ => None,
        }
    }

    /// What a fabric executes that leaves nothing out: a READ without its condition.
    #[must_use]
    pub const fn unconditional(self) -> Request {
        match self {
            Request::ReadIf { remote, local, .. } => Request::Read { remote, local },
            other => other,
        }
    }
}

/// The kinds of verbs between which the contract tells order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`Request::Read`].
    Read,
    /// [`Request::Write`] and [`Request::WriteWord`].
    Write,
    /// [`Request::CompareSwap`] and [`Request::FetchAdd`].
    Atomic,
    /// [`Request::Send`].
    Send,
}

impl Kind {
    /// Whether a request of this kind takes effect, as a whole, before any part of a `later`
    /// request of the same batch. This is the whole of the order that a fabric promises.
    ///
    /// A WRITE goes before whatever follows it, and an atomic before a READ. The rest would need
    /// the fence bit of a work request (InfiniBand architecture, volume 1, work request operation
    /// ordering), which batches do not have, or is an order that nothing here needs.
    pub const fn before(self, later: Kind) -> bool {
        matches!((self, later), (Kind::Write, _) | (Kind::Atomic, Kind::Read))
    }
}

/// A message from one compute node to another: 112 bytes of payload, copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender, as it says itself.
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
pub struct Outcome {
    /// The words' values before, in the order of the atomics in the batch; zero where there was
    /// none.
    pub old: [u64; BATCH_ATOMICS_MAX],
}

/// The end of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// What [`Endpoint::post`](crate::Endpoint::post) was given.
    pub token: u64,
    /// What the atomics returned, or why the batch failed. A failed batch may have taken effect in
    /// part.
    pub result: Result<Outcome, VerbError>,
}
