//! [`Calls`]: the recorded calls on many objects, and the check that for each object one order
//! explains all answers.
//!
//! Where lines of dead nodes are recovered, a dead node's last writes may be undone if no living
//! node has seen them. The check then has two parts:
//!
//! 1. Until a node dies nothing of it is undone. So its calls count as those of any node.
//! 2. From then on, the last writes of dead nodes to an object may be missing: one of them, with
//!    all that begin after its end, and some that overlap it. Reads from its begin on do not count.
//!    Their answers were judged in the first part.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use latchwork_history::calls::{Call, ObjectModel, ObjectViolation, check_object};
use latchwork_runtime::Time;

use super::{CheckResult, listed};
use crate::WorldCheck;

/// Maximum number of calls that the text of a violation shows.
const SHOWN_MAX: usize = 80;

/// The calls on many objects, each with the node that made it.
pub(crate) struct Calls<O> {
    objects: BTreeMap<u64, Vec<(usize, Call<O>)>>,
    /// The nodes whose last writes may be undone, and the time of their death.
    dead: BTreeMap<usize, Time>,
}

impl<O> Default for Calls<O> {
    fn default() -> Self {
        Calls { objects: BTreeMap::new(), dead: BTreeMap::new() }
    }
}

impl<O: Clone + Debug> Calls<O> {
    /// Adds a call of a node. The order of adding does not matter.
    pub(crate) fn add(&mut self, node: usize, object: u64, call: Call<O>) {
        self.objects.entry(object).or_default().push((node, call));
    }

    pub(crate) fn merge(&mut self, other: Calls<O>) {
        for (object, mut calls) in other.objects {
            self.objects.entry(object).or_default().append(&mut calls);
        }
    }

    /// From the given time of its death on, the last writes of a node may be undone.
    pub(crate) fn may_be_undone(&mut self, dead: &BTreeMap<usize, Time>) {
        self.dead.clone_from(dead);
    }

    /// Checks all objects, which have the state `initial` at first. Returns the number of objects
    /// for which the check gave up, which is no failure. The check gives up if an object has too
    /// many overlapping writes. Failed writes count as overlapping, because they may take effect at
    /// any later time.
    pub(crate) fn check<M>(&self, model: &M, initial: &M::State, name: &str) -> CheckResult
    where
        M: ObjectModel<Operation = O>,
    {
        let undecided = Cell::new(0);
        for (object, calls) in &self.objects {
            let judged = match self.check_object(model, initial, calls) {
                Err(ObjectViolation::Undecided { .. }) => {
                    undecided.set(undecided.get() + 1);
                    Ok(())
                }
                judged => judged,
            };
            judged.map_err(|violation| {
                let mut calls: Vec<_> = calls.iter().collect();
                calls.sort_by_key(|(_, call)| call.invoked);
                let calls = listed(calls.into_iter().map(|call| self.shown(call)), SHOWN_MAX);
                let text = format!("{name} {object}: {violation}:{calls}");
                (WorldCheck::Linearizability, text)
            })?;
        }
        Ok(undecided.get())
    }

    fn check_object<M>(
        &self,
        model: &M,
        initial: &M::State,
        calls: &[(usize, Call<O>)],
    ) -> Result<(), ObjectViolation>
    where
        M: ObjectModel<Operation = O>,
    {
        for death in self.dead.values() {
            let before = calls.iter().filter(|(_, call)| call.invoked <= *death);
            let before: Vec<_> = before
                .map(|(node, call)| {
                    let returned = call.returned.filter(|returned| returned <= death);
                    (*node, Call { returned, ..call.clone() })
                })
                .collect();
            let is_dead = |node| self.dead.get(&node).is_some_and(|since| since < death);
            explain(model, initial, &before, is_dead)?;
        }
        explain(model, initial, calls, |node| self.dead.contains_key(&node))
    }

    fn shown(&self, (node, call): &(usize, Call<O>)) -> String {
        let by = if self.dead.contains_key(node) { ", by a dead node" } else { "" };
        let Call { invoked, returned, operation } = call;
        match returned {
            Some(returned) => format!("{invoked} to {returned}: {operation:?}{by}"),
            None => format!("{invoked}, no end: {operation:?}{by}"),
        }
    }
}

