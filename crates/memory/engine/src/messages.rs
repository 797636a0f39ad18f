//! Messages in flight, and the forwards whose arrival is unknown.

use latchwork_verbs::{ComputeNodeId, GlobalAddr, LocalBuffer, RegionKey};

use crate::deduplicate::MessageNumber;
use crate::envelope::Body;

/// How often an operation or a message with an ambiguous completion is tried again. After so many
/// tries the target counts as dead.
pub const TRIES_MAX: u8 = 16;

/// A line that is written into memory of the receiver before the grant.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The receiver's region: its arena, or other memory.
    pub region: RegionKey,
    /// The offset in that region. In an arena it is that of a frame.
    pub remote: u64,
    /// The local bytes of the line.
    pub local: LocalBuffer,
}

/// The name of a message among all messages of this node. Message numbers are counted per receiver.
pub(crate) type Name = (ComputeNodeId, MessageNumber);

/// A message with its batch in flight, and all that is needed to send the message again.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: ComputeNodeId,
    pub(crate) stamp: MessageNumber,
    pub(crate) addr: GlobalAddr,
    pub(crate) body: Body,
    pub(crate) ahead: Option<Bytes>,
    /// The operation that a forward belongs to. `None` once the forward has a pending probe in the
    /// record.
    pub(crate) group: Option<usize>,
    /// Whether the line waits for an answer to this message.
    pub(crate) awaited: bool,
    pub(crate) tries: u8,
    /// The step of a [round](crate::rounds) in which the message was sent first.
    pub(crate) round: u64,
}

impl Sent {
    pub(crate) fn name(&self) -> Name {
        (self.to, self.stamp)
    }
}

/// A pending probe: a forward that may or may not have arrived.
#[derive(Debug)]
pub(crate) struct PendingProbe {
    pub(crate) sent: Sent,
}
