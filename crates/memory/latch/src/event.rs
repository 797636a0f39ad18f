//! What goes into the machine of a line, what comes out, and the frame as it sees it.

use latchwork_verbs::ComputeNodeId;

use crate::message::{Message, Request};
use crate::{LatchWord, NodeSet, WordOp};

/// What a node holds of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hold {
    /// Nothing: no copy may be read.
    Nothing,
    /// A copy to read.
    Shared,
    /// The only copy, to write.
    Exclusive,
}

/// What local code asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Want {
    /// To read.
    Shared,
    /// To write.
    Exclusive,
}

impl Want {
    pub(crate) fn is_met_by(self, hold: Hold) -> bool {
        match self {
            Want::Shared => hold >= Hold::Shared,
            Want::Exclusive => hold == Hold::Exclusive,
        }
    }
}

/// Something that happened to the line at this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Local code wants the line.
    Want(Want),
    /// The frame is wanted for another line.
    Evict,
    /// The operation is complete, forwards included; the word was `old` before.
    Completed {
        /// The operation.
        op: WordOp,
        /// What the atomic returned.
        old: LatchWord,
    },
    /// A message arrived.
    Received(Message),
    /// The pause after refused questions is over, or the time for which this node stands back.
    Retry,
    /// Questions to these nodes were not sent, since they are gone: nobody waits for the line any
    /// more. To be reported only while [`Line::can_unask`](crate::Line::can_unask) is true.
    Unsent(NodeSet),
    /// Local code may have let go of the line.
    Serve,
}

/// Something to do, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Post the operation; report its completion.
    Post(WordOp),
    /// Send the message.
    Send {
        /// The receiver.
        to: ComputeNodeId,
        /// What it says.
        message: Message,
    },
    /// Forward the line into the asker's frame, then send the grant, in one batch. The bytes stay
    /// as they are until the operation posted next is complete.
    Forward {
        /// The request that is granted, with the place of the asker's frame.
        request: Request,
        /// How the line is granted.
        message: Message,
    },
    /// Report [`Event::Retry`] after a pause that fits this priority.
    Pause {
        /// How often the line was refused.
        priority: u8,
    },
    /// The line was given up for a writer of this priority: local readers that come back at once
    /// should hold off for a while (the window of SELCC 5.3.2).
    HoldOff {
        /// The writer's priority.
        priority: u8,
    },
    /// The line was given back for nodes that have to look for it at the word, and this one leaves
    /// them the time to get there: report [`Event::Retry`] after a while that fits their priority.
    StandBack {
        /// The highest of their priorities.
        priority: u8,
    },
}

/// The node's copy of the line, as the machine sees it. The calls take effect at once.
pub trait LocalCopy {
    /// Fetched or forwarded bytes are in place: let local code use them.
    fn publish(&mut self, hold: Hold);
    /// The shared copy may now be written.
    fn promote(&mut self);
    /// Forbids all use of the shared copy for the time of a pledge, unless local code is using it
    /// or has it reserved. Its bytes stay.
    fn try_suspend(&mut self) -> bool;
    /// The suspended copy may be read again: nobody has written.
    fn restore(&mut self);
    /// The suspended copy is worth nothing any more.
    fn lose(&mut self);
    /// Forbids all use, unless local code is using the copy or has it reserved: then nothing
    /// happens and the result is `false`.
    fn try_invalidate(&mut self) -> bool;
    /// The priority that a starved writer of this node won the line with; 0 when none did. The
    /// frame keeps it, since a machine at rest is forgotten. A copy that is
    /// [published](LocalCopy::publish) begins with 0.
    fn starved(&self) -> u8 {
        0
    }
    /// Notes the priority of a starved writer.
    fn set_starved(&mut self, priority: u8) {
        let _ = priority;
    }
    /// Forbids writing, unless local code is writing or has the copy reserved.
    fn try_demote(&mut self) -> bool;
    /// How transactions of this node have locked the copy; `None` when none has. It may end at any
    /// time, but begins only between the machine's steps, at a copy that is held at least so.
    fn locked(&self) -> Option<Want> {
        None
    }
    /// Another node has locked the line: accesses that do not wait for locks end. What the others
    /// still want.
    fn locked_out(&mut self, want: Want) -> Option<Want> {
        Some(want)
    }
}
