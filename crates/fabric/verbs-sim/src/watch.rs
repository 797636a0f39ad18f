//! [`Sight`]: what somebody sees who watches a fabric from outside.
//!
//! ```text
//!   Posted ──► Struck (its atomics) ──► Delivered (its message) ──► Completed
//!      └── Fault: delayed, cut off            └── Fault: lost, repeated
//! ```

use std::time::Duration;

use latchwork_verbs::{ComputeNodeId, Message, Outcome, Request, Target, VerbError};

use crate::fabric::{Fabric, World};

/// A step of a batch under way, for logs; see [`Fabric::watch`].
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The batch: unique among those under way, and used again later. `None` for a message that
    /// arrives once more: its batch may be complete.
    pub flight: Option<u32>,
    /// Who posted it.
    pub from: ComputeNodeId,
    /// Whom it is for.
    pub target: Target,
    /// Its requests.
    pub requests: &'a [Request],
    /// What happens to it.
    pub what: Step<'a>,
}

/// What happens to a batch.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The NIC takes it.
    Posted,
    /// An atomic has taken effect: the word before and after.
    Struck {
        /// The place of the atomic in the batch.
        request: usize,
        /// The word that it found.
        old: u64,
        /// The word that it left.
        new: u64,
    },
    /// Its message comes to the inbox.
    Delivered(&'a Message),
    /// Its poster can learn of its end.
    Completed(&'a Result<Outcome, VerbError>),
    /// A fault strikes it.
    Fault(Strike),
}

/// A fault that strikes a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// It takes so much longer.
    Delayed(Duration),
    /// Its message never arrives.
    Lost,
    /// Its message arrives once more, so much later.
    Repeated(Duration),
    /// It will fail, cut off behind so many of its requests.
    CutOff(usize),
}

pub(crate) type Watcher = dyn FnMut(&Sight<'_>);

impl Fabric {
    /// Shows `watcher` every step of every batch from now on, in the order of events. There is one
    /// watcher, the last. It must not call the fabric, and nothing in the world depends on it.
    pub fn watch(&self, watcher: impl FnMut(&Sight<'_>) + 'static) {
        *self.world.watcher.borrow_mut() = Some(Box::new(watcher));
    }
}

impl World {
    pub(crate) fn is_watched(&self) -> bool {
        self.watcher.borrow().is_some()
    }

    /// Shows the watcher what happens to a flight, if there is a watcher.
    pub(crate) fn see(&self, key: u32, what: Step<'_>) {
        if let Some(watcher) = self.watcher.borrow_mut().as_mut() {
            let flights = self.flights.borrow();
            let flight = &flights[key as usize];
            let (from, target) = (flight.lane.own.id, flight.batch.target);
            let (flight, requests) = (Some(key), flight.batch.requests());
            watcher(&Sight { flight, from, target, requests, what });
        }
    }

    /// Shows the watcher a message that arrives once more.
    pub(crate) fn see_again(&self, to: ComputeNodeId, message: &Message) {
        if let Some(watcher) = self.watcher.borrow_mut().as_mut() {
            let (from, target) = (message.from, Target::Compute(to, 0));
            let requests = &[Request::Send(*message)];
            let what = Step::Delivered(message);
            watcher(&Sight { flight: None, from, target, requests, what });
        }
    }
}
