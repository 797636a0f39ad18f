//! Timestamp ordering: a transaction that comes too late takes a later timestamp, if what it has
//! read allows.

use latchwork_coherence::LineLocks;
use latchwork_wal::Timestamp;

use super::state::State;
use crate::heap::{Patience, Stamped};
use crate::{Conflict, Database, TxnError};

/// How often a transaction does so.
const MOVES_MAX: u32 = 8;

impl<M: LineLocks> Database<M> {
    /// Makes the transaction later than `than`, which has happened in its way.
    ///
    /// It is then what it would be if it had begun with that timestamp and read everything now:
    /// each row that it has read is still the version that it has read, and its page's read stamp
    /// says so from now on, as does that of each leaf in which it has found something missing. What
    /// it has announced needs no timestamp yet, or may have a later one: entries were admitted at
    /// an earlier one. What others have seen of it are locks and pending rows, which say nothing of
    /// its time.
    ///
    /// # Errors
    /// Conflicts: it is too late, and cannot be later.
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
