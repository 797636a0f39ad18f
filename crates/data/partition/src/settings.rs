//! [`PartitionSettings`]: the deadlines of coordinators and participants.

use std::time::Duration;

/// The deadlines of coordinators and participants. Good values depend on the round trip of a
/// message and the time of a sync of the log. The defaults suit round trips and syncs from
/// microseconds to a few milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionSettings {
    /// How long a coordinator waits for an answer before it sends the request again.
    pub again: Duration,
    /// How long a coordinator repeats a request without an answer. If the missing answer is a vote
    /// or that of an operation, the transaction aborts. If the request lets the only participant
    /// commit, the outcome is unknown: [`TxnError::NoAnswer`](latchwork_txn::TxnError::NoAnswer).
    pub deadline: Duration,
    /// How long a participant without a vote waits for its coordinator before it aborts.
    pub idle: Duration,
    /// How long a participant with a vote waits before each request for the decision.
    pub ask: Duration,
    /// The time between two checks of all participants for silent coordinators; at least 10 µs.
    pub tick: Duration,
}

impl Default for PartitionSettings {
    fn default() -> PartitionSettings {
        PartitionSettings {
            again: Duration::from_millis(20),
            deadline: Duration::from_secs(1),
            idle: Duration::from_secs(2),
            ask: Duration::from_millis(50),
            tick: Duration::from_millis(5),
        }
    }
}
