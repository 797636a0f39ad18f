//! The operation slab: the action to take when a batch completes.

use std::task::Waker;

use latchwork_strict::strict_assert;
use latchwork_verbs::{AtomicOutcome, Completion, VerbError};
use slab::Slab;

/// The number of a scratch slot of the port.
pub(crate) type SlotIndex = u16;

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
/// The scratch slot of a batch is released when the entry of the batch is removed. So the slot is
/// not released before the completion, even when the future is dropped.
pub(crate) enum Operation {
    Engine { tag: u64 },
    Awaited { waker: Waker, slot: Option<SlotIndex> },
    Done { result: BatchResult, slot: Option<SlotIndex> },
    Orphan { slot: Option<SlotIndex> },
}

impl Operation {
    /// The scratch slot that the operation keeps.
    fn slot(&self) -> Option<SlotIndex> {
        match *self {
            Operation::Engine { .. } => None,
            Operation::Awaited { slot, .. }
            | Operation::Done { slot, .. }
            | Operation::Orphan { slot } => slot,
        }
    }

    /// Whether a future owns the batch or its result.
    fn has_future(&self) -> bool {
        matches!(self, Operation::Awaited { .. } | Operation::Done { .. })
    }
}

/// The action that the port must take after a completion, while no part of the port is borrowed.
pub(crate) enum After {
    Report { tag: u64, result: BatchResult },
    Wake(Waker),
    Release(Option<SlotIndex>),
}

/// The operations of one port. The token of a batch is the batch's key in the slab.
#[derive(Default)]
pub(crate) struct Operations(Slab<Operation>);

impl Operations {
    pub(crate) fn insert(&mut self, operation: Operation) -> u64 {
        let is_over = matches!(operation, Operation::Done { .. });
        strict_assert!(!is_over, "a batch has ended before it is posted");
        let slot = operation.slot();
        strict_assert!(
            slot.is_none() || self.0.iter().all(|(_, other)| other.slot() != slot),
            "two batches have the slot {slot:?}"
        );
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
        match &mut self.0[key] {
            &mut Operation::Engine { tag } => {
                self.0.remove(key);
                After::Report { tag, result }
            }
            &mut Operation::Orphan { slot } => {
                self.0.remove(key);
                After::Release(slot)
            }
            Operation::Awaited { waker, slot } => {
                let (waker, slot) = (std::mem::replace(waker, Waker::noop().clone()), *slot);
                self.0[key] = Operation::Done { result, slot };
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
    ) -> Option<(BatchResult, Option<SlotIndex>)> {
        let operation = &mut self.0[token as usize];
        strict_assert!(operation.has_future(), "a future polls a batch that is not its own");
        match operation {
            Operation::Awaited { waker: stored, .. } => stored.clone_from(waker),
            &mut Operation::Done { result, slot } => {
                self.0.remove(token as usize);
                return Some((result, slot));
            }
            Operation::Engine { .. } | Operation::Orphan { .. } => {}
        }
        None
    }

    /// Handles the drop of an operation's future. Returns the scratch slot if the batch has
    /// completed and had one.
    pub(crate) fn abandon(&mut self, token: u64) -> Option<SlotIndex> {
        let operation = &mut self.0[token as usize];
        // A future is also dropped while its thread unwinds.
        strict_assert!(
            operation.has_future() || std::thread::panicking(),
            "a future gives up a batch that is not its own"
        );
        match operation {
            &mut Operation::Awaited { slot, .. } => {
                *operation = Operation::Orphan { slot };
                None
            }
            &mut Operation::Done { slot, .. } => {
                self.0.remove(token as usize);
                slot
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
