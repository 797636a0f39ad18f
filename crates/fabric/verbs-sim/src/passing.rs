//! [`Passing`]: a batch that comes to a gate; [`GateCore`]: the rule of a gate and the batches that
//! the gate holds.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use latchwork_verbs::{ComputeNodeId, Message, Target, WorkRequest};

use crate::batch::Batch;
use crate::inbox::Mailbox;

/// The stage of a batch at which a gate can hold the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leg {
    /// The batch is submitted, and none of its requests has taken effect.
    There,
    /// The message has been delivered, and its batch continues to its completion. But the receiver
    /// has not seen the message yet, as if the receiving worker had lost its CPU. Other messages
    /// overtake the held message.
    Inbox,
    /// The whole batch has taken effect, and its completion has not come. The batch still counts
    /// against the NIC's limits.
    Back,
}

/// A batch that comes to a gate.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// The stage of the batch.
    pub leg: Leg,
    /// The node that posted the batch.
    pub from: ComputeNodeId,
    /// The target of the batch.
    pub target: Target,
    /// The requests of the batch; at [`Leg::Inbox`] only the message.
    pub requests: &'a [WorkRequest],
}

pub(crate) type Rule = dyn FnMut(&Passing<'_>) -> bool;

/// The part of a gate that the fabric uses.
pub(crate) struct GateCore {
    pub(crate) rule: RefCell<Box<Rule>>,
    pub(crate) held: RefCell<VecDeque<Held>>,
}

/// A batch that a gate holds.
pub(crate) struct Held {
    pub(crate) leg: Leg,
    pub(crate) from: ComputeNodeId,
    pub(crate) batch: Batch,
    pub(crate) what: What,
}

/// What continues when the gate releases the batch: a flight by its key, or a delivered message.
pub(crate) enum What {
    Flight(u32),
    Message(Rc<Mailbox>, Message),
}

impl GateCore {
    pub(crate) fn picks(&self, passing: &Passing<'_>) -> bool {
        (self.rule.borrow_mut())(passing)
    }

    pub(crate) fn hold(&self, leg: Leg, from: ComputeNodeId, batch: Batch, what: What) {
        self.held.borrow_mut().push_back(Held { leg, from, batch, what });
    }
}
