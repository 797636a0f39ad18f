//! The operation slab: the action to take when a batch completes.

use std::task::Waker;

use latchwork_strict::strict_assert;
use latchwork_verbs::{AtomicOutcome, Completion, VerbError};
use slab::Slab;

use crate::buffers::Buffer;

pub(crate) type BatchResult = Result<AtomicOutcome, VerbError>;

/// The state of a batch: the owner of its result is the engine, a future, or no code at all.
///
/// ```text
///   engine    Engine ──completed──► removed, tag reported
///   future    Awaited ──completed──► Done ──polled or dropped──► removed
///                └──dropped──► Orphan ──completed──► removed
///   no owner  Orphan ──completed──► removed
/// ```
///
/// The buffer of a batch is freed when the entry of the batch is removed. So the buffer is not
/// freed before the completion, even when the future is dropped.
pub(crate) enum Operation {
    Engine { tag: u64 },
    Awaited { waker: Waker, buffer: Option<Buffer> },
    Done { result: BatchResult, buffer: Option<Buffer> },
    Orphan { buffer: Option<Buffer> },
}

impl Operation {
    /// Whether a future owns the batch or its result.
    fn has_future(&self) -> bool {
        matches!(self, Operation::Awaited { .. } | Operation::Done { .. })
    }
}

/// The action that the port must take after a completion, while no part of the port is borrowed.
pub(crate) enum After {
    Report { tag: u64, result: BatchResult },
    Wake(Waker),
    Free(Option<Buffer>),
}

/// The operations of one port. The token of a batch is the batch's key in the slab.
#[derive(Default)]
pub(crate) struct Operations(Slab<Operation>);

impl Operations {
    pub(crate) fn insert(&mut self, operation: Operation) -> u64 {
        let is_over = matches!(operation, Operation::Done { .. });
        strict_assert!(!is_over, "a batch has ended before it is posted");
        self.0.insert(operation) as u64
    }

    /// Removes an operation whose batch was refused, so that no completion will come.
    pub(crate) fn cancel(&mut self, token: u64) {
        let operation = self.0.remove(token as usize);
        let is_over = matches!(operation, Operation::Done { .. });
        strict_assert!(!is_over, "a batch that was refused has completed");
    }

    pub(crate) fn complete(&mut self, completion: Completion) -> After {
        let key = completion.token as usize;
        let result = completion.result;
        let operation = &mut self.0[key];
        match operation {
            &mut Operation::Engine { tag } => {
                self.0.remove(key);
                After::Report { tag, result }
            }
            Operation::Orphan { buffer } => {
                let buffer = buffer.take();
                self.0.remove(key);
                After::Free(buffer)
            }
            Operation::Awaited { waker, buffer } => {
                let (waker, buffer) =
                    (std::mem::replace(waker, Waker::noop().clone()), buffer.take());
                *operation = Operation::Done { result, buffer };
                After::Wake(waker)
            }
            Operation::Done { .. } => unreachable!("a batch completes once"),
        }
    }

    /// Returns the result when the batch has completed. Otherwise stores `waker`.
    pub(crate) fn poll(
        &mut self,
        token: u64,
        waker: &Waker,
    ) -> Option<(BatchResult, Option<Buffer>)> {
        let operation = &mut self.0[token as usize];
        strict_assert!(operation.has_future(), "a future polls a batch that is not its own");
        match operation {
            Operation::Awaited { waker: stored, .. } => stored.clone_from(waker),
            Operation::Done { result, buffer } => {
                let ended = (*result, buffer.take());
                self.0.remove(token as usize);
                return Some(ended);
            }
            Operation::Engine { .. } | Operation::Orphan { .. } => {}
        }
        None
    }

    /// Handles the drop of an operation's future. Returns the buffer if the batch has completed and
    /// had one.
    pub(crate) fn abandon(&mut self, token: u64) -> Option<Buffer> {
        let operation = &mut self.0[token as usize];
        // A future is also dropped while its thread unwinds.
        strict_assert!(
            operation.has_future() || std::thread::panicking(),
            "a future gives up a batch that is not its own"
        );
        match operation {
            Operation::Awaited { buffer, .. } => {
                let buffer = buffer.take();
                *operation = Operation::Orphan { buffer };
                None
            }
            Operation::Done { buffer, .. } => {
                let buffer = buffer.take();
                self.0.remove(token as usize);
                buffer
            }
            Operation::Engine { .. } | Operation::Orphan { .. } => None,
        }
    }

    /// The tokens of all batches without a completion.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = u64> {
        let is_over = |operation: &Operation| matches!(operation, Operation::Done { .. });
        self.0.iter().filter(move |(_, o)| !is_over(o)).map(|(key, _)| key as u64)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
