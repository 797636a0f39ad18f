//! The rows of a table, in lines that only this table has.
//!
//! ```text
//!  worker 1          worker 2                 a row that grew
//!   tail ─► [ line ]  tail ─► [ line ]        [ home: stub, cts 9 ] ──► [ away, cts 9 ]
//!   room: lines where it freed space                ▲ every index leads here, for ever
//! ```
//!
//! - Each worker adds rows to a line of its own, so inserts of different workers meet in the index only.
//! - A row that grows stays in its slot if its page has room. Else it moves to another line and leaves
//!   a *stub*. The alternative, correcting what leads to it, would be writes to the lines of every index
//!   and would not reach the transactions that have read its name already. With the stub the name of a
//!   row never changes, what locks the row locks its home line, and no reader goes further than one step.
//! - A row that moved is written to a new place each time, and then the stub is switched: whoever read the
//!   stub finds either a tuple with the stub's timestamp or a stub that has changed.
//! - So a read has what the row was at some time while it was under way, whole. Whoever needs to know that
//!   it is so still looks at the home line again: every change of the row changes that.
//! - Lines are never given back to the pool, so a name that is out of date leads to some page of this table.
//!   That its tuple is the row that was looked for is told by the key in it.
//! - A dropped operation leaves the table as it was, or changed as a whole. A tuple that it had placed and
//!   told nobody of is taken away by the next insert of its handle.

mod places;
mod read;
mod write;

pub use read::{Reading, Seen};

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::TableId;

use crate::page::{Broken, row_max};
use crate::{TupleId, TxnError};
use places::Places;

/// How often an operation looks at a row again that others change meanwhile. Each time, one of them got
/// through.
const ROUNDS_MAX: u32 = 1_000_000;

/// One worker's handle on the rows of a table. Clones share the worker's tail.
pub struct Heap<M: CoherentMemory> {
    memory: M,
    table: TableId,
    places: Rc<RefCell<Places>>,
}

impl<M: CoherentMemory> Clone for Heap<M> {
    fn clone(&self) -> Self {
        Heap { memory: self.memory.clone(), table: self.table, places: self.places.clone() }
    }
}

impl<M: CoherentMemory> fmt::Debug for Heap<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<M: CoherentMemory> Heap<M> {
    /// A handle on the rows of `table`.
    ///
    /// # Errors
    /// [`TxnError::LineSize`].
    pub fn new(memory: M, table: TableId) -> Result<Heap<M>, TxnError> {
        let payload = memory.payload_len();
        if !(480..=65504).contains(&payload) || !payload.is_multiple_of(8) {
            return Err(TxnError::LineSize { payload });
        }
        Ok(Heap { memory, table, places: Rc::default() })
    }

    /// The most bytes of a key and a value together.
    pub fn row_max(&self) -> usize {
        row_max(self.memory.payload_len())
    }

    /// The line that a row belongs to, which is what locks of the row are locks of.
    pub fn line_of(&self, id: TupleId) -> GlobalAddr {
        id.line(self.line_size())
    }

    fn line_size(&self) -> usize {
        self.memory.payload_len().next_power_of_two()
    }

    fn slot_of(&self, id: TupleId) -> usize {
        id.slot(self.line_size())
    }

    fn corrupt(&self, line: GlobalAddr, broken: Broken) -> TxnError {
        TxnError::Corrupt { line, what: broken.0.into() }
    }

    fn count_round(&self, id: TupleId, rounds: &mut u32) -> Result<(), TxnError> {
        *rounds += 1;
        if *rounds > ROUNDS_MAX {
            return Err(TxnError::Starved { line: self.line_of(id), rounds: *rounds });
        }
        Ok(())
    }
}
