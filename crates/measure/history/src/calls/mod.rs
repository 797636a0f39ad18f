//! Checks of recorded calls: whether one order explains the answers that concurrent clients
//! received.
//!
//! A *call* spans the time from its invocation to its response. To show that a history is
//! linearizable, each call that returned gets one instant inside its span. In the order of these
//! instants, every answer must be right. A call without a response may get an instant after its
//! invocation, or none. Linearizability is a local property (Herlihy and Wing): a history is
//! linearizable if the calls of each key are. So each key is checked alone.
//!
//! ```text
//!   write 1  |------|
//!   write 2             |--------------|
//!   read          1 |------------------------|      1 or 2 would do
//!   read                                  2 |---|   1 would be stale: write 2 was over
//! ```
//!
//! Two checkers of linearizability:
//!
//! * [`check_register`] is for reads and writes of values, each value written once. Its cost is `n
//!   log n`, so it can check the history of a whole run.
//! * [`check_object`] is for any small state machine ([`ObjectModel`]), such as a key of a map
//!   ([`MapKey`]) with inserts, removals and read-modify-writes. Its cost grows with the number of
//!   overlapping calls.
//!
//! A third checker, [`check_sequential`], checks sequential consistency of a whole history over all
//! objects. The order must keep each process's own order, and time plays no part. The checker
//! [`check_store_order`] checks small histories of processes with store buffers.
//!
//! ```
//! use latchwork_simulation::Time;
//! use latchwork_history::calls::{Call, CallHistory, RegisterOperation::{Read, Write},
//! check_register};
//!
//! let span = |from, to| (Time::from_nanos(from), Some(Time::from_nanos(to)));
//! let mut history = CallHistory::new();
//! for (key, operation, (invoked, returned)) in [
//!     ("x", Write(1), span(0, 10)),
//!     ("x", Write(2), span(20, 30)),
//!     ("x", Read(2), span(25, 40)), // may see the write that is in flight
//!     ("y", Read(0), span(0, 90)),
//! ] {
//!     history.record(key, Call { invoked, returned, operation });
//! }
//! assert!(history.check(|calls| check_register(0, calls)).is_ok());
//!
//! let (invoked, returned) = span(50, 60);
//! history.record("x", Call { invoked, returned, operation: Read(1) }); // stale
//! let (key, violation) = history.check(|calls| check_register(0, calls)).unwrap_err();
//! assert_eq!(key, "x");
//! println!("{violation}");
//! ```

mod map_key;
mod object;
mod register;
mod sequential;
mod store_order;

pub use map_key::{MapKey, MapOperation};
pub use object::{ObjectModel, ObjectViolation, check_object};
pub use register::{RegisterOperation, RegisterViolation, check_register};
pub use sequential::{Access, Arrow, SequentialViolation, check_sequential};
pub use store_order::{ProcessStep, StoreOrder, StoreOrderViolation, check_store_order};

use std::collections::BTreeMap;

use latchwork_simulation::Time;

/// One call by one client.
///
/// Call A precedes call B if A returned before the invocation of B. If A returned at the very
/// instant of the invocation of B, the calls count as concurrent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Call<O> {
    /// The time of the invocation.
    pub invoked: Time,
    /// The time of the response. `None` if the call never returned: the call may have taken effect
    /// at any later time, or not at all.
    pub returned: Option<Time>,
    /// The operation with its answer.
    pub operation: O,
}

impl<O> Call<O> {
    /// The time of the response, or the end of time.
    fn end(&self) -> Time {
        self.returned.unwrap_or(Time::MAX)
    }
}

/// The calls of many clients, by key.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(bound(deserialize = "K: Ord + serde::Deserialize<'de>, O: serde::Deserialize<'de>"))]
pub struct CallHistory<K, O> {
    keys: BTreeMap<K, Vec<Call<O>>>,
}

impl<K: Ord + Clone, O> CallHistory<K, O> {
    /// A history without calls.
    pub fn new() -> CallHistory<K, O> {
        CallHistory { keys: BTreeMap::new() }
    }

    /// Adds a call. The order of adding does not matter.
    pub fn record(&mut self, key: K, call: Call<O>) {
        self.keys.entry(key).or_default().push(call);
    }

    /// Adds all calls of another history, such as the calls of another worker.
    pub fn merge(&mut self, other: CallHistory<K, O>) {
        for (key, mut calls) in other.keys {
            self.keys.entry(key).or_default().append(&mut calls);
        }
    }

    /// The calls of each key.
    pub fn calls(&self) -> impl Iterator<Item = (&K, &[Call<O>])> {
        self.keys.iter().map(|(key, calls)| (key, calls.as_slice()))
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks the calls of each key, and returns the first key that fails.
    ///
    /// # Errors
    ///
    /// The first error of `check`, with its key.
    pub fn check<E>(&self, check: impl Fn(&[Call<O>]) -> Result<(), E>) -> Result<(), (K, E)> {
        self.keys
            .iter()
            .try_for_each(|(key, calls)| check(calls).map_err(|error| (key.clone(), error)))
    }
}

impl<K: Ord + Clone, O> Default for CallHistory<K, O> {
    fn default() -> CallHistory<K, O> {
        CallHistory::new()
    }
}
