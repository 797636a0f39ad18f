//! The identifiers that a log uses.

use std::fmt;

/// The database of a log. The number is drawn once, when the database is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DatabaseId(pub u64);

/// A compute node, as the owner of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u8);

/// A table, or another set of keys of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u32);

/// A commit timestamp: a counter, and the node that drew it, so that no two timestamps are equal.
///
/// ```text
///  63                            6 5       0
///  | counter                      | node id |
/// ```
///
/// A transaction that reads or overwrites a version has a later timestamp than the writer of that
/// version. Other pairs of transactions may have timestamps in any order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The timestamp below all commits.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Bits of the node id.
    pub(crate) const NODE_BITS: u32 = 6;
    /// The number of nodes that can draw timestamps: nodes 0 to 63.
    pub const NODES_MAX: u8 = 1 << Timestamp::NODE_BITS;
    const _CHECK: () = assert!(
        Timestamp::NODES_MAX as u32 == 1 << Timestamp::NODE_BITS,
        "a timestamp has a value for each node"
    );

    /// The timestamp that `node` draws at this `counter`; `None` when either does not fit.
    pub fn new(counter: u64, node: NodeId) -> Option<Timestamp> {
        let fits = counter < 1 << (64 - Timestamp::NODE_BITS) && node.0 < Timestamp::NODES_MAX;
        fits.then_some(Timestamp(counter << Timestamp::NODE_BITS | u64::from(node.0)))
    }

    /// The timestamp of the same node with a counter that is higher by `by`. If the counter has no
    /// such value, the result is this timestamp.
    #[must_use]
    pub fn ahead_by(self, by: u64) -> Timestamp {
        let counter = self.counter().checked_add(by);
        counter.and_then(|counter| Timestamp::new(counter, self.node())).unwrap_or(self)
    }

    /// The counter.
    pub fn counter(self) -> u64 {
        self.0 >> Timestamp::NODE_BITS
    }

    /// The node that drew this timestamp.
    pub fn node(self) -> NodeId {
        NodeId((self.0 & u64::from(Timestamp::NODES_MAX - 1)) as u8)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.counter(), self.node().0)
    }
}

/// The end of a log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LogEnd {
    /// The number of the last segment; 0 when there is none.
    pub(crate) segment: u64,
    /// The bytes of that segment.
    pub(crate) bytes: u64,
    /// Log records since the start of the log, in this segment and all earlier ones.
    pub(crate) groups: u64,
}

impl LogEnd {
    /// Whether the log is shorter than `other` by log records. Only the numbers of records are
    /// compared. Marks are not counted, so a log that lost only its end record or an empty last
    /// segment is not short.
    pub(crate) fn is_short_of(&self, other: &LogEnd) -> bool {
        self.groups < other.groups
    }
}
