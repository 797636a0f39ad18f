//! Pending rows of nodes that have ended: no transaction will ever publish or undo them, so the
//! first transaction that meets one erases it, and goes on.
//!
//! - The row is pending for ever otherwise: only its node would have changed it, and nothing of
//!   that node can have an effect any more ([`has_ended`]). So no transaction depends on the row.
//! - The entries go first, as in a [purge](crate::purge), under a write lock of the home line:
//!   until the tuple is gone, its slot gets no other row to which the same entries would lead.
//! - Other rows of the same transaction may have been published before. They stay.
//!
//! [`has_ended`]: latchwork_coherence::CoherentMemory::has_ended

use latchwork_coherence::{AccessMode, LineLocks, Need};

use super::state::State;
use crate::heap::Patience;
use crate::{Database, RowId, Table, TxnError};

impl<M: LineLocks> Database<M> {
    /// Erases the pending row `key` in `id`, if its node has ended. Returns whether the row has to
    /// be read again.
    pub(super) async fn take_back(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        id: RowId,
        key: &[u8],
    ) -> Result<bool, TxnError> {
        let (heap, mut row) = (table.heap(), Vec::new());
        let goes = self.node().settings().rules.abandoned_rows_go;
        let step = || heap.abandoned_step(id, key, &mut row);
        if !goes || !heap.drive(Patience::NoWait, step).await? {
            return Ok(false);
        }
        let need = Need { addr: heap.line_of(id), mode: AccessMode::Exclusive };
        let _lock = match state.held(need.addr) {
            Some(_) => {
                self.lock(state, need.addr, need.mode).await?;
                None
            }
            None => Some(self.lock_beside(state, need).await?),
        };
        // Another transaction may have erased the row before the lock was here.
        self.erase_abandoned(table, id, key).await?;
        Ok(true)
    }

    /// Erases the pending row `key` in `id` with its entries, if its node has ended. Returns
    /// whether it did. The caller has locked the line of the row to write. If the future is
    /// dropped, what is left can be erased later.
    pub(crate) async fn erase_abandoned(
        &self,
        table: &Table<M>,
        id: RowId,
        key: &[u8],
    ) -> Result<bool, TxnError> {
        let (heap, mut row, mut entry) = (table.heap(), Vec::new(), Vec::new());
        let step = || heap.abandoned_step(id, key, &mut row);
        if !heap.drive(Patience::NoWait, step).await? {
            return Ok(false);
        }
        let bits = id.bits().to_le_bytes();
        for index in 1..=table.secondaries() {
            // A row that has no key in an index has no entry there.
            if table.index_key(index, key, &row, &mut entry).is_ok() {
                table.tree(index).remove_stamped(&entry, &bits, 0, 0).await?;
            }
        }
        table.tree(0).remove_stamped(key, &bits, 0, 0).await?;
        heap.erase(id, key, true, Patience::NoWait).await
    }
}
