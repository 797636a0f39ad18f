//! Reading a row: plain functions over lines that are here.

use latchwork_cache::{Hint, Ownership};
use latchwork_coherence::{LineLocks, Mode, Need};
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Timestamp;

use super::Heap;
use crate::page::{Broken, HEADER, Page, SLOT, Slot, State, TupleRef, read_stamp};
use crate::{TupleId, TxnError};

/// How often an optimistic read is repeated before its reader asks for the line and so makes way.
const READS_MAX: u32 = 8;

/// A slot that stands before this byte of a page is asked for together with the page's header.
const NEAR: usize = 128;

/// What a row turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It is there, written at this time.
    Live(Timestamp),
    /// It was deleted at this time.
    Deleted(Timestamp),
    /// A transaction that has not ended adds it.
    Pending,
    /// The tuple with this name is none of this row, or there is none: the row was deleted and its
    /// tombstone is gone, or it has another name now.
    Absent,
}

/// Why a step did not finish.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A line is not here: obtain it and call again.
    Need(Need),
    /// The page is corrupt: its read was validated.
    Broken(GlobalAddr, Broken),
    /// The row moved while it was read.
    Moved,
}

/// What stands in the slot.
enum Home {
    Seen(Seen),
    Stub(TupleId, Timestamp),
}

/// How far a read of one row has come. One that stops for a line goes on where it was: without a
/// cache two lines are never here at once.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reading {
    /// Where the stub led, and when it was written.
    away: Option<(TupleId, Timestamp)>,
    /// The row was found where a stub led.
    pub(crate) moved: bool,
    /// The read stamp of its home page by then.
    pub(crate) stamp: Timestamp,
}

/// A row that stands at home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    /// When it was written.
    pub(crate) cts: Timestamp,
    /// The read stamp of its page.
    pub(crate) stamp: Timestamp,
    /// Its line is this node's alone, and nobody has locked it. Known only if that was asked for.
    pub(crate) alone: bool,
}

/// What became of the wish to leave a read stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stamped {
    /// It is there.
    Done,
    /// The row is not any more what was seen.
    Changed,
    /// Another transaction has locked the line to write.
    Locked,
}

/// How many times longer a page was not written than its read stamp is ahead, or so.
const AGE_PER_LEASE: u64 = 8;
/// Of so many rows of a page, and no more, is taken into account that one of them may have been
/// written later.
const ROWS_COUNTED: u16 = 4;

/// What a reader raises the stamp to of a page of so many rows, of which it has read one that was
/// written at `last`. The others are not looked at, since that costs a miss of the processor's
/// cache each.
fn leased(ts: Timestamp, lease: u64, last: Timestamp, rows: u16) -> Timestamp {
    let age = ts.counter().saturating_sub(last.counter());
    ts.ahead_by(lease.min(age / AGE_PER_LEASE / u64::from(rows.clamp(1, ROWS_COUNTED))))
}

impl<M: LineLocks> Heap<M> {
    /// Reads the row `key` in `id`, as a rule: if it is there, at home, and nobody writes in its
    /// line. Its value is added to `value` then.
    #[inline]
    pub(crate) fn live_step(
        &self,
        id: TupleId,
        hint: &Hint,
        key: &[u8],
        value: &mut Vec<u8>,
        asks_alone: bool,
    ) -> Option<Live> {
        let seen = self.memory.try_read_at(self.line_of(id), hint).ok()?;
        let (words, slot) = (seen.words(), self.slot_of(id));
        let tuple = TupleRef::glance(words, self.table.0, slot).ok()??;
        if tuple.state != State::Live || !tuple.key_is(key) {
            return None;
        }
        let (start, stamp) = (value.len(), read_stamp(words));
        tuple.append_value(value);
        if !seen.validate() {
            value.truncate(start);
            return None;
        }
        let alone = asks_alone
            && seen.ownership() == Ownership::Exclusive
            && seen.locked() == Ownership::Invalid;
        Some(Live { cts: tuple.cts, stamp, alone })
    }

