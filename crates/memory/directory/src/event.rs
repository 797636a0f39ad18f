//! The events and actions of a line at a node, and the frame as the machine sees it.

use latchwork_latch::{Hold, Want};
use latchwork_verbs::ComputeNodeId;

use crate::message::{Directive, Message, Party, Sent};

/// An event at this node that concerns the line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Local code wants the line.
    Want(Want),
    /// The engine asks for a release of the line. The machine releases it only at rest, when local
    /// code does not use it.
    Evict,
    /// A message arrived.
    Received(Party, Message),
    /// The back-off after a refusal is over.
    Retry,
    /// The back-off after a refusal is over, and no local code waits any more.
    GiveUp,
    /// Local code may have stopped using the line, so directives are served if possible.
    Serve,
    /// This node is dead or has left. No message of it arrives from here on.
    Dead(ComputeNodeId),
    /// The open request certainly never reached the home, and the accesses that wait have ended.
    Unsent,
    /// The directive arrived after the report of its requester's death.
    Ignored(Directive),
}

/// An action for the engine. The engine does the actions in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send the message, behind its bytes. The frame must not change before they have arrived.
    /// [`Bytes::Line`](crate::Bytes::Line) with `buffer` 0 in a request stands for the own frame,
    /// which the engine fills in.
    Send(Sent),
    /// Report [`Event::Retry`] after a back-off.
    Pause,
    /// End the accesses that wait: the line is lost with this node.
    Fail(ComputeNodeId),
}

/// The node's copy of the line, as the machine sees it. Each call takes effect at once.
pub trait LocalCopy {
    /// Permits local code to use the bytes that are in the frame.
    fn publish(&mut self, hold: Hold);
    /// Permits local code to write the shared copy.
    fn promote(&mut self);
    /// Counts the whole copy as changed: the home's memory may lack changes.
    fn adopt(&mut self);
    /// Whether the copy has changes that the home's memory may lack.
    fn is_changed(&self) -> bool;
    /// Forbids all use of the copy, and returns `true`. If local code uses the copy, or has it
    /// reserved or locked, nothing changes and the result is `false`. The bytes stay.
    fn try_exclude(&mut self) -> bool;
    /// Permits the use of the excluded copy again, because its eviction was declined.
    fn restore(&mut self, hold: Hold);
    /// Forbids writing, and returns `true`. If local code is writing, or has the copy reserved or
    /// locked to write, nothing changes and the result is `false`.
    fn try_demote(&mut self) -> bool;
    /// The mode in which transactions of this node have locked the copy.
    fn locked(&self) -> Option<Want> {
        None
    }
    /// Ends the accesses that do not wait for locks, because another node has locked the line.
    /// Returns the strongest want of the remaining accesses.
    fn locked_out(&mut self, want: Want) -> Option<Want> {
        Some(want)
    }
}
