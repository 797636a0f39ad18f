//! [`BufferedRecord`]: the recorded actions of all tasks, and their check.

use crate::checks::Verdict;
use crate::checks::buffers::{self, Event};
use crate::scenario::ScenarioStoreOrder;

/// The recorded actions of all tasks.
pub(crate) struct BufferedRecord {
    pub(super) order: ScenarioStoreOrder,
    pub(super) events: Vec<Event>,
}

impl BufferedRecord {
    pub(crate) fn merge(&mut self, other: BufferedRecord) {
        self.events.extend(other.events);
    }

    pub(crate) fn judge(&self) -> Verdict {
        buffers::check(self.order, &self.events)
    }
}