    /// Reads the row `key` in `id`, if its lines are here: a plain function that writes no shared
    /// memory. The value is added to `value`, if the row is there. `hint` says where its home line
    /// probably is.
    pub(crate) fn get_step(
        &self,
        at: &mut Reading,
        id: TupleId,
        hint: &Hint,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Seen, Stop> {
        let start = value.len();
        let seen = self.get_from(at, id, hint, key, value);
        if !matches!(seen, Ok(Seen::Live(_))) {
            value.truncate(start);
        }
        seen
    }

    fn get_from(
        &self,
        at: &mut Reading,
        id: TupleId,
        hint: &Hint,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Seen, Stop> {
        let (away, cts) = match at.away {
            Some(away) => away,
            None => match self.get_home(id, hint, key, value, &mut at.stamp)? {
                Home::Seen(seen) => return Ok(seen),
                Home::Stub(away, cts) => *at.away.insert((away, cts)),
            },
        };
        let (slot, start) = (self.slot_of(away), value.len());
        at.moved = true;
        let found = self.read_page(self.line_of(away), &Hint::default(), |page| {
            value.truncate(start);
            let Some(tuple) = page.tuple(slot)? else { return Ok(None) };
            if tuple.state != State::Away || tuple.cts != cts || !tuple.key_is(key) {
                return Ok(None);
            }
            tuple.append_value(value);
            Ok(Some(Seen::Live(cts)))
        })?;
        at.away = None;
        found.ok_or(Stop::Moved)
    }

    fn get_home(
        &self,
        id: TupleId,
        hint: &Hint,
        key: &[u8],
        value: &mut Vec<u8>,
        stamp: &mut Timestamp,
    ) -> Result<Home, Stop> {
        let (slot, start) = (self.slot_of(id), value.len());
        self.read_page(self.line_of(id), hint, |page| {
            value.truncate(start);
            *stamp = page.read_stamp();
            let Some(tuple) = page.tuple(slot)? else { return Ok(Home::Seen(Seen::Absent)) };
            if !tuple.key_is(key) {
                return Ok(Home::Seen(Seen::Absent));
            }
            Ok(match tuple.state {
                State::Live => {
                    tuple.append_value(value);
                    Home::Seen(Seen::Live(tuple.cts))
                }
                State::Tombstone => Home::Seen(Seen::Deleted(tuple.cts)),
                State::Stub => Home::Stub(TupleId::from_bits(tuple.target()?), tuple.cts),
                State::Pending => Home::Seen(Seen::Pending),
                // An index leads here that is out of date.
                State::Away => Home::Seen(Seen::Absent),
            })
        })
    }

    /// The key of the row in `id`, if there is one, or its tombstone. `hint` says where its line
    /// probably is.
    pub(crate) fn key_step(
        &self,
        id: TupleId,
        hint: &Hint,
        key: &mut Vec<u8>,
    ) -> Result<bool, Stop> {
        let slot = self.slot_of(id);
        self.read_page(self.line_of(id), hint, |page| {
            key.clear();
            let row = page.tuple(slot)?.filter(|tuple| tuple.state != State::Away);
            if let Some(tuple) = row {
                tuple.append_key(key);
            }
            Ok(row.is_some())
        })
    }

    /// Whether the row in `id` is as it was written at `cts`, and no transaction has locked its
    /// line to write, other than the caller's, if it has (`mine`).
    ///
    /// The caller has locked what it writes, and has passed a SeqCst fence since. Then of two
    /// transactions that each write what the other has read at least one fails here: either it sees
    /// that the other has locked the line, or that has unlocked it before, and then the row is
    /// another.
    pub(crate) fn unchanged_step(
        &self,
        id: TupleId,
        hint: &Hint,
        cts: Timestamp,
        mine: bool,
    ) -> Result<bool, Stop> {
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        for _ in 0..READS_MAX {
            let seen = self.memory.try_read_at(line, hint).map_err(Stop::Need)?;
            let as_it_was = TupleRef::glance(seen.words(), self.table.0, slot)
                .map(|found| found.is_some_and(|t| t.cts == cts && t.state.is_home()));
            let locked = !mine && seen.locked() == Ownership::Exclusive;
            if seen.validate() {
                let as_it_was = as_it_was.map_err(|broken| Stop::Broken(line, broken))?;
                return Ok(as_it_was && !locked);
            }
        }
        Err(Stop::Need(Need { addr: line, mode: Mode::Shared }))
    }

    /// Whether the row in `id`, whose line the caller has locked, stands there itself and not
    /// elsewhere; `None` when it is not any more as it was written at `cts`.
    pub(crate) fn at_home_step(
        &self,
        id: TupleId,
        hint: &Hint,
        cts: Timestamp,
    ) -> Result<Option<bool>, Stop> {
        let slot = self.slot_of(id);
        self.read_page(self.line_of(id), hint, |page| {
            let found = page.tuple(slot)?.filter(|t| t.cts == cts && t.state.is_home());
            Ok(found.map(|tuple| tuple.state != State::Stub))
        })
    }

    /// Leaves the read stamp `ts` for a row of which `seen_at` was seen, and `stamp` of its page,
    /// unless it changed since, or another transaction has locked its line to write.
    ///
    /// The stamp may be ahead of `ts`, by `lease` at most, so that the next readers find it high
    /// enough: by as much as the row's age allows. It is the stamp of readers who have not come; a
    /// writer before it has to come later.
    ///
    /// # Why no writer is missed
    ///
    /// A writer locks the line, and then looks at the stamp under the line's guard. Whoever raises
    /// the stamp looks at the lock under the guard. If the guard of the reader comes first, the
    /// writer sees the stamp; otherwise the reader sees the lock, or what was written under it. A
    /// reader that finds the stamp high enough already raises nothing: the guard under which it was
    /// raised came before the writer's, which then sees it, or after, and then the lock was there
    /// to be seen by whoever sees the stamp.
    pub(crate) fn stamp_step(
        &self,
        id: TupleId,
        hint: &Hint,
        (seen_at, stamp): (Timestamp, Timestamp),
        ts: Timestamp,
        lease: u64,
        mine: bool,
    ) -> Result<Stamped, Stop> {
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        let broken = |broken| Stop::Broken(line, broken);
        // The page's stamp by then: it only rises.
        if stamp >= ts
            && let Ok(read) = self.memory.try_read_at(line, hint)
        {
            let same = |t: &TupleRef<'_>| t.cts == seen_at && t.state.is_home();
            let found = TupleRef::glance(read.words(), self.table.0, slot);
            let enough =
                matches!(found, Ok(Some(tuple)) if same(&tuple)) && read_stamp(read.words()) >= ts;
            let locked = !mine && read.locked() == Ownership::Exclusive;
            if enough && !locked && read.validate() {
                return Ok(Stamped::Done);
            }
        }
        let mut guard = self.memory.try_write_at(line, hint).map_err(Stop::Need)?;
        if !mine && guard.locked() == Ownership::Exclusive {
            return Ok(Stamped::Locked);
        }
        let page = Page::open(guard.words(), self.table.0).map_err(broken)?;
        let as_seen = |t: TupleRef<'_>| t.cts == seen_at && t.state.is_home();
        if !page.tuple(slot).map_err(broken)?.is_some_and(as_seen) {
            return Ok(Stamped::Changed);
        }
        let rows = page.rows();
        let dirty = page.raise_read_stamp(leased(ts, lease, seen_at, rows));
        guard.mark_dirty(dirty.range());
        Ok(Stamped::Done)
    }

    /// Reads one page. `read` may see garbage; its result is used only if the page was consistent.
    #[inline]
    pub(super) fn read_page<R>(
        &self,
        line: GlobalAddr,
        hint: &Hint,
        mut read: impl FnMut(&Page<'_>) -> Result<R, Broken>,
    ) -> Result<R, Stop> {
        for _ in 0..READS_MAX {
            let seen = self.memory.try_read_at(line, hint).map_err(Stop::Need)?;
            let result = Page::glance(seen.words(), self.table.0).and_then(|page| read(&page));
            if seen.validate() {
                return result.map_err(|broken| Stop::Broken(line, broken));
            }
        }
        Err(Stop::Need(Need { addr: line, mode: Mode::Shared }))
    }

    /// Asks the processor for what is read first of a row: the line's header and the row's slot,
    /// and of `locks` also what a lock of the line takes.
    #[inline]
    pub(crate) fn prefetch_slot(&self, id: TupleId, hint: &Hint, locks: bool) {
        let slot = Slot::at(self.slot_of(id));
        if slot < NEAR {
            self.memory.prefetch(hint, 0..slot + SLOT);
        } else {
            self.memory.prefetch(hint, 0..HEADER);
            self.memory.prefetch(hint, slot..slot + SLOT);
        }
        if locks {
            self.memory.prefetch_lock(hint);
        }
    }

    /// In which frame the row's line probably is.
    #[inline]
    pub(crate) fn guess(&self, id: TupleId) -> Hint {
        self.memory.guess(self.line_of(id))
    }

    /// Asks the processor for the row itself, once its slot is here.
    #[inline]
    pub(crate) fn prefetch_tuple(&self, id: TupleId, hint: &Hint) {
        let at = Slot::at(self.slot_of(id));
        let bits = self.memory.peek(hint, at) >> (8 * (at & 4));
        let slot = Slot::from_bits(bits as u32);
        let end = (slot.offset + slot.size).min(self.memory.payload_len());
        self.memory.prefetch(hint, slot.offset.min(end)..end);
    }

    /// Asks the processor for what [`guess`](Heap::guess) reads.
    #[inline]
    pub(crate) fn prefetch_place(&self, id: TupleId) {
        self.memory.prefetch_guess(self.line_of(id));
    }

    /// Reads the row `key` in `id`, waiting for whatever it takes. The value is in `value`
    /// afterwards, if the row is there.
    ///
    /// # Errors
    /// [`TxnError::Corrupt`], [`TxnError::Starved`], and when memory fails.
    pub async fn get(
        &self,
        id: TupleId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Seen, TxnError> {
        value.clear();
        let (mut at, hint) = <(Reading, Hint)>::default();
        self.drive(super::Patience::Wait, || self.get_step(&mut at, id, &hint, key, value)).await
    }
}
