//! The checker for any small state machine. The checker goes through the events in the order of
//! time and keeps a set of *explanations*, as in Lowe's "Testing for linearizability" (2017). An
//! explanation is a possible state of the object, with the open calls that have taken effect:
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
//! 1. A call takes effect between its invocation and its return. When the set of explanations is
//!    empty, no order explains the answers so far.
//! 2. A read with a response takes effect as soon as its answer is right. A read changes no state,
//!    so the early effect loses no explanation. So the set grows only with overlapping writes.
//! 3. A call that never returned need not take effect. The checker lets it take effect only in a
//!    state that it changes. In another state its effect is invisible, so leaving the call open
//!    loses no explanation.
//!
//! With many overlapping writes the set is far too large, although nearly every order is an
//! explanation. So a quick pass comes first. The quick pass keeps only the laziest explanations: a
//! call takes effect only when its own return or the answer of another call requires that. An
//! explanation that survives the quick pass to the end is valid. If none survives, the full pass
//! follows all orders.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

use latchwork_simulation::Time;
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};

use super::Call;

/// Maximum number of open calls on one object: the bits of a `u128`. A call that never returned
/// stays open.
const OPEN_MAX: usize = 128;

/// The checker gives up when it would follow more explanations than this at one return.
const EXPLANATIONS_MAX: usize = 1 << 19;

/// Maximum number of explanations that the quick pass keeps after each return.
const KEPT_MAX: usize = 512;

/// When a call returns in the quick pass, at most this many other calls take effect before it.
/// Reads with a response do not count.
const EAGER_MAX: usize = 2;

/// The model of an object: the effect and the right answer of each operation in each state.
pub trait ObjectModel {
    /// The state of the object.
    type State: Clone + Eq + Hash;
    /// An operation together with its answer.
    type Operation: Debug;

    /// The state after the operation. `None` if the operation could not give its answer in `state`.
    /// `answered` is false for a call that never returned. In this case the model ignores the
    /// answer.
    fn apply(
        &self,
        state: &Self::State,
        operation: &Self::Operation,
        answered: bool,
    ) -> Option<Self::State>;

    /// Whether an operation changes no state in which its answer is right. The checker is fast only
    /// if reads return true here.
    fn only_reads(&self, operation: &Self::Operation) -> bool;
}

/// Why [`check_object`] does not accept a history.
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
    /// Too many calls overlap, so the checker gave up. The history may be right or wrong.
    #[error("undecided: too many calls overlap at {at}")]
    Undecided {
        /// The time of the event at which the checker stopped.
        at: Time,
    },
}

/// One explanation of the history so far: the state, and the open calls that have taken effect.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Explanation<S> {
    state: S,
    effective: u128,
}

/// The calls that were invoked and have not returned. Each has a slot.
struct Open<'a, M: ObjectModel> {
    model: &'a M,
    slots: [Option<&'a Call<M::Operation>>; OPEN_MAX],
    /// Bit sets of slots: all slots in use, and the slots of reads that have a response.
    used: u128,
    reads: u128,
}

/// The positions of the set bits.
fn bits(mut of: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (of != 0).then_some(of.trailing_zeros() as usize)?;
        of &= of - 1;
        Some(at)
    })
}

impl<'a, M: ObjectModel> Open<'a, M> {
    fn new(model: &'a M) -> Self {
        Open { model, slots: [None; OPEN_MAX], used: 0, reads: 0 }
    }

    /// Takes a slot for an invoked call; `None` when all slots are taken.
    fn invoke(&mut self, call: &'a Call<M::Operation>) -> Option<usize> {
        let slot = (!self.used).trailing_zeros() as usize;
        strict_assert!(slot >= OPEN_MAX || self.slots[slot].is_none(), "two calls have one slot");
        if slot == OPEN_MAX {
            return None;
        }
        self.slots[slot] = Some(call);
        self.used |= 1 << slot;
        if call.returned.is_some() && self.model.only_reads(&call.operation) {
            strict_assert!(self.used.count_ones() as usize <= OPEN_MAX);
            self.reads |= 1 << slot;
        }
        Some(slot)
    }

    fn leave(&mut self, slot: usize) {
        self.slots[slot] = None;
        strict_assert!(self.used & (1 << slot) != 0, "a call ends that is not open");
        self.used &= !(1 << slot);
        self.reads &= !(1 << slot);
        strict_assert!(self.reads & !self.used == 0, "a read is open whose call has ended");
    }

