//! [`Completions`]: the completion queue of an endpoint.

use std::cell::RefCell;
use std::collections::VecDeque;

use latchwork_runtime::Notifier;
use latchwork_verbs::Completion;

/// The completion queue, with the notifier of the endpoint's worker.
pub(crate) struct Completions {
    pub(crate) notifier: Notifier,
    pub(crate) arrived: RefCell<VecDeque<Completion>>,
}

impl Completions {
    pub(crate) fn push(&self, completion: Completion) {
        self.arrived.borrow_mut().push_back(completion);
        self.notifier.notify();
    }
}
