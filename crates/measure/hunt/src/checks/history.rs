//! Checks the recorded calls in two ways. For each object, one order explains all answers and
//! agrees with time. For all objects together, one order explains all answers and keeps each task's
//! own order.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use latchwork_history::calls::{Access, Call, RegisterOperation, check_register, check_sequential};

use super::{Verdict, listed};
use crate::WorldCheck;

/// Maximum number of calls that the text of a violation shows.
const SHOWN_MAX: usize = 60;

/// A recorded call on an object with versioned values.
pub(crate) trait Versioned: Display {
    /// A value of the object. Each write has a different value.
    type Value: Copy + Eq + Hash + Debug;

    /// The call with its times, for the check of linearizability.
    fn timed(&self) -> Call<RegisterOperation<Self::Value>>;

    /// The caller, the object, and the versions that were read and written, for the check of
    /// sequential consistency.
    fn access(&self) -> Access<u32, u64>;
}

/// Checks calls on objects that have the value `initial` at first. The calls of each task are in
/// the task's order.
pub(crate) fn check<C: Versioned>(initial: C::Value, calls: &[C]) -> Verdict {
    let mut of: Vec<(u64, &C)> = calls.iter().map(|call| (call.access().object, call)).collect();
    of.sort_by_key(|(object, _)| *object);
    for calls in of.chunk_by(|a, b| a.0 == b.0) {
        check_object(initial, calls)?;
    }
    let accesses: Vec<_> = calls.iter().map(Versioned::access).collect();
    check_sequential(&accesses).map_err(|violation| {
        let named = violation.calls().into_iter().map(|at| format!("call {at}: {}", calls[at]));
        (WorldCheck::SequentialConsistency, format!("{violation}:{}", listed(named, SHOWN_MAX)))
    })
}

fn check_object<C: Versioned>(initial: C::Value, calls: &[(u64, &C)]) -> Verdict {
    let timed: Vec<_> = calls.iter().map(|(_, call)| call.timed()).collect();
    check_register(initial, &timed).map_err(|violation| {
        let mut calls: Vec<_> =
            calls.iter().map(|(_, call)| (call.timed().invoked, call)).collect();
        calls.sort_by_key(|(invoked, _)| *invoked);
        let calls = listed(calls.into_iter().map(|(_, call)| call), SHOWN_MAX);
        (WorldCheck::Linearizability, format!("{violation}:{calls}"))
    })
}
