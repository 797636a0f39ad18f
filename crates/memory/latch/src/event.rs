//! The events and actions of a line machine, and the frame as the machine sees it.

use latchwork_verbs::ComputeNodeId;

use crate::hold::{Hold, Want};
use crate::message::{InvalidationRequest, LatchMessage};
use crate::{LatchWord, NodeSet, WordOp};

/// An event at this node that concerns the line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Local code wants the line.
    Want(Want),
    /// The engine asks for a release of the line: the frame is needed, the release is early, or the
    /// node leaves. The machine releases the line only if the machine is at rest and local code
    /// does not use the line.
    Evict,
    /// The engine asks for a write-back of the changes in place. They must be in a copy that local
    /// code does not change. Report this event only while
    /// [`Line::can_persist`](crate::Line::can_persist) is true: otherwise nothing happens.
    Persist,
    /// The operation is complete, and its forwards are complete too.
    Completed {
        /// The operation.
        op: WordOp,
        /// The word that the atomic verb found. After a probe: a word with the same consequences
        /// ([`WordProbe::Over`](crate::WordProbe::Over)).
        old: LatchWord,
    },
    /// A message arrived.
    Received(LatchMessage),
    /// The back-off after a refusal is over, or the hold-off of this node is over.
    Retry,
    /// The invalidation requests to these nodes were not sent, because the nodes are dead or have
    /// left. No local access waits for the line any more. Report this event only while
    /// [`Line::can_unask`](crate::Line::can_unask) is true.
    Unsent(NodeSet),
    /// A node has died, and nothing of it takes effect any more. The node answers all queued
    /// requests, and from now on its rules are [quiet](crate::Rules::quiet).
    LetGo,
    /// All nodes have let go of the dead nodes of [`Rules::gone`](crate::Rules::gone), and what
    /// they sent before has arrived. So an open request has no answer any more, and an unsettled
    /// line has no giver.
    Lost,
    /// Local code may have stopped using the line, so queued requests are served if possible.
    Serve,
}

/// An action for the engine. The engine does the actions in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Post the operation. Report its completion by [`Event::Completed`].
    Post(WordOp),
    /// Send the message.
    Send {
        /// The receiver.
        to: ComputeNodeId,
        /// The content.
        message: LatchMessage,
    },
    /// Forward the line into the requester's frame, then send the grant, in one batch. The bytes
    /// must not change until the operation that is posted next is complete.
    Forward {
        /// The granted request, with the address of the requester's frame.
        request: InvalidationRequest,
        /// The grant.
        message: LatchMessage,
    },
    /// Report [`Event::Retry`] after a back-off that fits this priority.
    Pause {
        /// The number of failed attempts of this node, at most
        /// [`Rules::priority_max`](crate::Rules::priority_max).
        priority: u8,
    },
    /// This node gave its shared copy up for a writer of this priority. Local readers that want the
    /// line again should hold off for a while (the spin windows of SELCC 5.3.2).
    HoldOff {
        /// The writer's priority.
        priority: u8,
    },
    /// This node released the line for nodes that must look at the word again. Report
    /// [`Event::Retry`] after a hold-off that fits the priority of those nodes, so that they get to
    /// the word first.
    ReleaseHoldOff {
        /// The highest priority of those nodes.
        priority: u8,
    },
}

/// The node's copy of the line, as the machine sees the copy. Each call takes effect at once.
pub trait LocalCopy {
    /// Permits local code to use the fetched or forwarded bytes, which are in the frame.
    fn publish(&mut self, hold: Hold);
    /// Permits local code to write the shared copy.
    fn promote(&mut self);
    /// Forbids all use of the shared copy while the copy is pledged, and returns `true`. If local
    /// code uses the copy, or has it reserved or locked, nothing changes and the result is `false`.
    /// The bytes stay.
    fn try_suspend(&mut self) -> bool;
    /// Permits reads of the suspended copy again, because no node has written.
    fn restore(&mut self);
    /// Discards the suspended copy, because a writer has taken the line.
    fn lose(&mut self);
    /// Forbids all use of the copy, and returns `true`. If local code uses the copy, or has it
    /// reserved or locked, nothing changes and the result is `false`.
    fn try_invalidate(&mut self) -> bool;
    /// The priority with which a starved writer of this node won the line, or 0. The frame keeps
    /// the priority, because a machine at rest is dropped. A [published](LocalCopy::publish) copy
    /// begins with 0.
    fn starved(&self) -> u8 {
        0
    }
    /// Sets the priority with which a starved writer won the line.
    fn set_starved(&mut self, priority: u8) {
        let _ = priority;
    }
    /// Forbids writing, and returns `true`. If local code is writing, or has the copy reserved or
    /// locked to write, nothing changes and the result is `false`.
    fn try_demote(&mut self) -> bool;
    /// The mode in which transactions of this node have locked the copy; `None` without a lock. A
    /// lock may end at any time. A lock that stays begins only between two steps of the machine, on
    /// a copy that is held in at least the mode of the lock. A transaction on another thread that
    /// comes too late is seen to have a lock until it has checked the state of the copy.
    fn locked(&self) -> Option<Want> {
        None
    }
    /// Ends the accesses that do not wait for locks, because another node has locked the line.
    /// Returns the strongest want of the remaining accesses.
    fn locked_out(&mut self, want: Want) -> Option<Want> {
        Some(want)
    }
}
