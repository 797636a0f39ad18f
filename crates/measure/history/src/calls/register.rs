//! The checker for registers with each value written once: Gibbons and Korach, "Testing Shared
//! Memories" (SIAM J. Comput. 26, 1997), the case with a known reads-from relation.
//!
//! The write of a value and the reads that returned the value form a *cluster*. The calls of a
//! cluster are neighbours in any order that explains the history. A cluster has a *zone*, between
//! its earliest response and its latest invocation. If the response comes first, the zone is
//! *forward*: the register had the value throughout the zone. Otherwise the zone is *backward*:
//!
//! ```text
//!   write 7   |-----|                            zone runs forward: the value was certainly there
//!   read  7              |------|                        from A to B, and no other value was
//!                   A----B
//!
//!   write 8   |------------------|               zone runs backward: all calls overlap somewhere,
//!   read  8        |--------|                            one instant between B and A is enough
//!                  B--------A
//! ```
//!
//! The history is linearizable exactly if three conditions hold:
//!
//! 1. No read returned before its write began.
//! 2. No two forward zones overlap.
//! 3. No backward zone lies inside a forward zone.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use latchwork_simulation::Time;

use super::Call;

/// A call on a register, with the value that it wrote or returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum RegisterOperation<V> {
    /// Wrote this value, which no other call writes.
    Write(V),
    /// Returned this value.
    Read(V),
}

/// Why [`check_register`] does not accept a history.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegisterViolation<V: Debug> {
    /// Two calls wrote the same value, or one call wrote the initial value. The checker needs
    /// distinct values.
    #[error("{value:?} was written twice; this checker needs every written value to differ")]
    WrittenTwice {
        /// The value.
        value: V,
    },
    /// A read returned a value that no call wrote.
    #[error("a read from {invoked} to {returned} returned {value:?}, which nobody wrote")]
    NeverWritten {
        /// The value.
        value: V,
        /// When the read was invoked.
        invoked: Time,
        /// When it returned.
        returned: Time,
    },
    /// A read returned a value before its write had begun.
    #[error("a read returned {value:?} at {returned}, before its write began at {written}")]
    FutureRead {
        /// The value.
        value: V,
        /// When the read returned.
        returned: Time,
        /// When the write was invoked.
        written: Time,
    },
    /// The zones of two values conflict: two forward zones overlap, or a backward zone lies inside
    /// a forward zone.
    #[error(
        "{first:?} was there by {first_from} and still read by a call that began at {first_until}, \
         {second:?} was there by {second_from} and still used by a call that began at \
         {second_until}: one of the reads is stale, or a write was lost"
    )]
    Entangled {
        /// One value.
        first: V,
        /// Its first response.
        first_from: Time,
        /// Its last invocation.
        first_until: Time,
        /// The other value.
        second: V,
        /// Its first response.
        second_from: Time,
        /// Its last invocation.
        second_until: Time,
    },
}

/// A cluster: the calls that wrote or returned one value. `None` in both times of the zone: no
/// call.
#[derive(Clone, Copy)]
struct Cluster<V> {
    value: V,
    /// The time of the write's invocation. `None` for the initial value: its write precedes all
    /// times.
    written: Option<Time>,
    first_response: Option<Time>,
    last_invocation: Option<Time>,
}

impl<V> Cluster<V> {
    /// Whether the zone is forward. The initial value has no first response, and `None` is less
    /// than any time. So its zone is forward if any call read it.
    fn runs_forward(&self) -> bool {
        self.first_response < self.last_invocation
    }
}

/// Checks that the calls on one register are linearizable. `initial` is the value before all calls.
/// Each value must be written once. Takes time `n log n`.
///
/// A write that never returned counts if a call read its value. A read that never returned does not
/// count.
///
/// # Errors
///
/// Fails when no order of the calls explains their answers, or when a value was written twice.
pub fn check_register<V>(
    initial: V,
    calls: &[Call<RegisterOperation<V>>],
) -> Result<(), RegisterViolation<V>>
where
    V: Copy + Eq + Hash + Debug,
{
    let clusters = clusters(initial, calls)?;
    let (mut forward, backward): (Vec<_>, Vec<_>) =
        clusters.into_iter().partition(Cluster::runs_forward);
    forward.sort_by_key(|cluster| cluster.first_response);
    // The zones are sorted by their starts. So if any two zones overlap, two neighbours overlap.
    for pair in forward.windows(2) {
        if pair[1].first_response < pair[0].last_invocation {
            return Err(entangled(&pair[0], &pair[1]));
        }
    }
    for cluster in &backward {
        let before = forward.partition_point(|zone| zone.first_response < cluster.last_invocation);
        // Forward zones do not overlap. So among the forward zones that begin before the end of
        // this zone, the last one also ends last.
        if let Some(zone) = before.checked_sub(1).map(|last| &forward[last])
            && cluster.first_response < zone.last_invocation
        {
            return Err(entangled(zone, cluster));
        }
    }
    Ok(())
}

