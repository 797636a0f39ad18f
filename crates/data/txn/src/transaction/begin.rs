//! The begin of a transaction.

use latchwork_coherence::LineLocks;

use super::Transaction;
use crate::{Conflict, Database, Scheme, Timestamp, TxnError};

impl<M: LineLocks> Database<M> {
    /// Begins a transaction. Under timestamp ordering this draws its timestamp.
    ///
    /// # Errors
    /// Memory failures; [`TxnError::ClockExhausted`].
    pub async fn begin(&self) -> Result<Transaction<M>, TxnError> {
        // The generation comes first. So a transaction of a new generation draws its timestamp
        // after the generation began.
        let generation = self.begin_generation();
        let ts = match self.scheme() {
            Scheme::TimestampOrdering => self.draw(&generation).await?,
            _ => Timestamp::ZERO,
        };
        Ok(Transaction::begin(self.clone(), ts, generation))
    }

    /// Begins a part of a transaction that has begun elsewhere. Under timestamp ordering `ts` is
    /// the [timestamp](Transaction::timestamp) of that transaction; otherwise `ts` has no effect.
    ///
    /// # Errors
    /// [`Conflict::TooLate`] under timestamp ordering, when a checkpoint with a later floor has
    /// begun since then. The checkpoint would not wait for this part.
    pub fn begin_at(&self, ts: Timestamp) -> Result<Transaction<M>, TxnError> {
        // The generation comes before the check of the floor. A checkpoint waits for the
        // transactions of earlier generations, and transactions of the new generation see its
        // floor.
        let generation = self.begin_generation();
        let ts = match self.scheme() {
            Scheme::TimestampOrdering if ts <= self.node().floor() => {
                return Err(Conflict::TooLate.into());
            }
            Scheme::TimestampOrdering => ts,
            _ => Timestamp::ZERO,
        };
        Ok(Transaction::begin(self.clone(), ts, generation))
    }
}
