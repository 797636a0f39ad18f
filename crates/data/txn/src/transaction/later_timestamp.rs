//! Timestamp ordering: a transaction that comes too late takes a later timestamp, if all that it
//! has read is unchanged.

use latchwork_coherence::LineLocks;
use latchwork_wal::Timestamp;

use super::state::State;
use crate::heap::{Patience, Stamped};
use crate::{Conflict, Database, TxnError};

/// The maximum number of later timestamps of one transaction.
const MOVES_MAX: u32 = 8;

impl<M: LineLocks> Database<M> {
    /// Gives the transaction a timestamp above `than`, the timestamp for which it comes too late.
    ///
    /// After success the transaction is as if it had begun with the new timestamp and had read
    /// everything just now:
    ///
    /// 1. Each row that it has read is still the same version. The read timestamp of its page is
    ///    raised to the new timestamp.
    /// 2. The same holds for each leaf of a scan or of a lookup that found no row.
    /// 3. The staged rows have no timestamp yet. The leaves have admitted the index entries of the
    ///    transaction at an earlier timestamp, so they admit the later one, too. The same holds for
    ///    rows to be written that were checked against the read timestamps of their pages.
    /// 4. Other transactions have seen only its locks, its pending rows and its index entries,
    ///    which carry no timestamp.
    ///
    /// # Errors
    /// Conflicts, when the transaction cannot take a later timestamp; memory and index failures;
    /// [`TxnError::ClockExhausted`].
    pub(super) async fn move_up(
        &self,
        state: &mut State<M>,
        than: Timestamp,
    ) -> Result<(), TxnError> {
        if !state.may_move || state.moves >= MOVES_MAX {
            self.draw_above(than);
            return Err(Conflict::TooLate.into());
        }
        state.moves += 1;
        let ts = self.draw_later(than).await?;
        for read in &state.reads {
            let heap = state.table(read.table).heap();
            let mine = state.writes_line(heap.line_of(read.id));
            let lease = if mine { 0 } else { state.lease };
            let step = || heap.stamp_step(read.id, &read.hint, (read.cts, ts), ts, lease, mine);
            match heap.drive(Patience::NoWait, step).await? {
                Stamped::Done => {}
                Stamped::Changed => return Err(Conflict::Changed.into()),
                Stamped::Locked => return Err(Conflict::Locked.into()),
            }
        }
        for seen in &state.leaves {
            let tree = state.table(seen.table).tree(usize::from(seen.index));
            match tree.raise_read(&seen.leaf, ts.0).await? {
                None => return Err(Conflict::Phantom.into()),
                Some(stamp) if stamp.removed > ts.0 => return Err(Conflict::TooLate.into()),
                Some(_) => {}
            }
        }
        state.ts = ts;
        Ok(())
    }
}
