//! [`judge_keys`]: the check of the calls on each key.

use std::cell::Cell;

use latchwork_history::calls::{Call, ObjectModel, ObjectViolation, check_object};

use super::recorder::Calls;
use crate::WorldCheck;
use crate::checks::{CheckResult, listed};

/// Checks that one order per key explains all answers; keys are absent at first. The result is the
/// number of keys for which this is not known. Two kinds of writes make the search endless: many
/// overlapping writes on one key, and many failed writes that may take effect at any later time.
/// Such a key is not a failure.
pub(in crate::workloads) fn judge_keys<M, S>(model: &M, calls: &Calls<M::Operation>) -> CheckResult
where
    M: ObjectModel<State = Option<S>>,
{
    let undecided = Cell::new(0);
    let explained = calls.check(|calls| {
        let judged = match check_object(model, None, calls) {
            Err(ObjectViolation::Undecided { .. }) => {
                undecided.set(undecided.get() + 1);
                Ok(())
            }
            judged => judged,
        };
        judged.map_err(|violation| {
            let mut calls: Vec<_> = calls.iter().collect();
            calls.sort_by_key(|call| call.invoked);
            format!("{violation}:{}", listed(calls.into_iter().map(shown), CALLS_SHOWN))
        })
    });
    explained.map(|()| undecided.get()).map_err(|(key, violation)| {
        (WorldCheck::Linearizability, format!("key {key}: {violation}"))
    })
}

const CALLS_SHOWN: usize = 80;

fn shown<O: std::fmt::Debug>(call: &Call<O>) -> String {
    match call.returned {
        Some(returned) => format!("{} to {returned}: {:?}", call.invoked, call.operation),
        None => format!("{}, no end: {:?}", call.invoked, call.operation),
    }
}