fn clusters<V>(
    initial: V,
    calls: &[Call<RegisterOperation<V>>],
) -> Result<Vec<Cluster<V>>, RegisterViolation<V>>
where
    V: Copy + Eq + Hash + Debug,
{
    let mut clusters = vec![Cluster {
        value: initial,
        written: None,
        first_response: None,
        last_invocation: None,
    }];
    let mut of_value = HashMap::from([(initial, 0)]);
    for call in calls {
        let RegisterOperation::Write(value) = call.operation else { continue };
        if of_value.insert(value, clusters.len()).is_some() {
            return Err(RegisterViolation::WrittenTwice { value });
        }
        clusters.push(Cluster {
            value,
            written: Some(call.invoked),
            first_response: Some(call.end()),
            last_invocation: Some(call.invoked),
        });
    }
    for call in calls {
        let (RegisterOperation::Read(value), Some(returned)) = (call.operation, call.returned)
        else {
            continue;
        };
        let Some(cluster) = of_value.get(&value).map(|index| &mut clusters[*index]) else {
            let invoked = call.invoked;
            return Err(RegisterViolation::NeverWritten { value, invoked, returned });
        };
        if let Some(written) = cluster.written.filter(|written| returned < *written) {
            return Err(RegisterViolation::FutureRead { value, returned, written });
        }
        // The initial value has no first response, and `None` is less than any response.
        cluster.first_response = cluster.first_response.map(|first| first.min(returned));
        cluster.last_invocation = cluster.last_invocation.max(Some(call.invoked));
    }
    // An initial value that no call read has no zone.
    clusters.retain(|cluster| cluster.last_invocation.is_some());
    Ok(clusters)
}

fn entangled<V: Copy + Debug>(a: &Cluster<V>, b: &Cluster<V>) -> RegisterViolation<V> {
    let time = |at: Option<Time>| at.unwrap_or(Time::ZERO);
    RegisterViolation::Entangled {
        first: a.value,
        first_from: time(a.first_response),
        first_until: time(a.last_invocation),
        second: b.value,
        second_from: time(b.first_response),
        second_until: time(b.last_invocation),
    }
}

#[cfg(test)]
mod tests {
    use latchwork_workload::random::WorkloadRandom;

    use super::RegisterOperation::{Read, Write};
    use super::*;
    use crate::calls::check_object;
    use crate::calls::object::test_models::Register;

    type Calls = Vec<Call<RegisterOperation<u32>>>;

    fn calls(calls: &[(RegisterOperation<u32>, u64, u64)]) -> Calls {
        calls
            .iter()
            .map(|(operation, from, to)| Call {
                invoked: Time::from_nanos(*from),
                returned: (*to < u64::MAX).then_some(Time::from_nanos(*to)),
                operation: *operation,
            })
            .collect()
    }

    const NEVER: u64 = u64::MAX;

    #[test]
    fn concurrent_calls_may_be_seen_in_either_order() {
        let history = calls(&[
            (Write(1), 0, 100),
            (Write(2), 10, 90),
            (Read(1), 20, 30),
            (Read(2), 40, 50),
            (Read(2), 60, 95),
        ]);
        assert_eq!(check_register(0, &history), Ok(()));
        let either =
            calls(&[(Write(1), 0, 100), (Write(2), 0, 100), (Read(0), 0, 50), (Read(1), 101, 110)]);
        assert_eq!(check_register(0, &either), Ok(()));
    }

    #[test]
    fn a_stale_read_is_refused() {
        let history = calls(&[(Write(1), 0, 10), (Write(2), 20, 30), (Read(1), 40, 50)]);
        let violation = check_register(0, &history).unwrap_err();
        assert!(matches!(violation, RegisterViolation::Entangled { .. }), "{violation}");
    }

