//! Any small state machine: all orders that could explain the history are followed side by side, in
//! the order of time, as in Lowe's "Testing for linearizability" (2017).
//!
//! ```text
//!   what happens         explanations: {state, open calls that took effect}
//!   ----------------     --------------------------------------------------
//!   write 1 invoked      {0, -}
//!   write 2 invoked      {0, -}
//!   write 1 returns      {1, -}   {1, write 2}     write 2 not yet, or before write 1
//!   read returns 2       {2, write 2}              so write 2 came later
//! ```
//!
//! A call must have taken effect by the time it returns, and not before it is invoked. When the set
//! is empty, nothing explains the answers so far. Calls whose answer says that they changed nothing
//! take effect as soon as they can, which loses no explanation, so the set grows only with writes that
//! overlap. A call that never returned need not take effect; it does only where that changes
//! something, since else it might as well come later.

use super::Call;
use latchwork_simulation::Time;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// Calls on one object that may be open at once.
const OPEN_MAX: usize = 128;

/// Explanations that are followed side by side before the checker gives up.
const EXPLANATIONS_MAX: usize = 1 << 20;

/// An object: what its operations do, and which answers are right.
pub trait Model {
    /// What the object remembers.
    type State: Clone + Eq + Hash;
    /// An operation together with its answer.
    type Operation: Debug;

    /// The state after the operation, or none if in `state` it could not have given its answer.
    /// `answered` is false for a call that never returned; then its answer must not be looked at.
    fn apply(
        &self,
        state: &Self::State,
        operation: &Self::Operation,
        answered: bool,
    ) -> Option<Self::State>;

    /// Whether an operation with this answer leaves every state alone in which the answer is right.
    /// The checker is quick only if it knows that of reads.
    fn only_reads(&self, operation: &Self::Operation) -> bool;
}

/// Why a history is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ObjectViolation {
    /// No order explains the answers.
    #[error("nothing explains the answers up to {at}, when this call returned: {operation}")]
    Inexplicable {
        /// When the call returned.
        at: Time,
        /// The call, as its `Debug` form.
        operation: String,
    },
    /// So many calls overlap that the checker gave up. The history may be right or wrong.
    #[error("undecided: too many calls overlap at {at}")]
    Undecided {
        /// Where the checker stopped.
        at: Time,
    },
}

/// One explanation of the history so far: the state, and which open calls have taken effect.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Explanation<S> {
    state: S,
    effective: u128,
}

/// The calls that were invoked and have not returned, each in a slot.
struct Open<'a, M: Model> {
    model: &'a M,
    slots: [Option<&'a Call<M::Operation>>; OPEN_MAX],
}

impl<M: Model> Open<'_, M> {
    /// Applies the call in `slot`, if it is open, not effective yet, and possible.
    fn apply(&self, from: &Explanation<M::State>, slot: usize) -> Option<Explanation<M::State>> {
        let bit = 1 << slot;
        let call = self.slots[slot].filter(|_| from.effective & bit == 0)?;
        let answered = call.returned.is_some();
        let state = self.model.apply(&from.state, &call.operation, answered)?;
        (answered || state != from.state)
            .then_some(Explanation { state, effective: from.effective | bit })
    }

    /// Makes every open read effective whose answer is right.
    fn settle(&self, mut explanation: Explanation<M::State>) -> Explanation<M::State> {
        for slot in 0..OPEN_MAX {
            let read = self.slots[slot].is_some_and(|call| {
                call.returned.is_some() && self.model.only_reads(&call.operation)
            });
            if read && let Some(after) = self.apply(&explanation, slot) {
                explanation = after;
            }
        }
        explanation
    }
}

/// Checks the calls on one object that is in state `initial` at first.
///
/// A call that never returned may have happened at any time after its invocation, or not at all.
///
/// # Errors
///
/// Fails when no order of the calls explains their answers, or when the checker gives up.
pub fn check_object<M: Model>(
    model: &M,
    initial: M::State,
    calls: &[Call<M::Operation>],
) -> Result<(), ObjectViolation> {
    let mut open = Open { model, slots: [None; OPEN_MAX] };
    let mut explanations = HashSet::from([Explanation { state: initial, effective: 0 }]);
    let mut slot_of = vec![usize::MAX; calls.len()];
    for (at, is_return, index) in events(calls) {
        if is_return {
            let slot = slot_of[index];
            explanations = after_return(&open, explanations, slot, at)?;
            open.slots[slot] = None;
            if explanations.is_empty() {
                let operation = format!("{:?}", calls[index].operation);
                return Err(ObjectViolation::Inexplicable { at, operation });
            }
        } else {
            let free = open.slots.iter().position(Option::is_none);
            let slot = free.ok_or(ObjectViolation::Undecided { at })?;
            slot_of[index] = slot;
            open.slots[slot] = Some(&calls[index]);
        }
    }
    Ok(())
}

