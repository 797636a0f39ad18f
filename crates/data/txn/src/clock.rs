//! [`NodeClock`]: the source of a node's commit timestamps.

use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_strict::strict_assert;
use latchwork_wal::{NodeId, Timestamp};

use crate::TxnError;

/// The clock of a compute node, shared by its workers.
///
/// Under two-phase locking and the optimistic scheme, a commit draws its timestamp here. Its
/// counter is one above the maximum of three counters: of this clock, of all versions that the
/// transaction read or overwrites, and of the leaves that got its index entries. The clock moves to
/// the new timestamp. This is Lamport's clock, with tuples in place of messages:
///
/// - A transaction that reads or overwrites a version has a later timestamp than the writer of that
///   version, also across nodes.
/// - A transaction that overwrites a row may have an earlier timestamp than a transaction that has
///   only read the row before.
///
/// Under timestamp ordering a transaction commits at its own timestamp, which it has drawn from the
/// counter of all nodes. This clock is only raised to that timestamp.
#[derive(Debug)]
pub struct NodeClock {
    counter: AtomicU64,
    node: NodeId,
}

impl NodeClock {
    /// A clock at zero. After a restart, [`raise`](NodeClock::raise) it to the highest replayed
    /// timestamp.
    pub fn new(node: NodeId) -> NodeClock {
        NodeClock { counter: AtomicU64::new(0), node }
    }

    /// The node of this clock.
    pub fn node(&self) -> NodeId {
        self.node
    }

    // Relaxed, here and below: all read-modify-writes of one atomic have one order. So no two calls
    // draw the same value, and the counter publishes no other memory. A later transaction of
    // another worker gets a timestamp above each tuple that it read. This follows from the tuple's
    // own timestamp, not from the clock.

    /// Draws a timestamp above `after` and above all timestamps that this clock has given or was
    /// raised to.
    ///
    /// # Errors
    /// [`TxnError::ClockExhausted`] when the counter has no higher value; [`TxnError::NodeId`] when
    /// the node's id is too high for a timestamp.
    pub fn draw(&self, after: Timestamp) -> Result<Timestamp, TxnError> {
        let next = |now: u64| now.max(after.counter()).checked_add(1);
        let drawn = self.counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let drawn = drawn.ok().and_then(next).ok_or(TxnError::ClockExhausted)?;
        if self.node.0 >= Timestamp::NODES_MAX {
            return Err(TxnError::NodeId { node: self.node.0 });
        }
        strict_assert!(drawn > after.counter(), "a timestamp is not later than what was read");
        strict_assert!(
            self.counter.load(Ordering::Relaxed) >= drawn,
            "the clock is behind a timestamp that it gave out"
        );
        Timestamp::new(drawn, self.node).ok_or(TxnError::ClockExhausted)
    }

    /// Makes every later timestamp higher than `floor`.
    pub fn raise(&self, floor: Timestamp) {
        self.counter.fetch_max(floor.counter(), Ordering::Relaxed);
        strict_assert!(
            self.counter.load(Ordering::Relaxed) >= floor.counter(),
            "a raised clock is below its floor"
        );
    }

    /// A timestamp that is at least the highest drawn one.
    pub fn now(&self) -> Timestamp {
        let counter = self.counter.load(Ordering::Relaxed);
        Timestamp::new(counter, self.node).unwrap_or(Timestamp(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_above_what_was_seen_and_what_was_drawn() {
        let (one, two) = (NodeClock::new(NodeId(1)), NodeClock::new(NodeId(2)));
        let first = one.draw(Timestamp::ZERO).expect("room");
        let second = two.draw(first).expect("room");
        let third = one.draw(second).expect("room");
        assert!(first < second && second < third, "{first} {second} {third}");
        one.raise(Timestamp::new(100, NodeId(5)).expect("in range"));
        assert!(one.draw(Timestamp::ZERO).expect("room").counter() > 100);
        // Equal counters differ by node.
        assert_ne!(
            NodeClock::new(NodeId(1)).draw(third).ok(),
            NodeClock::new(NodeId(2)).draw(third).ok()
        );
    }

    #[test]
    fn a_clock_at_its_end_is_an_error_again_and_again() {
        let clock = NodeClock::new(NodeId(1));
        let last = Timestamp(u64::MAX);
        for _ in 0..3 {
            assert!(matches!(clock.draw(last), Err(TxnError::ClockExhausted)));
        }
        let outside = NodeClock::new(NodeId(64)).draw(Timestamp::ZERO);
        assert!(matches!(outside, Err(TxnError::NodeId { node: 64 })));
    }

    #[test]
    fn threads_never_draw_the_same() {
        let clock = NodeClock::new(NodeId(3));
        let draw =
            || (0..5000).map(|_| clock.draw(Timestamp::ZERO).expect("room")).collect::<Vec<_>>();
        let mut all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect::<Vec<_>>()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20_000);
    }
}