/// Looks for an order that explains the calls, if the last writes of dead nodes may be undone.
fn explain<M>(
    model: &M,
    initial: &M::State,
    calls: &[(usize, Call<M::Operation>)],
    is_dead: impl Fn(usize) -> bool,
) -> Result<(), ObjectViolation>
where
    M: ObjectModel<Operation: Clone>,
{
    let all: Vec<_> = calls.iter().map(|(_, call)| call.clone()).collect();
    let refused = match check_object(model, initial.clone(), &all) {
        Err(refused @ ObjectViolation::Inexplicable { .. }) => refused,
        end => return end,
    };
    // A call without an end has no answer that counts, so it may have written.
    let is_write = |call: &Call<_>| call.returned.is_none() || !model.only_reads(&call.operation);
    let of_dead = calls.iter().filter(|(node, call)| is_dead(*node) && is_write(call));
    // The first one of those that are undone, by their ends. Another call of its node may have read
    // what one without an end wrote.
    let mut firsts: Vec<_> =
        of_dead.map(|(_, call)| (call.returned.unwrap_or(Time::MAX), call)).collect();
    firsts.sort_unstable_by_key(|(returned, _)| std::cmp::Reverse(*returned));
    for (end, first) in firsts {
        let rest = calls.iter().filter_map(|(node, call)| {
            if !is_dead(*node) {
                return Some(call.clone());
            }
            let is_later = call.returned.is_none_or(|returned| returned >= end);
            let is_out = match is_write(call) {
                true => std::ptr::eq(call, first) || call.invoked > end,
                false => call.returned.is_none_or(|returned| returned >= first.invoked),
            };
            let returned = call.returned.filter(|_| !is_later);
            (!is_out).then(|| Call { returned, ..call.clone() })
        });
        match check_object(model, initial.clone(), &rest.collect::<Vec<_>>()) {
            Err(ObjectViolation::Inexplicable { .. }) => {}
            end => return end,
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use latchwork_history::calls::{MapKey, MapOperation};

    use super::*;

    const LIVING: usize = 0;
    const DEAD: usize = 1;

    fn put(value: u64) -> MapOperation<u64> {
        MapOperation::Upsert { value }
    }

    fn got(value: u64) -> MapOperation<u64> {
        MapOperation::Get { found: Some(value) }
    }

    /// Calls of 10 ns, one after the other. The node DEAD dies behind those that it has.
    fn check(calls: &[(usize, MapOperation<u64>)]) -> CheckResult {
        let mut all = Calls::default();
        let mut death = Time::ZERO;
        for ((node, operation), at) in calls.iter().cloned().zip(0_u64..) {
            let time = |nanos| Time::from_nanos(10 * at + nanos);
            let call = Call { invoked: time(1), returned: Some(time(8)), operation };
            all.add(node, 1, call);
            death = if node == DEAD { time(9) } else { death };
        }
        all.may_be_undone(&[(DEAD, death)].into());
        all.check(&MapKey::new(), &None, "key")
    }

    #[test]
    fn what_a_dead_node_wrote_may_be_missing_unless_a_living_node_has_seen_it() {
        let first = (LIVING, put(1));
        let by_dead = |value| (DEAD, put(value));
        let sees = |value| (LIVING, got(value));
        assert_eq!(check(&[first.clone(), by_dead(2), by_dead(3), sees(1)]), Ok(0));
        assert_eq!(check(&[first.clone(), by_dead(2), by_dead(3), sees(2), sees(2)]), Ok(0));
        assert_eq!(check(&[first.clone(), by_dead(2), (DEAD, got(2)), sees(1)]), Ok(0));
        // Seen, and undone.
        assert!(check(&[first.clone(), by_dead(2), sees(2), by_dead(3), sees(1)]).is_err());
        assert!(check(&[first.clone(), by_dead(2), sees(2), sees(1)]).is_err());
        // A write of a living node is undone.
        assert!(check(&[first.clone(), by_dead(2), (LIVING, put(3)), sees(2)]).is_err());
        // An insert without an end has no answer, and is there with a later write undone.
        let at = |from, returned, operation| Call {
            invoked: Time::from_nanos(from),
            returned,
            operation,
        };
        let mut all = Calls::default();
        let insert = MapOperation::Insert { value: 4, inserted: false };
        all.add(DEAD, 1, at(1, None, insert));
        all.add(LIVING, 1, at(11, Some(Time::from_nanos(18)), got(4)));
        let remove = MapOperation::Remove { removed: true };
        all.add(DEAD, 1, at(21, Some(Time::from_nanos(28)), remove));
        all.add(LIVING, 1, at(31, Some(Time::from_nanos(38)), got(4)));
        all.may_be_undone(&[(DEAD, Time::from_nanos(29))].into());
        assert_eq!(all.check(&MapKey::new(), &None, "key"), Ok(0));
        // A dead node has read a write of its own that has no end, and is undone.
        let open = |sees| {
            let mut all = Calls::default();
            all.add(DEAD, 1, at(1, None, put(5)));
            all.add(DEAD, 1, at(11, Some(Time::from_nanos(18)), got(5)));
            all.add(LIVING, 1, at(31, Some(Time::from_nanos(38)), sees));
            all.may_be_undone(&[(DEAD, Time::from_nanos(29))].into());
            all.check(&MapKey::new(), &None, "key")
        };
        assert_eq!(open(MapOperation::Get { found: None }), Ok(0));
        assert_eq!(open(got(5)), Ok(0));
        assert!(open(got(6)).is_err());
        // Before its death, a node has no excuse.
        assert!(check(&[first, by_dead(2), (DEAD, got(1)), sees(1)]).is_err());
    }
}
