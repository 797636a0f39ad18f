//! The watcher of a fabric: a function that sees every step of every batch.

use latchwork_verbs::{ComputeNodeId, Message, Target, WorkRequest};

use crate::fabric::SimFabric;
use crate::sight::{BatchStep, Sight};
use crate::world::World;

impl SimFabric {
    /// Shows `watcher` every step of every batch from now on, in the order of events. A new watcher
    /// replaces the earlier one. The watcher must not call the fabric. A watcher changes nothing in
    /// the world, not even the event hash.
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
