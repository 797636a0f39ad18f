//! [`Gate`]: holds chosen batches back, so that a test decides what comes first.
//!
//! Delays are drawn at random; a race that needs three of them to fall just so may not occur in a
//! thousand seeds. A gate stands on the way of batches that its rule picks, and lets them pass when
//! it is told to. Code above sees nothing but a slow network.
//!
//! ```text
//!   ring ──[There]──► effects at the target ──[Back]──► completion
//!                        └── message ──[Inbox]──► receiver
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};

use latchwork_verbs::{ComputeNodeId, Message, Request, Target};

use crate::fabric::World;
use crate::flight::Batch;
use crate::inbox::Mailbox;

/// Where a batch is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leg {
    /// Submitted, and nothing of it has taken effect.
    There,
    /// Its message has been delivered, and the batch goes on to complete; but nobody has acted on
    /// the message yet, as when the worker that took it out of the inbox lost its CPU. Others
    /// overtake it.
    Inbox,
    /// All of it has taken effect, and the completion has not come. Until then it keeps its place
    /// in the NIC's queues.
    Back,
}

/// A batch that comes to a gate.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Where it is.
    pub leg: Leg,
    /// Who posted it.
    pub from: ComputeNodeId,
    /// Whom it is for.
    pub target: Target,
    /// Its requests; at [`Leg::Inbox`] the message alone.
    pub requests: &'a [Request],
}

/// Holds the batches that its rule picks; see [`Fabric::gate`](crate::Fabric::gate). Dropping it
/// lets all of them go on, and holds no more.
pub struct Gate {
    core: Rc<GateCore>,
    world: Weak<World>,
}

type Rule = dyn FnMut(&Passing<'_>) -> bool;

pub(crate) struct GateCore {
    rule: RefCell<Box<Rule>>,
    held: RefCell<VecDeque<Held>>,
}

struct Held {
    leg: Leg,
    from: ComputeNodeId,
    batch: Batch,
    what: What,
}

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

impl Gate {
    pub(crate) fn new(world: &Rc<World>, rule: Box<Rule>) -> Gate {
        let core = Rc::new(GateCore { rule: RefCell::new(rule), held: RefCell::default() });
        world.add_gate(Rc::downgrade(&core));
        Gate { core, world: Rc::downgrade(world) }
    }

    /// How many batches it holds.
    pub fn held(&self) -> usize {
        self.core.held.borrow().len()
    }

    /// Shows the batches that it holds, first come first.
    pub fn look(&self, mut at: impl FnMut(&Passing<'_>)) {
        for held in self.core.held.borrow().iter() {
            let Held { leg, from, batch, .. } = held;
            let (target, requests) = (batch.target, batch.requests());
            at(&Passing { leg: *leg, from: *from, target, requests });
        }
    }

    /// Lets the first batch that it holds go on, at once. False when it holds none.
    pub fn release(&self) -> bool {
        self.release_if(|_| true)
    }

    /// Lets the first batch go on of those for which `chosen` holds. False when there is none.
    pub fn release_if(&self, mut chosen: impl FnMut(&Passing<'_>) -> bool) -> bool {
        let taken = {
            let mut held = self.core.held.borrow_mut();
            let at = held.iter().position(|Held { leg, from, batch, .. }| {
                let (target, requests) = (batch.target, batch.requests());
                chosen(&Passing { leg: *leg, from: *from, target, requests })
            });
            at.and_then(|at| held.remove(at))
        };
        let (Some(held), Some(world)) = (taken, self.world.upgrade()) else { return false };
        match held.what {
            What::Flight(key) => world.go_on(held.leg, key),
            What::Message(mailbox, message) => mailbox.put(message),
        }
        true
    }

    /// Lets the first batch go on that it holds at [`Leg::There`], under a connection that fails:
    /// cut off behind `done` of its requests, as
    /// [`Faults::fail_one_in`](crate::Faults::fail_one_in) does it. False when it holds none.
    pub fn cut_off(&self, done: usize) -> bool {
        let taken = {
            let mut held = self.core.held.borrow_mut();
            let at = held.iter().position(|held| held.leg == Leg::There);
            at.and_then(|at| held.remove(at))
        };
        let (Some(Held { what: What::Flight(key), leg, .. }), Some(world)) =
            (taken, self.world.upgrade())
        else {
            return false;
        };
        world.cut_off(key, done);
        world.go_on(leg, key);
        true
    }

    /// Delivers a copy of the first message that it holds at [`Leg::Inbox`] and for which `chosen`
    /// holds, and keeps the message: whenever that goes on, it arrives for the second time. False
    /// when there is none.
    pub fn deliver_copy(&self, mut chosen: impl FnMut(&Passing<'_>) -> bool) -> bool {
        let copy = self.core.held.borrow().iter().find_map(|Held { leg, from, batch, what }| {
            let (target, requests) = (batch.target, batch.requests());
            let picked = chosen(&Passing { leg: *leg, from: *from, target, requests });
            match what {
                What::Message(mailbox, message) if picked => Some((Rc::clone(mailbox), *message)),
                _ => None,
            }
        });
        copy.map(|(mailbox, message)| mailbox.put(message)).is_some()
    }

    /// Lets all that it holds go on, at once and in the order in which they came. Those that come
    /// later are still held.
    pub fn release_all(&self) {
        for _ in 0..self.held() {
            self.release();
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.release_all();
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("held", &self.held()).finish_non_exhaustive()
    }
}
