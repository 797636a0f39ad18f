//! [`Closed`]: the endpoint of a node that has fenced itself and may not touch memory any more.

use std::collections::VecDeque;

use latchwork_strict::strict_assert;
use latchwork_verbs::{Completion, Target, VerbError, WorkRequest};

/// An endpoint that submits nothing. Batches that were in flight, and all later batches, complete
/// with [`VerbError::SelfFenced`].
#[derive(Default)]
pub struct Closed {
    completed: VecDeque<Completion>,
}

impl Closed {
    /// Ends the batch with this token.
    pub(crate) fn fail(&mut self, token: u64) {
        strict_assert!(
            self.completed.iter().all(|other| other.token != token),
            "the batch {token} ends twice"
        );
        self.completed.push_back(Completion { token, result: Err(VerbError::SelfFenced) });
    }
}

impl latchwork_verbs::Endpoint for Closed {
    fn post(&mut self, _: Target, token: u64, _: &[WorkRequest]) -> Result<(), VerbError> {
        // The error comes as a completion and not from the post, because every poster handles
        // failed completions.
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