    /// The explanation after the call in `slot` takes effect. `None` if the call is not open, has
    /// taken effect already, or cannot give its answer in this state. `None` also for a call
    /// without a response that changes nothing.
    fn apply(&self, from: &Explanation<M::State>, slot: usize) -> Option<Explanation<M::State>> {
        let bit = 1 << slot;
        let call = self.slots[slot].filter(|_| from.effective & bit == 0)?;
        strict_assert!(self.used & bit != 0, "an operation is applied that is not open");
        let answered = call.returned.is_some();
        let state = self.model.apply(&from.state, &call.operation, answered)?;
        (answered || state != from.state)
            .then_some(Explanation { state, effective: from.effective | bit })
    }

    /// Lets every open read take effect whose answer is right in the state.
    fn settle(&self, mut explanation: Explanation<M::State>) -> Explanation<M::State> {
        for slot in bits(self.reads & !explanation.effective) {
            if let Some(after) = self.apply(&explanation, slot) {
                explanation = after;
            }
        }
        explanation
    }

    /// The open calls in the order of their returns.
    fn by_return(&self) -> Vec<usize> {
        let mut slots: Vec<_> = bits(self.used).collect();
        strict_assert_eq!(slots.len(), self.used.count_ones() as usize);
        slots.sort_by_key(|&slot| self.slots[slot].map(Call::end));
        slots
    }
}

/// Checks that the calls on one object are linearizable. `initial` is the state before all calls.
///
/// A call that never returned may have taken effect at any time after its invocation, or not at
/// all.
///
/// # Errors
///
/// Fails when no order of the calls explains their answers, or when the checker gives up.
pub fn check_object<M: ObjectModel>(
    model: &M,
    initial: M::State,
    calls: &[Call<M::Operation>],
) -> Result<(), ObjectViolation> {
    let quick = follow(model, initial.clone(), calls, |open, explanations, slot, _| {
        Ok(laziest(open, explanations, slot))
    });
    quick.or_else(|_| follow(model, initial, calls, after_return))
}

type Explanations<M> = Vec<Explanation<<M as ObjectModel>::State>>;

/// Goes through the events of a history. At each return, `after_return` computes the explanations
/// that remain.
fn follow<M: ObjectModel>(
    model: &M,
    initial: M::State,
    calls: &[Call<M::Operation>],
    after_return: impl Fn(
        &Open<'_, M>,
        Explanations<M>,
        usize,
        Time,
    ) -> Result<Explanations<M>, ObjectViolation>,
) -> Result<(), ObjectViolation> {
    let mut open = Open::new(model);
    let mut explanations = vec![Explanation { state: initial, effective: 0 }];
    let mut slot_of = vec![usize::MAX; calls.len()];
    for (at, is_return, index) in events(calls) {
        if is_return {
            let slot = slot_of[index];
            strict_assert_ne!(slot, usize::MAX, "a call returns before it was made");
            explanations = after_return(&open, explanations, slot, at)?;
            open.leave(slot);
            if explanations.is_empty() {
                let operation = format!("{:?}", calls[index].operation);
                return Err(ObjectViolation::Inexplicable { at, operation });
            }
        } else {
            slot_of[index] = open.invoke(&calls[index]).ok_or(ObjectViolation::Undecided { at })?;
        }
    }
    Ok(())
}

/// Invocations and responses in the order of time. At one instant invocations come first, because a
/// call that returns at the instant of another's invocation counts as concurrent.
fn events<O>(calls: &[Call<O>]) -> Vec<(Time, bool, usize)> {
    let invocations = calls.iter().enumerate().map(|(index, call)| (call.invoked, false, index));
    let responses =
        calls.iter().enumerate().filter_map(|(index, call)| Some((call.returned?, true, index)));
    let mut events: Vec<_> = invocations.chain(responses).collect();
    strict_assert!(events.len() <= 2 * calls.len());
    events.sort();
    events
}

// Both functions below return explanations in the order in which they were found, not in the order
// of a hash. So every run keeps the same explanations, and the verdict repeats.

