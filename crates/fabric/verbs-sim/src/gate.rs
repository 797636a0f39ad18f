//! [`Gate`]: holds chosen batches back, so that a test decides their order.
//!
//! Delays are random, so a race that needs three certain delays may not occur in a thousand seeds.
//! A gate holds the batches that its rule picks until the test releases them. To the code under
//! test, a gate looks like a slow network.
//!
//! ```text
//!   ring ──[There]──► effects at the target ──[Back]──► completion
//!                        └── message ──[Inbox]──► receiver
//! ```

use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};

use crate::passing::{GateCore, Held, Leg, Passing, Rule, What};
use crate::world::World;

/// Holds the batches that its rule picks; see [`SimFabric::gate`](crate::SimFabric::gate). Dropping
/// the gate releases all held batches and ends the rule.
pub struct Gate {
    core: Rc<GateCore>,
    world: Weak<World>,
}

impl Gate {
    pub(crate) fn new(world: &Rc<World>, rule: Box<Rule>) -> Gate {
        let core = Rc::new(GateCore { rule: RefCell::new(rule), held: RefCell::default() });
        world.add_gate(Rc::downgrade(&core));
        Gate { core, world: Rc::downgrade(world) }
    }

    /// The number of held batches.
    pub fn held(&self) -> usize {
        self.core.held.borrow().len()
    }

    /// Calls `at` with each held batch, in the order in which the batches came to the gate.
    pub fn look(&self, mut at: impl FnMut(&Passing<'_>)) {
        for held in self.core.held.borrow().iter() {
            let Held { leg, from, batch, .. } = held;
            let (target, requests) = (batch.target, batch.requests());
            at(&Passing { leg: *leg, from: *from, target, requests });
        }
    }

    /// Releases the oldest held batch at once. False when the gate holds no batch, or when the
    /// fabric is gone.
    pub fn release(&self) -> bool {
        self.release_if(|_| true)
    }

    /// Releases the oldest held batch for which `chosen` returns true. False when there is no such
    /// batch.
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

    /// Releases the oldest batch held at [`Leg::There`], and lets its connection fail. The
    /// connection cuts the batch off behind `done` of its requests, as
    /// [`Faults::fail_one_in`](crate::Faults::fail_one_in) does. False when there is no such batch.
    pub fn cut_off(&self, done: usize) -> bool {
        self.cut(done, None)
    }

    /// Like [`cut_off`](Gate::cut_off). Of the READ or WRITE at the cut exactly the first `words`
    /// words take effect, or all if it has fewer. So a test can go through all states in which the
    /// death of a node may leave a batch.
    pub fn tear(&self, done: usize, words: usize) -> bool {
        self.cut(done, Some(words))
    }

    fn cut(&self, done: usize, torn: Option<usize>) -> bool {
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
        world.cut_off(key, done, torn);
        world.go_on(leg, key);
        true
    }

    /// Delivers a copy of the oldest message held at [`Leg::Inbox`] for which `chosen` returns
    /// true. The gate keeps the message, so its release delivers it a second time. False when there
    /// is no such message.
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

    /// Releases all held batches at once, oldest first. The gate still holds batches that come to
    /// it later.
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
