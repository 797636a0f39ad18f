//! Messages in flight, and the forwards whose arrival is unknown.

use latchwork_latch::Message;
use latchwork_verbs::{ComputeNodeId, LocalBuffer};

use crate::repeats::Stamp;
use crate::wire::{Body, Letter};

/// A line that is written into the frame of the receiver before the grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    /// The offset of the receiver's frame in the receiver's arena.
    pub(crate) remote: u64,
    /// The local bytes of the line.
    pub(crate) local: LocalBuffer,
}

/// The name of a message among all messages of this node. Message numbers are counted per receiver.
pub(crate) type Name = (ComputeNodeId, Stamp);

/// A message with its batch in flight, and all that is needed to send the message again.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: ComputeNodeId,
    pub(crate) stamp: Stamp,
    pub(crate) letter: Letter,
    pub(crate) ahead: Option<Bytes>,
    /// The group of the word operation that a forward belongs to. `None` once the forward has a
    /// pending probe in the record.
    pub(crate) group: Option<usize>,
    pub(crate) tries: u8,
}

/// A pending probe: a forward that may or may not have arrived.
#[derive(Debug)]
pub(crate) struct Doubt {
    pub(crate) sent: Sent,
}

impl Sent {
    pub(crate) fn name(&self) -> Name {
        (self.to, self.stamp)
    }

    pub(crate) fn is_question_of(&self, node: ComputeNodeId) -> bool {
        matches!(self.letter.body, Body::Line(Message::Request(request)) if request.from == node)
    }
}
