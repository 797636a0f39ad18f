//! The rows of a table, in lines that only this table has.
//!
//! ```text
//!  worker 1          worker 2                 a row that grew
//!   tail ─► [ line ]  tail ─► [ line ]        [ home: stub, cts 9 ] ──► [ away, cts 9 ]
//!   room: lines where it freed space                ▲ every index leads here, for ever
//! ```
//!
//! - Each worker adds rows to a line of its own, so inserts of different workers meet in the index
//!   only.
//! - A row that grows stays in its slot if its page has room. Else it moves to another line and
//!   leaves a *stub*. The alternative, correcting what leads to it, would be writes to the lines of
//!   every index and would not reach the transactions that have read its name already. With the
//!   stub the name of a row never changes, what locks the row locks its home line, and no reader
//!   goes further than one step.
//! - A row that moved is written to a new place each time, and then the stub is switched: whoever
//!   read the stub finds either a tuple with the stub's timestamp or a stub that has changed.
//! - So a read has what the row was at some time while it was under way, whole. Whoever needs to
//!   know that it is so still looks at the home line again: every change of the row changes that.
//! - Lines are never given back to the pool, so a name that is out of date leads to some page of
//!   this table. That its tuple is the row that was looked for is told by the key in it.
//! - What nothing may fail for later is done before: a row that is to grow gets its room
//!   ([`prepare`](Heap::prepare)) while its transaction can still be undone, and then
//!   [`install`](Heap::install) cannot lack it.
//! - A dropped operation leaves the table as it was, or changed as a whole. A tuple that it had
//!   placed and told nobody of is taken away by the next insert of its handle.
//!
//! What locks mean is not known here, but for one thing: an access may be one that must not wait
//! for the lock of another transaction ([`Patience`]).

mod places;
mod read;
mod write;

pub(crate) use places::{Placed, RUN};
pub use read::Seen;
pub(crate) use read::{Reading, Stamped, Stop};
pub(crate) use write::{Install, Prepared};

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, LockOutcome};
use latchwork_verbs::GlobalAddr;
use latchwork_wal::TableId;

use crate::page::{Broken, row_max};
use crate::{Conflict, TupleId, TxnError};
use places::Places;

/// How often an operation looks at a row again that others change meanwhile. Each time, one of them
/// got through.
const ROUNDS_MAX: u32 = 1_000_000;

/// Whether an access waits where another node's transaction has locked the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Until the deadline: for those who hold no lock.
    Wait,
    /// Not at all: it ends in [`Conflict::Locked`]. Those who hold locks must not wait for others',
    /// or two could for each other.
    NoWait,
}

/// One worker's handle on the rows of a table. Clones share the worker's tail.
pub struct Heap<M: LineLocks> {
    memory: M,
    table: TableId,
    /// Bytes of a line: a power of two.
    line_size: usize,
    /// How many rows a line takes at most.
    rows_max: u16,
    places: Rc<RefCell<Places>>,
    /// Where the line probably is that tuples were added to last.
    tail: Rc<Hint>,
}

impl<M: LineLocks> Clone for Heap<M> {
    fn clone(&self) -> Self {
        Heap {
            memory: self.memory.clone(),
            places: self.places.clone(),
            tail: self.tail.clone(),
            ..*self
        }
    }
}

impl<M: LineLocks> fmt::Debug for Heap<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<M: LineLocks> Heap<M> {
    /// A handle on the rows of `table`, of which a line takes `rows_max` at most. Rows of one line
    /// are locked together, so where all transactions change the same few rows, each of these has a
    /// line of its own.
    ///
    /// # Errors
    /// [`TxnError::LineSize`].
    pub fn new(memory: M, table: TableId, rows_max: Option<u16>) -> Result<Heap<M>, TxnError> {
        let payload = memory.payload_len();
        if !(480..=65504).contains(&payload) || !payload.is_multiple_of(8) {
            return Err(TxnError::LineSize { payload });
        }
        let rows_max = rows_max.unwrap_or(u16::MAX).max(1);
        let (line_size, places, tail) = (payload.next_power_of_two(), Rc::default(), Rc::default());
        Ok(Heap { memory, table, line_size, rows_max, places, tail })
    }

    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The most bytes of a key and a value together.
    pub fn row_max(&self) -> usize {
        row_max(self.memory.payload_len())
    }

    /// The line that a row belongs to, which is what locks of the row are locks of.
    #[inline]
    pub fn line_of(&self, id: TupleId) -> GlobalAddr {
        id.line(self.line_size)
    }

    #[inline]
    fn slot_of(&self, id: TupleId) -> usize {
        id.slot(self.line_size)
    }

    fn corrupt(&self, line: GlobalAddr, broken: Broken) -> TxnError {
        TxnError::Corrupt { line, what: broken.0.into() }
    }

    /// Runs a step until it is through, obtaining one line at a time in between.
    pub(crate) async fn drive<R>(
        &self,
        patience: Patience,
        mut step: impl FnMut() -> Result<R, Stop>,
    ) -> Result<R, TxnError> {
        let mut _ticket = None;
        for _ in 0..ROUNDS_MAX {
            match step() {
                Ok(done) => return Ok(done),
                Err(Stop::Broken(line, broken)) => return Err(self.corrupt(line, broken)),
                Err(Stop::Moved) => self.memory.handle().yield_now().await,
                Err(Stop::Need(need)) => {
                    drop(_ticket.take());
                    _ticket = Some(match patience {
                        Patience::Wait => self.memory.ensure(need).await?,
                        Patience::NoWait => match self.memory.ensure_unlocked(need).await? {
                            LockOutcome::Got(ticket) => ticket,
                            LockOutcome::Locked => return Err(Conflict::Locked.into()),
                        },
                    });
                }
            }
        }
        Err(TxnError::Starved { table: self.table, rounds: ROUNDS_MAX })
    }
}
