//! [`judge_keys`]: checks the calls on each key.

use std::cell::Cell;

use latchwork_history::calls::{Call, ObjectModel, ObjectViolation, check_object};

use super::recorder::Calls;
use crate::WorldCheck;
use crate::checks::{CheckResult, listed};

/// Checks that for each key one order of the calls explains all answers. Keys are absent at first.
/// Returns the number of keys for which the check gave up, which is no failure. The check gives up
/// if a key has too many overlapping writes. Failed writes count as overlapping, because they may
/// take effect at any later time.
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
