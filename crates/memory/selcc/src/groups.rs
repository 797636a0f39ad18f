//! The batches of a worker in flight: tags, and groups of batches.

use latchwork_cache::DirtyBounds;
use latchwork_latch::WordOp;
use latchwork_verbs::{GlobalAddr, LocalBuffer, VerbError};

use crate::write_back::Slot;

/// How often an operation or a message with an ambiguous completion is tried again. Then the
/// connection counts as dead.
pub(crate) const TRIES_MAX: u8 = 16;

/// The kind of a batch of this worker, encoded in the tag of its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tag {
    /// A word operation: the key of its group.
    Operation(usize),
    /// A probe of the latch word after an ambiguous completion: the key of the operation's group.
    Inspection(usize),
    /// A message, with the forwarded line if any: the key among the messages in flight.
    Letter(usize),
}

impl Tag {
    pub(crate) fn bits(self) -> u64 {
        let (key, kind) = match self {
            Tag::Operation(key) => (key, 0),
            Tag::Inspection(key) => (key, 1),
            Tag::Letter(key) => (key, 2),
        };
        (key as u64) << 2 | kind
    }

    pub(crate) fn from_bits(bits: u64) -> Tag {
        let key = (bits >> 2) as usize;
        match bits & 3 {
            0 => Tag::Operation(key),
            1 => Tag::Inspection(key),
            _ => Tag::Letter(key),
        }
    }
}

/// A word operation with its forwards.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) addr: GlobalAddr,
    /// The operation and the local buffer of the line's bytes. Set when the operation is posted:
    /// the forwards are posted before it.
    pub(crate) op: Option<(WordOp, LocalBuffer)>,
    /// The dirty bounds that the operation writes back.
    pub(crate) dirty: DirtyBounds,
    /// The write-back slot, if the operation does not write back from the frame.
    pub(crate) slot: Option<Slot>,
    pub(crate) old: u64,
    pub(crate) left: u32,
    pub(crate) tries: u8,
    pub(crate) failed: Option<VerbError>,
}
