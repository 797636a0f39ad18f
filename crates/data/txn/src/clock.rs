//! [`NodeClock`]: where a node's commit timestamps come from.

use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_wal::{NodeId, Timestamp};

use crate::TxnError;

/// The clock of a compute node, shared by its workers.
///
/// Under two-phase locking and optimistically, a transaction commits at the highest of this clock
/// and of all timestamps that it read or is to overwrite (those of rows, and those of leaves that
/// its entries came into), plus one, and the clock moves there. So who reads or overwrites what
/// another has written has the later timestamp, on any nodes (Lamport's clocks, with tuples in
/// place of messages); who overwrites what another has only read may have the earlier one. Under
/// timestamp ordering a transaction commits at the timestamp that it drew at its begin from the
/// counter of all nodes, and this clock is only raised to it.
#[derive(Debug)]
pub struct NodeClock {
    counter: AtomicU64,
    node: NodeId,
}

impl NodeClock {
    /// A clock at its start. After a restart, [`raise`](NodeClock::raise) it to what replay found.
    pub fn new(node: NodeId) -> NodeClock {
        NodeClock { counter: AtomicU64::new(0), node }
    }

    /// Whose clock it is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    // Relaxed, here and below: read-modify-writes of one atomic are in one order, so no two draw
    // the same, and nothing else is published by them. That a later transaction of another worker
    // gets more than a tuple that it read does not rest on this clock but on the tuple's own
    // timestamp.

    /// Draws a timestamp above `after` and above all that this clock has given or was raised to.
    ///
    /// # Errors
    /// [`TxnError::ClockExhausted`], [`TxnError::NodeId`].
    pub fn draw(&self, after: Timestamp) -> Result<Timestamp, TxnError> {
        let next = |now: u64| now.max(after.counter()).checked_add(1);
        let drawn = self.counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let drawn = drawn.ok().and_then(next).ok_or(TxnError::ClockExhausted)?;
        if self.node.0 >= Timestamp::NODES_MAX {
            return Err(TxnError::NodeId { node: self.node.0 });
        }
        Timestamp::new(drawn, self.node).ok_or(TxnError::ClockExhausted)
    }

    /// Makes every timestamp to come higher than `floor`.
    pub fn raise(&self, floor: Timestamp) {
        self.counter.fetch_max(floor.counter(), Ordering::Relaxed);
    }

    /// At least the highest timestamp that was drawn.
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
