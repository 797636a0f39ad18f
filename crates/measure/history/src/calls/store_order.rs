//! The checker for processes with store buffers. An abstract machine defines each consistency
//! level: sequential, total store order, or partial store order. The machines follow the SPARC
//! Architecture Manual 8, appendix K, and Owens, Sarkar and Sewell, "A Better x86 Memory Model:
//! x86-TSO", 2009:
//!
//! ```text
//!   process 1        process 2
//!   x=1  y=1         y=2                  total: the first store leaves its buffer
//!     │               │                   partial: the first to each location does
//!     ▼ one by one    ▼                   sequential: before the process goes on
//!   ┌──────────────────────┐
//!   │ memory   x=0 y=0     │              a read takes the process's own last store to the location, or
//!   └──────────────────────┘              what memory has
//! ```
//!
//! The checker tries all orders in which stores can leave their buffers, up to a maximum number of
//! states. All other steps (a store into the buffer, a fence, a read of the recorded value) are
//! taken as soon as possible. These steps change nothing for other processes, so no explanation is
//! lost. The checker is for small histories, as of litmus tests: its work grows with the number of
//! orders.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::{self, Debug};

/// Maximum number of states that the checker tries before it gives up.
const STATES_MAX: usize = 1 << 20;

/// The order in which a process's stores reach memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreOrder {
    /// Each store reaches memory before the process continues.
    Sequential,
    /// In the order of issue.
    Total,
    /// In the order of issue at each location.
    Partial,
}

/// A step of a process, with its recorded result. Every location holds 0 at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessStep<L> {
    /// Stored a value.
    Write(L, u64),
    /// Read a location and got this value.
    Read(L, u64),
    /// Waited until all earlier stores of the process had reached memory.
    Fence,
}

/// Why [`check_store_order`] does not accept a history.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreOrderViolation {
    /// No order explains the history.
    #[error("no order of the stores explains {}", Stuck(.stuck))]
    Inexplicable {
        /// Where the attempt that took the most steps was stuck. For each process with a step left:
        /// the process's number, the step's number, and the step. Empty when only the final values
        /// were wrong.
        stuck: Vec<(usize, usize, String)>,
    },
    /// There are so many orders that the checker gave up. The history may be right or wrong.
    #[error("undecided: too many orders of the stores")]
    Undecided,
}

struct Stuck<'a>(&'a [(usize, usize, String)]);

impl fmt::Display for Stuck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the values in the end");
        }
        for (at, (process, step, what)) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; or else " };
            write!(f, "{between}step {step} of process {process}: {what}")?;
        }
        Ok(())
    }
}

/// A state of the machine.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State<L> {
    /// For each process, the next step and the stores in its buffer.
    processes: Vec<(usize, VecDeque<(L, u64)>)>,
    memory: BTreeMap<L, u64>,
}

/// Checks that the machine of `order` can take all steps, each process in its program order. At the
/// end, memory must have the values `finals`.
///
/// # Errors
/// Fails when the machine of this order cannot produce the history, or when the checker gives up.
pub fn check_store_order<L>(
    order: StoreOrder,
    processes: &[Vec<ProcessStep<L>>],
    finals: &BTreeMap<L, u64>,
) -> Result<(), StoreOrderViolation>
where
    L: Copy + Ord + std::hash::Hash + Debug,
{
    let machine = Machine { order, processes, finals };
    let mut first =
        State { processes: vec![(0, VecDeque::new()); processes.len()], memory: BTreeMap::new() };
    machine.run_on(&mut first);
    let mut seen = HashSet::new();
    let mut open = vec![first];
    let mut farthest: Option<(usize, State<L>)> = None;
    while let Some(state) = open.pop() {
        if machine.is_end(&state) {
            return Ok(());
        }
        let steps = state.processes.iter().map(|(next, _)| next).sum();
        if farthest.as_ref().is_none_or(|(most, _)| steps > *most) {
            farthest = Some((steps, state.clone()));
        }
        for next in machine.after(&state) {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
        if seen.len() > STATES_MAX {
            return Err(StoreOrderViolation::Undecided);
        }
    }
    let stuck = farthest.map_or_else(Vec::new, |(_, state)| machine.stuck(&state));
    Err(StoreOrderViolation::Inexplicable { stuck })
}

struct Machine<'a, L> {
    order: StoreOrder,
    processes: &'a [Vec<ProcessStep<L>>],
    finals: &'a BTreeMap<L, u64>,
}

