//! [`Sight`]: one step of a batch, as an observer of the fabric sees it.
//!
//! ```text
//!   Posted ──► Struck (its atomics) ──► Delivered (its message) ──► Completed
//!      └── Fault: delayed, cut off            └── Fault: lost, repeated
//! ```

use std::time::Duration;

use latchwork_verbs::{AtomicOutcome, ComputeNodeId, Message, Target, VerbError, WorkRequest};

use crate::fabric::{SimFabric, World};

/// A step of a batch in flight, for logs; see [`Fabric::watch`].
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The key of the batch. It is unique among the batches in flight, and is reused later. `None`
    /// for the second copy of a message: its batch may be complete.
    pub flight: Option<u32>,
    /// The node that posted the batch.
    pub from: ComputeNodeId,
    /// The target of the batch.
    pub target: Target,
    /// The requests of the batch.
    pub requests: &'a [WorkRequest],
    /// The step.
    pub what: BatchStep<'a>,
}

/// A step of a batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchStep<'a> {
    /// The NIC takes the batch.
    Posted,
    /// An atomic has taken effect.
    Struck {
        /// The position of the atomic in the batch.
        request: usize,
        /// The word before the atomic.
        old: u64,
        /// The word after the atomic.
        new: u64,
    },
    /// The message of the batch arrives at the inbox.
    Delivered(&'a Message),
    /// The poster can learn of the end of the batch.
    Completed(&'a Result<AtomicOutcome, VerbError>),
    /// A fault happens to the batch.
    Fault(Strike),
}

/// A fault of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// The batch takes this much longer.
    Delayed(Duration),
    /// The message of the batch never arrives.
    Lost,
    /// The message of the batch arrives a second time, this much later.
    Duplicated(Duration),
    /// The batch will fail, cut off behind this many of its requests.
    CutOff(usize),
}

pub(crate) type Watcher = dyn FnMut(&Sight<'_>);

impl SimFabric {
    /// Shows `watcher` every step of every batch from now on, in the order of events. A new watcher
    /// replaces the earlier one. The watcher must not call the fabric, and nothing in the world
    /// depends on it.
    pub fn watch(&self, watcher: impl FnMut(&Sight<'_>) + 'static) {
        *self.world.watcher.borrow_mut() = Some(Box::new(watcher));
    }
}

impl World {
    pub(crate) fn is_watched(&self) -> bool {
        self.watcher.borrow().is_some()
    }

    /// Shows the watcher, if there is one, a step of a flight.
    pub(crate) fn see(&self, key: u32, what: BatchStep<'_>) {
        if let Some(watcher) = self.watcher.borrow_mut().as_mut() {
            let flights = self.flights.borrow();
            let flight = &flights[key as usize];
            let (from, target) = (flight.lane.own.id, flight.batch.target);
            let (flight, requests) = (Some(key), flight.batch.requests());
            watcher(&Sight { flight, from, target, requests, what });
        }
    }

    /// Shows the watcher the second copy of a message.
    pub(crate) fn see_again(&self, to: ComputeNodeId, message: &Message) {
        if let Some(watcher) = self.watcher.borrow_mut().as_mut() {
            let (from, target) = (message.from, Target::Compute(to, 0));
            let requests = &[WorkRequest::Send(*message)];
            let what = BatchStep::Delivered(message);
            watcher(&Sight { flight: None, from, target, requests, what });
        }
    }
}
