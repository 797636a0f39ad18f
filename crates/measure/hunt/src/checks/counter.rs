//! Checks a counter to which tasks add one by a global atomic. The counter is correct if three
//! conditions hold. No two calls get the same answer. A call that began after another call had
//! returned gets a higher answer. The final value is not below the certain additions, and not above
//! all additions.

use std::fmt;

use latchwork_runtime::Time;

use super::Verdict;
use crate::WorldCheck;
use crate::world::Process;

/// An addition of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addition {
    pub(crate) process: Process,
    pub(crate) invoked: Time,
    pub(crate) returned: Time,
    /// The value before the addition. `None` when the task got no answer: the addition may have
    /// taken effect or not.
    pub(crate) old: Option<u64>,
}

impl fmt::Display for Addition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Addition { process, invoked, returned, old } = self;
        write!(f, "{process}: {invoked} to {returned}: found {old:?}")
    }
}

/// Checks the additions to a counter that was 0 at first. `last` is the final value, if known.
pub(crate) fn check(additions: &[Addition], last: Option<u64>) -> Verdict {
    let wrong = |text: String| Err((WorldCheck::Linearizability, format!("the counter: {text}")));
    let mut known: Vec<_> = additions.iter().filter_map(|a| Some((a.old?, a))).collect();
    known.sort_by_key(|(old, _)| *old);
    let (all, certain) = (additions.len() as u64, known.len() as u64);
    if let Some(pair) = known.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return wrong(format!("two additions found the same:\n  {}\n  {}", pair[0].1, pair[1].1));
    }
    let highest = last.or(known.last().map(|(old, _)| old + 1)).unwrap_or(0);
    if highest > all || last.is_some_and(|last| last < certain) {
        return wrong(format!("it counts {highest} after {certain} to {all} additions"));
    }
    // The loop goes from the highest answer down. `above` is the call that returned first among the
    // calls with higher answers. No call with a lower answer may begin after its return.
    let mut above: Option<&Addition> = None;
    for (_, addition) in known.iter().rev() {
        if let Some(above) = above.filter(|above| above.returned < addition.invoked) {
            return wrong(format!("it went back:\n  {above}\n  {addition}"));
        }
        if above.is_none_or(|above| addition.returned < above.returned) {
            above = Some(addition);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addition(from: u64, to: u64, old: Option<u64>) -> Addition {
        let process = Process { number: 1, node: 0, place: 0, worker: 0, task: 0 };
        let (invoked, returned) = (Time::from_nanos(from), Time::from_nanos(to));
        Addition { process, invoked, returned, old }
    }

    #[test]
    fn a_counter_that_repeats_loses_or_goes_back_is_refused() {
        let right = [addition(0, 10, Some(1)), addition(5, 20, Some(0)), addition(30, 40, Some(2))];
        assert!(check(&right, Some(3)).is_ok());
        assert!(check(&right, Some(2)).is_err(), "an addition was lost");
        assert!(check(&right, Some(4)).is_err(), "one was made up");
        assert!(check(&[addition(0, 1, Some(0)), addition(2, 3, Some(0))], None).is_err());
        assert!(check(&[addition(0, 1, Some(1)), addition(2, 3, Some(0))], None).is_err());
    }

    #[test]
    fn an_addition_whose_end_is_unknown_counts_or_not() {
        let unknown = [addition(0, 10, None), addition(20, 30, Some(1))];
        assert!(check(&unknown, Some(2)).is_ok());
        assert!(check(&unknown[..1], Some(0)).is_ok());
        assert!(check(&unknown[..1], Some(2)).is_err());
    }
}
