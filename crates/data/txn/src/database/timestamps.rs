//! Timestamps from the counter of all nodes, drawn one by one or in blocks.

use std::ptr;
use std::sync::Arc;

use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;

use super::Database;
use super::block::Block;
use super::words::TIMESTAMPS;
use crate::{Timestamp, TxnError};

impl<M: LineLocks> Database<M> {
    /// Draws a timestamp from the counter of all nodes, for a transaction of `generation`.
    pub(crate) async fn draw(&self, generation: &Arc<()>) -> Result<Timestamp, TxnError> {
        let next = {
            let mut block = self.0.block.borrow_mut();
            // Unused timestamps of an earlier generation are dropped, because they may be below a
            // floor that a checkpoint has drawn since.
            if !block.of.as_ref().is_some_and(|of| ptr::eq(of.as_ptr(), Arc::as_ptr(generation))) {
                *block = Block::default();
            }
            block.left.next()
        };
        let above = self.0.above.get().counter();
        let next = next.filter(|next| *next > above);
        let counter = match next {
            Some(counter) => counter,
            None => {
                let most = self.node().settings().timestamp_block.max(1);
                let from = self.draw_counters(most, above).await?;
                strict_assert!(
                    from > above,
                    "the counters that were drawn are below one that was seen"
                );
                let of = Some(Arc::downgrade(generation));
                *self.0.block.borrow_mut() = Block { of, left: from + 1..from + most };
                from
            }
        };
        let node = self.node().clock().node();
        strict_assert!(counter > above, "a timestamp is below one that was seen");
        Timestamp::new(counter, node).ok_or(TxnError::ClockExhausted)
    }

    /// Drops the timestamps of the block. A transaction with one of them might be too late for
    /// transactions of other workers.
    pub(crate) fn drop_block(&self) {
        *self.0.block.borrow_mut() = Block::default();
    }

    /// Draws `most` consecutive counters above `above`, and returns the first of them.
    async fn draw_counters(&self, most: u64, above: u64) -> Result<u64, TxnError> {
        let (memory, counters) = (self.memory(), self.0.counters);
        let drawn = memory.fetch_add(counters, TIMESTAMPS, most).await?;
        if drawn >= above {
            return Ok(drawn + 1);
        }
        // The counter itself moves above `above`, so that later transactions get later timestamps.
        let behind = above - drawn;
        Ok(memory.fetch_add(counters, TIMESTAMPS, behind + most).await? + behind + 1)
    }

    /// Draws a timestamp above `ts`, for a transaction that has begun.
    pub(crate) async fn draw_later(&self, ts: Timestamp) -> Result<Timestamp, TxnError> {
        let counter = self.draw_counters(1, ts.counter()).await?;
        let node = self.node().clock().node();
        strict_assert!(counter > ts.counter(), "a later timestamp is not later");
        Timestamp::new(counter, node).ok_or(TxnError::ClockExhausted)
    }

    /// Makes the next timestamps later than `ts`.
    pub(crate) fn draw_above(&self, ts: Timestamp) {
        self.0.above.set(self.0.above.get().max(ts));
    }

    /// The value of the counter of all nodes: the highest counter that was drawn from it, or to
    /// which it was raised.
    pub(crate) async fn timestamps_drawn(&self) -> Result<u64, TxnError> {
        Ok(self.memory().fetch_add(self.0.counters, TIMESTAMPS, 0).await?)
    }

    /// Makes all later timestamps higher than `ts`: those of this node's clock, and those of the
    /// counter of all nodes.
    pub(crate) async fn raise_clocks(&self, ts: Timestamp) -> Result<(), TxnError> {
        self.node().clock().raise(ts);
        let (memory, counters) = (self.memory(), self.0.counters);
        let now = memory.fetch_add(counters, TIMESTAMPS, 0).await?;
        if now < ts.counter() {
            memory.fetch_add(counters, TIMESTAMPS, ts.counter() - now).await?;
        }
        Ok(())
    }
}