impl<L: Copy + Ord + Debug> Machine<'_, L> {
    /// Lets every process take its next steps until one has to wait for memory or for its buffer.
    fn run_on(&self, state: &mut State<L>) {
        let State { processes, memory } = state;
        for (steps, (next, buffer)) in self.processes.iter().zip(processes) {
            while let Some(step) = steps.get(*next) {
                let waits = self.order == StoreOrder::Sequential && !buffer.is_empty();
                let can = !waits
                    && match *step {
                        ProcessStep::Write(..) => true,
                        ProcessStep::Fence => buffer.is_empty(),
                        ProcessStep::Read(location, value) => {
                            let own = buffer.iter().rev().find(|store| store.0 == location);
                            let there = memory.get(&location).copied().unwrap_or(0);
                            own.map_or(there, |store| store.1) == value
                        }
                    };
                if !can {
                    break;
                }
                if let ProcessStep::Write(location, value) = *step {
                    buffer.push_back((location, value));
                }
                *next += 1;
            }
        }
    }

    /// All states that follow when one store leaves its buffer.
    fn after(&self, state: &State<L>) -> Vec<State<L>> {
        let mut states = Vec::new();
        for (process, (_, buffer)) in state.processes.iter().enumerate() {
            for (at, &(location, value)) in buffer.iter().enumerate() {
                let leaves = match self.order {
                    StoreOrder::Partial => buffer.iter().take(at).all(|store| store.0 != location),
                    _ => at == 0,
                };
                if leaves {
                    let mut next = state.clone();
                    next.processes[process].1.remove(at);
                    next.memory.insert(location, value);
                    self.run_on(&mut next);
                    states.push(next);
                }
            }
        }
        states
    }

    fn is_end(&self, state: &State<L>) -> bool {
        let over = state.processes.iter().zip(self.processes);
        let value = |location| state.memory.get(location).copied().unwrap_or(0);
        over.into_iter().all(|((next, buffer), steps)| *next == steps.len() && buffer.is_empty())
            && self.finals.iter().all(|(location, wanted)| value(location) == *wanted)
    }

    fn stuck(&self, state: &State<L>) -> Vec<(usize, usize, String)> {
        let next = state.processes.iter().map(|(next, _)| *next).enumerate();
        next.filter_map(|(process, at)| {
            self.processes[process].get(at).map(|step| (process, at, format!("{step:?}")))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessStep::{Fence, Read, Write};
    use super::StoreOrder::{Partial, Sequential, Total};
    use super::*;

    /// Whether a history is possible at each level, from the strictest level to the weakest.
    fn levels(processes: &[Vec<ProcessStep<char>>], finals: &[(char, u64)]) -> [bool; 3] {
        let finals = finals.iter().copied().collect();
        [Sequential, Total, Partial]
            .map(|order| check_store_order(order, processes, &finals).is_ok())
    }

    const NEVER: [bool; 3] = [false; 3];
    const ALWAYS: [bool; 3] = [true; 3];
    const FROM_TOTAL: [bool; 3] = [false, true, true];
    const FROM_PARTIAL: [bool; 3] = [false, false, true];

    #[test]
    fn reads_may_pass_stores_where_there_are_buffers_unless_there_is_a_fence() {
        let store_buffering = |fence: &[ProcessStep<char>]| {
            let process = |mine, other| [&[Write(mine, 1)], fence, &[Read(other, 0)]].concat();
            levels(&[process('x', 'y'), process('y', 'x')], &[])
        };
        assert_eq!(store_buffering(&[]), FROM_TOTAL);
        assert_eq!(store_buffering(&[Fence]), NEVER);
    }

    #[test]
    fn stores_pass_stores_only_in_a_partial_order() {
        let reader = vec![Read('y', 1), Read('x', 0)];
        let passing = |fence: &[ProcessStep<char>]| {
            let writer = [&[Write('x', 1)], fence, &[Write('y', 1)]].concat();
            levels(&[writer, reader.clone()], &[])
        };
        assert_eq!(passing(&[]), FROM_PARTIAL);
        assert_eq!(passing(&[Fence]), NEVER);
        let both = [vec![Write('x', 1), Write('y', 2)], vec![Write('y', 1), Write('x', 2)]];
        assert_eq!(levels(&both, &[('x', 1), ('y', 1)]), FROM_PARTIAL);
        assert_eq!(levels(&both, &[('x', 2), ('y', 2)]), ALWAYS);
    }

    #[test]
    fn stores_to_one_location_keep_their_order_and_all_processes_see_the_same() {
        let twice = vec![Write('x', 1), Write('x', 2)];
        assert_eq!(levels(&[twice.clone(), vec![Read('x', 2), Read('x', 1)]], &[]), NEVER);
        assert_eq!(levels(&[twice], &[('x', 1)]), NEVER);
        let readers = [vec![Read('x', 1), Read('y', 0)], vec![Read('y', 1), Read('x', 0)]];
        let [first, second] = readers;
        assert_eq!(levels(&[vec![Write('x', 1)], vec![Write('y', 1)], first, second], &[]), NEVER);
        assert_eq!(
            levels(&[vec![Read('x', 1), Write('y', 1)], vec![Read('y', 1), Write('x', 1)]], &[]),
            NEVER
        );
    }

    /// Owens, Sarkar and Sewell's n6: a process sees its own store before any other process does.
    #[test]
    fn a_process_reads_its_own_store_early() {
        let first = vec![Write('x', 1), Read('x', 1), Read('y', 0)];
        let second = vec![Write('y', 2), Write('x', 2)];
        assert_eq!(levels(&[first, second], &[('x', 1)]), FROM_TOTAL);
        assert_eq!(levels(&[vec![Write('x', 1), Read('x', 0)]], &[]), NEVER);
    }

    #[test]
    fn what_cannot_be_explained_is_named() {
        let processes = [vec![Write('x', 1)], vec![Read('x', 1), Read('x', 7)]];
        let violation = check_store_order(Total, &processes, &BTreeMap::new()).unwrap_err();
        let said = "no order of the stores explains step 1 of process 1: Read('x', 7)";
        assert_eq!(violation.to_string(), said);
        let wrong = BTreeMap::from([('x', 2)]);
        let violation = check_store_order(Partial, &processes[..1], &wrong).unwrap_err();
        assert_eq!(violation.to_string(), "no order of the stores explains the values in the end");
    }
}