/// Invocations and responses in the order of time; at the same instant invocations come first,
/// since calls that touch are concurrent.
fn events<O>(calls: &[Call<O>]) -> Vec<(Time, bool, usize)> {
    let invocations = calls.iter().enumerate().map(|(index, call)| (call.invoked, false, index));
    let responses =
        calls.iter().enumerate().filter_map(|(index, call)| Some((call.returned?, true, index)));
    let mut events: Vec<_> = invocations.chain(responses).collect();
    events.sort();
    events
}

/// All explanations in which the call in `slot` has taken effect, with the slot free again.
fn after_return<M: Model>(
    open: &Open<'_, M>,
    explanations: HashSet<Explanation<M::State>>,
    slot: usize,
    at: Time,
) -> Result<HashSet<Explanation<M::State>>, ObjectViolation> {
    let bit = 1 << slot;
    let mut done = HashSet::new();
    let mut seen = HashSet::new();
    let mut to_follow: Vec<_> = explanations.into_iter().map(|e| open.settle(e)).collect();
    while let Some(mut explanation) = to_follow.pop() {
        if explanation.effective & bit != 0 {
            explanation.effective &= !bit;
            done.insert(explanation);
        } else if seen.insert(explanation.clone()) {
            let next = (0..OPEN_MAX).filter_map(|other| open.apply(&explanation, other));
            to_follow.extend(next.map(|after| open.settle(after)));
        }
        if seen.len() + done.len() + to_follow.len() > EXPLANATIONS_MAX {
            return Err(ObjectViolation::Undecided { at });
        }
    }
    Ok(done)
}

#[cfg(test)]
pub(super) mod test_models {
    use super::*;
    use crate::history::RegisterOperation;

    /// A register, to compare the two checkers.
    pub(in crate::history) struct Register;

    impl Model for Register {
        type State = u32;
        type Operation = RegisterOperation<u32>;

        fn apply(
            &self,
            state: &u32,
            operation: &RegisterOperation<u32>,
            answered: bool,
        ) -> Option<u32> {
            match operation {
                RegisterOperation::Write(value) => Some(*value),
                RegisterOperation::Read(value) => (!answered || value == state).then_some(*state),
            }
        }

        fn only_reads(&self, operation: &RegisterOperation<u32>) -> bool {
            matches!(operation, RegisterOperation::Read(_))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::test_models::Register;
    use super::*;
    use crate::history::RegisterOperation::{self, Read, Write};

    #[test]
    fn more_open_calls_than_slots_is_undecided_not_wrong() {
        let call = |i: u64| Call {
            invoked: Time::from_nanos(i),
            returned: None,
            operation: Write(i as u32),
        };
        let few: Vec<_> = (0..OPEN_MAX as u64).map(call).collect();
        assert_eq!(check_object(&Register, 0, &few), Ok(()));
        let many: Vec<_> = (0..=OPEN_MAX as u64).map(call).collect();
        assert!(matches!(
            check_object(&Register, 0, &many),
            Err(ObjectViolation::Undecided { .. })
        ));
    }

    fn span(operation: RegisterOperation<u32>, from: u64, to: u64) -> Call<RegisterOperation<u32>> {
        Call { invoked: Time::from_nanos(from), returned: Some(Time::from_nanos(to)), operation }
    }

    /// Bug: a write of what stood there already counted as effective at once, so that it could not come
    /// later, when something else stood there.
    #[test]
    fn a_write_of_the_same_value_may_come_later() {
        let history = [span(Write(0), 0, 100), span(Write(1), 10, 20), span(Read(0), 30, 40)];
        assert_eq!(check_object(&Register, 0, &history), Ok(()));
    }

    #[test]
    fn many_overlapping_reads_cost_nothing() {
        let mut history: Vec<_> = (0..100).map(|i| span(Read(i % 2), i.into(), 1000)).collect();
        history.push(span(Write(1), 50, 1000));
        assert_eq!(check_object(&Register, 0, &history), Ok(()));
        history.push(span(Read(0), 1001, 1002));
        assert!(matches!(
            check_object(&Register, 0, &history),
            Err(ObjectViolation::Inexplicable { .. })
        ));
    }
}
