//! [`Closed`]: what takes the place of an endpoint whose node may not touch memory any more.

use std::collections::VecDeque;

use latchwork_verbs::{Completion, Request, Target, VerbError};

/// An endpoint that submits nothing: whatever was in flight, or is posted, completes with
/// [`VerbError::Barred`].
#[derive(Default)]
pub struct Closed {
    completed: VecDeque<Completion>,
}

impl Closed {
    /// Ends the batch of this token.
    pub(crate) fn fail(&mut self, token: u64) {
        self.completed.push_back(Completion { token, result: Err(VerbError::Barred) });
    }
}

impl latchwork_verbs::Endpoint for Closed {
    fn post(&mut self, _: Target, token: u64, _: &[Request]) -> Result<(), VerbError> {
        // As a completion and not at once: whoever posts is ready for a target that is gone, which
        // comes this way.
        self.fail(token);
        Ok(())
    }

    fn ring(&mut self) {}

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        let some = !self.completed.is_empty();
        self.completed.drain(..).for_each(sink);
        some
    }

    fn in_flight(&self) -> usize {
        self.completed.len()
    }

    fn may_park(&self) -> bool {
        self.completed.is_empty()
    }
}