/// All explanations in which the call in `slot`, which returns, has taken effect. The bit of the
/// slot is cleared for the next call.
fn after_return<M: ObjectModel>(
    open: &Open<'_, M>,
    explanations: Explanations<M>,
    slot: usize,
    at: Time,
) -> Result<Explanations<M>, ObjectViolation> {
    let bit = 1 << slot;
    let (mut done, mut known) = (Vec::new(), HashSet::new());
    strict_assert!(open.used & bit != 0, "a call returns that is not open");
    let mut seen = HashSet::new();
    let mut to_follow: Vec<_> = explanations.into_iter().map(|e| open.settle(e)).collect();
    while let Some(mut explanation) = to_follow.pop() {
        if explanation.effective & bit != 0 {
            explanation.effective &= !bit;
            if known.insert(explanation.clone()) {
                done.push(explanation);
            }
        } else if seen.insert(explanation.clone()) {
            let next = bits(open.used).filter_map(|other| open.apply(&explanation, other));
            to_follow.extend(next.map(|after| open.settle(after)));
        }
        if seen.len() + done.len() + to_follow.len() > EXPLANATIONS_MAX {
            return Err(ObjectViolation::Undecided { at });
        }
    }
    Ok(done)
}

/// The laziest explanations in which the call in `slot`, which returns, has taken effect: at most
/// [`KEPT_MAX`]. The bit of the slot is cleared for the next call.
fn laziest<M: ObjectModel>(
    open: &Open<'_, M>,
    explanations: Explanations<M>,
    slot: usize,
) -> Explanations<M> {
    let bit = 1 << slot;
    let others = open.by_return();
    strict_assert!(others.len() <= OPEN_MAX, "more calls are open than slots");
    let (mut done, mut known) = (Vec::new(), HashSet::new());
    strict_assert!(open.used & bit != 0, "a call returns that is not open");
    let mut seen = HashSet::new();
    let mut front: Vec<_> = explanations.into_iter().map(|e| open.settle(e)).collect();
    for eager in 0..=EAGER_MAX {
        let mut next = Vec::new();
        for explanation in front {
            let effective = explanation.effective & bit != 0;
            let applied =
                if effective { Some(explanation.clone()) } else { open.apply(&explanation, slot) };
            if let Some(applied) = applied {
                let mut after = open.settle(applied);
                after.effective &= !bit;
                if known.insert(after.clone()) {
                    done.push(after);
                }
            }
            if effective || eager == EAGER_MAX {
                continue;
            }
            for &other in others.iter().filter(|&&other| other != slot) {
                let Some(after) = open.apply(&explanation, other) else { continue };
                let after = open.settle(after);
                if next.len() < KEPT_MAX && seen.insert(after.clone()) {
                    next.push(after);
                }
            }
        }
        if done.len() >= KEPT_MAX {
            break;
        }
        front = next;
    }
    done.sort_by_key(|explanation: &Explanation<M::State>| explanation.effective.count_ones());
    done.truncate(KEPT_MAX);
    done
}

#[cfg(test)]
pub(super) mod test_models {
    use super::*;
    use crate::calls::RegisterOperation;

    /// The model of a register, to compare [`check_object`] with `check_register`.
    pub(in crate::calls) struct Register;

    impl ObjectModel for Register {
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
    use crate::calls::RegisterOperation::{self, Read, Write};

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

    /// Bug: a write of the value that the register already held took effect at once. So the write
    /// could not take effect later, when the register held another value.
    #[test]
    fn a_write_of_the_same_value_may_come_later() {
        let history = [span(Write(0), 0, 100), span(Write(1), 10, 20), span(Read(0), 30, 40)];
        assert_eq!(check_object(&Register, 0, &history), Ok(()));
    }

    /// Thirty overlapping writes have far too many orders for the full pass. Nearly any order is an
    /// explanation.
    #[test]
    fn many_overlapping_writes_are_explained_when_some_lazy_order_does() {
        let write = |i: u32| span(Write(i), u64::from(i), 1_000 + 10 * u64::from(i));
        let mut history: Vec<_> = (0..30).map(write).collect();
        history.push(span(Read(29), 2_000, 2_010));
        assert_eq!(check_object(&Register, 99, &history), Ok(()));
        // No call wrote this value.
        history.push(span(Read(98), 2_020, 2_030));
        assert_ne!(check_object(&Register, 99, &history), Ok(()));
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