    #[test]
    fn a_lost_write_is_refused() {
        let history = calls(&[(Write(1), 0, 10), (Read(0), 20, 30)]);
        assert!(matches!(check_register(0, &history), Err(RegisterViolation::Entangled { .. })));
        let flicker =
            calls(&[(Write(1), 0, 10), (Write(2), 20, 30), (Read(2), 31, 32), (Read(1), 33, 34)]);
        assert!(check_register(0, &flicker).is_err());
    }

    #[test]
    fn a_future_read_is_refused() {
        let history = calls(&[(Read(1), 0, 10), (Write(1), 20, 30)]);
        assert!(matches!(check_register(0, &history), Err(RegisterViolation::FutureRead { .. })));
        let nobody = calls(&[(Read(5), 0, 10)]);
        assert!(matches!(check_register(0, &nobody), Err(RegisterViolation::NeverWritten { .. })));
    }

    #[test]
    fn reads_must_agree_on_the_order_of_writes() {
        let history = calls(&[
            (Write(1), 0, 100),
            (Write(2), 0, 100),
            (Read(1), 10, 20),
            (Read(2), 30, 40),
            (Read(1), 50, 60),
        ]);
        assert!(check_register(0, &history).is_err());
    }

    #[test]
    fn a_write_that_never_returned_may_have_happened_or_not() {
        let history = calls(&[(Write(1), 0, NEVER), (Read(0), 10, 20), (Read(1), 500, 600)]);
        assert_eq!(check_register(0, &history), Ok(()));
        let unseen = calls(&[(Write(1), 0, NEVER), (Read(0), 10, 20), (Read(0), 500, 600)]);
        assert_eq!(check_register(0, &unseen), Ok(()));
        let undone = calls(&[(Write(1), 0, NEVER), (Read(1), 10, 20), (Read(0), 500, 600)]);
        assert!(check_register(0, &undone).is_err());
        let pending_read = calls(&[(Read(77), 0, NEVER), (Read(0), 1, 2)]);
        assert_eq!(check_register(0, &pending_read), Ok(()));
    }

    #[test]
    fn a_value_written_twice_is_refused() {
        let history = calls(&[(Write(1), 0, 1), (Write(1), 2, 3)]);
        assert_eq!(check_register(0, &history), Err(RegisterViolation::WrittenTwice { value: 1 }));
        let initial = calls(&[(Write(0), 0, 1)]);
        assert_eq!(check_register(0, &initial), Err(RegisterViolation::WrittenTwice { value: 0 }));
    }

    /// A random history: each call takes effect at an instant inside its span. About a quarter of
    /// the reads return a random value instead.
    fn random_history(random: &mut WorkloadRandom) -> Calls {
        let count = 2 + random.below(7);
        let mut spans: Vec<(u64, u64, u64, bool)> = (0..count)
            .map(|_| {
                let from = random.below(40);
                let to = from + random.below(25);
                (from, to, from + random.below(to - from + 1), random.below(2) == 0)
            })
            .collect();
        spans.sort_by_key(|span| span.2);
        let (mut value, mut written) = (0, 0);
        spans
            .into_iter()
            .map(|(from, to, _, write)| {
                let operation = if write {
                    written += 1;
                    value = written;
                    Write(value)
                } else if random.below(4) == 0 {
                    Read(random.below(u64::from(written) + 2) as u32)
                } else {
                    Read(value)
                };
                Call {
                    invoked: Time::from_nanos(from),
                    returned: (random.below(10) > 0).then_some(Time::from_nanos(to)),
                    operation,
                }
            })
            .collect()
    }

    #[test]
    fn zones_and_search_agree_on_random_histories() {
        let mut random = WorkloadRandom::new(20);
        let mut verdicts = [0; 2];
        for round in 0..20_000 {
            let history = random_history(&mut random);
            let zones = check_register(0, &history).is_ok();
            let search = check_object(&Register, 0, &history).is_ok();
            assert_eq!(zones, search, "round {round}: {history:#?}");
            verdicts[usize::from(zones)] += 1;
        }
        assert!(verdicts.iter().all(|n| *n > 2000), "both verdicts must occur: {verdicts:?}");
    }

    #[test]
    fn long_histories_are_quick_to_check() {
        let mut history = Calls::new();
        for i in 0..100_000u64 {
            let value = (i + 1) as u32;
            let write = (Write(value), 10 * i, 10 * i + 15);
            let read = (Read(value), 10 * i + 12, 10 * i + 18);
            history.extend(calls(&[write, read]));
        }
        assert_eq!(check_register(0, &history), Ok(()));
        history.extend(calls(&[(Read(500), 9_000, 9_001)]));
        assert!(check_register(0, &history).is_err());
    }
}
