//! The rows of a table, in lines that belong to this table only.
//!
//! ```text
//!  worker 1          worker 2                 a row that grew
//!   tail ─► [ line ]  tail ─► [ line ]        [ home: stub, cts 9 ] ──► [ away, cts 9 ]
//!   room: lines where it freed space                ▲ every index leads here, permanently
//! ```
//!
//! - Each worker adds rows first to a line of its own, the *tail*. So inserts of different workers
//!   seldom meet outside the index.
//! - A row that grows stays in its slot if its page has room. Otherwise the row moves to another
//!   line and leaves a *stub* in its home slot. So the row id stays the same while the row exists.
//!   A lock of the row is a lock of its home line. No reader follows more than one stub for one
//!   version. The alternative would be to correct all entries that lead to the row. Such
//!   corrections would write to lines of every index, and would not reach transactions that have
//!   read the row id already.
//! - A row that moves again is first written to a new location. After that, the stub is changed to
//!   lead there. A reader that follows the stub compares timestamps. If the tuple there does not
//!   have the timestamp of the stub, the row has moved or changed, and the reader begins again.
//! - So a read returns the whole row as it was at some time during the read. Every change of the
//!   row changes the home line. So a second read of the home line shows whether the row is
//!   unchanged.
//! - Lines are never returned to the pool, so an outdated row id leads to some page of this table.
//!   The key in the tuple shows whether the tuple is the row.
//! - A row that is to grow gets its room in [`prepare`](Heap::prepare), while its transaction can
//!   still be undone. So [`install`](Heap::install) never lacks room.
//! - A dropped operation leaves the rows as they were, or completely changed. A dropped operation
//!   may leave a *stray*: a tuple to which nothing leads. The next insert or undo of the worker in
//!   this table removes the stray, if no transaction of another node has locked its line.
//!
//! The heap does not know what locks mean, with one exception: an access can refuse to wait for the
//! lock of another transaction ([`Patience`]).

mod placement;
mod places;
mod read;
mod stop;
mod write;

pub(crate) use placement::{Placed, RUN};
pub use read::SeenRow;
pub(crate) use read::{Reading, Stamped};
pub(crate) use stop::Stop;
pub(crate) use write::{Install, Prepared};

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, LockOutcome};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{TableId, Timestamp};

use crate::page::{Broken, row_max};
use crate::{Conflict, RowId, TxnError};
use places::Places;

/// The maximum number of attempts of one step. A step is tried again when its line is not here, or
/// when the row changed during the read.
const ROUNDS_MAX: u32 = 1_000_000;

/// Whether an access waits for a line that a transaction of another node has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Waits until the memory's deadline. For accesses of a task that holds no lock, and for lines
    /// that the task itself has locked. The install also waits when a row away from home finds no
    /// other location.
    Wait,
    /// Does not wait for the unlock, and ends in [`Conflict::Locked`]. For accesses of a
    /// transaction that may hold locks: two transactions that hold locks must not wait for each
    /// other.
    NoWait,
}

/// One worker's handle on the rows of a table. Clones share the worker's tail.
pub struct Heap<M: LineLocks> {
    memory: M,
    table: TableId,
    /// Bytes of a line: a power of two.
    line_size: usize,
    /// The maximum number of rows of a line.
    rows_max: u16,
    /// The signature of this node, which pending rows have in place of a timestamp.
    signature: u64,
    locations: Rc<RefCell<Places>>,
    /// A guess of the frame of the line to which tuples were added last.
    tail: Rc<Hint>,
}

impl<M: LineLocks> Clone for Heap<M> {
    fn clone(&self) -> Self {
        Heap {
            memory: self.memory.clone(),
            locations: self.locations.clone(),
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
    /// Makes a handle on the rows of `table`, with at most `rows_max` rows in a line. Rows of one
    /// line are locked together. So where all transactions change the same few rows, each of these
    /// rows should have a line of its own.
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
        strict_assert!(
            line_size.is_power_of_two() && line_size >= payload,
            "a line is smaller than its payload"
        );
        strict_assert!(rows_max > 0, "a line without rows");
        let signature = memory.signature();
        Ok(Heap { memory, table, line_size, rows_max, signature, locations: places, tail })
    }

    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// What a pending row of this node has in place of a timestamp.
    pub(crate) fn of_this_node(&self) -> Timestamp {
        Timestamp(self.signature)
    }

    /// The maximum length of a key and its value together, in bytes.
    pub(crate) fn row_max(&self) -> usize {
        row_max(self.memory.payload_len())
    }

    /// The home line of a row. A lock of the row locks this line.
    #[inline]
    pub fn line_of(&self, id: RowId) -> GlobalAddr {
        id.line(self.line_size)
    }

    #[inline]
    fn slot_of(&self, id: RowId) -> usize {
        id.slot(self.line_size)
    }

    fn corrupt(&self, line: GlobalAddr, broken: Broken) -> TxnError {
        TxnError::Corrupt { line, what: broken.0.into() }
    }

    /// Runs a step until it finishes. Between two attempts this function obtains the line that the
    /// step lacks.
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
