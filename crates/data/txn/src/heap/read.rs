//! Row reads: plain functions over lines that are here.

use latchwork_cache::{Hint, Ownership};
use latchwork_coherence::{AccessMode, LineLocks, Need};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Timestamp;

use super::stop::Stop;
use super::{Heap, Patience};
use crate::page::{Broken, HEADER, Page, SLOT, Slot, State, TupleRef, read_timestamp};
use crate::{RowId, TxnError};

/// The number of failed optimistic reads after which a reader returns a need for the line, and so
/// waits for the writers.
const READS_MAX: u32 = 8;

/// A slot that begins before this byte of a page is prefetched together with the page header.
const NEAR: usize = 128;

/// The result of a row read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeenRow {
    /// The row exists, with this commit timestamp.
    Live(Timestamp),
    /// The row was deleted at this commit timestamp.
    Deleted(Timestamp),
    /// The row is pending: the transaction that adds the row has not ended, or the transaction has
    /// failed and its tuple is not removed yet.
    Pending,
    /// No tuple of this row has this row id. For example, the row was deleted and purged, was never
    /// committed, or has another row id now.
    Absent,
}

/// The content of the home slot.
enum Home {
    Seen(SeenRow),
    Stub(RowId, Timestamp),
}

/// The progress of one row read. A read that stops for a line continues at that line. Under SEL a
/// restart would never succeed: a node keeps no line after an access, so the home line and the line
/// of the tuple are never here together.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reading {
    /// The location in the stub, and the timestamp of the stub.
    away: Option<(RowId, Timestamp)>,
    /// The row was found where a stub led.
    pub(crate) moved: bool,
    /// The read timestamp of the home page at the time of the read.
    pub(crate) stamp: Timestamp,
}

/// A row with its tuple in its home slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    /// The commit timestamp of the row.
    pub(crate) cts: Timestamp,
    /// The read timestamp of its page.
    pub(crate) stamp: Timestamp,
    /// This node owns the line exclusively, and no transaction has locked the line. False if the
    /// caller did not ask.
    pub(crate) alone: bool,
}

/// The result of an attempt to raise a read timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stamped {
    /// The read timestamp is high enough.
    Done,
    /// The row is no longer the version that was read.
    Changed,
    /// Another transaction has locked the line to write.
    Locked,
}

/// The read lease of a row is its age, in timestamps, divided by this number.
const AGE_PER_LEASE: u64 = 8;
const _: () =
    assert!(AGE_PER_LEASE > 0 && ROWS_COUNTED > 0, "a lease is divided by its age and rows");
/// On a page of several rows the lease is also divided by the number of rows, at most by this
/// number. The reason: another row of the page may have been written later.
const ROWS_COUNTED: u16 = 4;

/// The read timestamp for a page of `rows` rows, after a reader at `ts` has read one row that was
/// written at `last`. The other rows are not checked, because each check may cost a miss of the
/// processor's cache.
fn leased(ts: Timestamp, lease: u64, last: Timestamp, rows: u16) -> Timestamp {
    let age = ts.counter().saturating_sub(last.counter());
    ts.ahead_by(lease.min(age / AGE_PER_LEASE / u64::from(rows.clamp(1, ROWS_COUNTED))))
}

impl<M: LineLocks> Heap<M> {
    /// The fast path of a read of the row `key` in `id`: the row exists at home and no writer
    /// changes its line during the read. Appends the value to `value`.
    ///
    /// Always inlined: most callers do not ask whether the line is owned alone.
    #[inline(always)]
    pub(crate) fn live_step(
        &self,
        id: RowId,
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
        let (start, stamp) = (value.len(), read_timestamp(words));
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
    /// memory. Appends the value to `value` if the row exists. `hint` is a guess of the frame of
    /// its home line.
    pub(crate) fn get_step(
        &self,
        at: &mut Reading,
        id: RowId,
        hint: &Hint,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<SeenRow, Stop> {
        let start = value.len();
        let seen = self.get_from(at, id, hint, key, value);
        if !matches!(seen, Ok(SeenRow::Live(_))) {
            value.truncate(start);
        }
        seen
    }

    fn get_from(
        &self,
        at: &mut Reading,
        id: RowId,
        hint: &Hint,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<SeenRow, Stop> {
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
            Ok(Some(SeenRow::Live(cts)))
        })?;
        at.away = None;
        found.ok_or(Stop::Moved)
    }

    fn get_home(
        &self,
        id: RowId,
        hint: &Hint,
        key: &[u8],
        value: &mut Vec<u8>,
        stamp: &mut Timestamp,
    ) -> Result<Home, Stop> {
        let (slot, start) = (self.slot_of(id), value.len());
        self.read_page(self.line_of(id), hint, |page| {
            value.truncate(start);
            *stamp = page.read_stamp();
            let Some(tuple) = page.tuple(slot)? else { return Ok(Home::Seen(SeenRow::Absent)) };
            if !tuple.key_is(key) {
                return Ok(Home::Seen(SeenRow::Absent));
            }
            Ok(match tuple.state {
                State::Live => {
                    tuple.append_value(value);
                    Home::Seen(SeenRow::Live(tuple.cts))
                }
                State::Tombstone => Home::Seen(SeenRow::Deleted(tuple.cts)),
                State::Stub => Home::Stub(RowId::from_bits(tuple.target()?), tuple.cts),
                State::Pending => Home::Seen(SeenRow::Pending),
                // Only a stub leads to this tuple. So the index entry is out of date.
                State::Away => Home::Seen(SeenRow::Absent),
            })
        })
    }

    /// Whether the row `key` in `id` is pending, and the node that placed it has ended. Appends its
    /// value to `value` then.
    pub(crate) fn abandoned_step(
        &self,
        id: RowId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, Stop> {
        let (slot, start) = (self.slot_of(id), value.len());
        self.read_page(self.line_of(id), &Hint::default(), |page| {
            value.truncate(start);
            let tuple = page.tuple(slot)?;
            let tuple = tuple.filter(|t| t.state == State::Pending && t.key_is(key));
            let tuple = tuple.filter(|t| self.memory.has_ended(t.cts.0));
            if let Some(tuple) = tuple {
                tuple.append_value(value);
            }
            Ok(tuple.is_some())
        })
    }

    /// Reads the key of the row or tombstone in `id`. `hint` is a guess of the frame of its line.
    pub(crate) fn key_step(&self, id: RowId, hint: &Hint, key: &mut Vec<u8>) -> Result<bool, Stop> {
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

    /// Whether the row in `id` is the version written at `cts`, and no other transaction has locked
    /// its line to write. `mine`: the caller itself has locked the line to write.
    ///
    /// If each of two transactions writes a row that the other has read, at least one of them fails
    /// here:
    ///
    /// 1. Each transaction locks the rows that it writes, then executes a SeqCst fence, and then
    ///    reads here.
    /// 2. So at least one of the two reads after the other has set its lock.
    /// 3. That transaction sees the lock and fails. Or the other transaction has committed and
    ///    unlocked the line before; then the row has another version, and the read fails, too.
    pub(crate) fn unchanged_step(
        &self,
        id: RowId,
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
        Err(Stop::Need(Need { addr: line, mode: AccessMode::Shared }))
    }

    /// Whether the row in `id` stands in its home slot itself; `None` when it is no longer the
    /// version written at `cts`. The caller has locked the line.
    pub(crate) fn at_home_step(
        &self,
        id: RowId,
        hint: &Hint,
        cts: Timestamp,
    ) -> Result<Option<bool>, Stop> {
        let slot = self.slot_of(id);
        self.read_page(self.line_of(id), hint, |page| {
            let found = page.tuple(slot)?.filter(|t| t.cts == cts && t.state.is_home());
            Ok(found.map(|tuple| tuple.state != State::Stub))
        })
    }

    /// Raises the read timestamp of a page to at least `ts`, for a reader of one row. The reader
    /// has read the version `seen_at`. `stamp` is the read timestamp of the page at that time, or a
    /// guess: a value below `ts` only skips the check without the guard. Fails if the row has
    /// changed since, or if another transaction has locked its line to write.
    ///
    /// The read timestamp may be ahead of `ts`, so that the next readers find it high enough. The
    /// distance depends on the age of the row and the number of rows on the page, and is at most
    /// `lease`. A writer with a lower timestamp must take a later one or abort, even if no reader
    /// used the lease.
    ///
    /// # Why no writer is missed
    ///
    /// 1. A writer locks the line, and then checks the read timestamp under the line's guard.
    /// 2. A reader that raises the read timestamp checks the lock under the guard.
    /// 3. If the guard of the reader comes first, the writer sees the read timestamp. If the guard
    ///    of the writer comes first, the reader sees the lock, or the version that was written
    ///    under the lock.
    /// 4. A reader that finds the read timestamp high enough raises nothing. Another guard has
    ///    raised that read timestamp. If that guard came before the writer's guard, the writer sees
    ///    the read timestamp. If that guard came after the writer's guard, the lock was there
    ///    already, and each reader that sees the read timestamp also sees the lock.
    pub(crate) fn stamp_step(
        &self,
        id: RowId,
        hint: &Hint,
        (seen_at, stamp): (Timestamp, Timestamp),
        ts: Timestamp,
        lease: u64,
        mine: bool,
    ) -> Result<Stamped, Stop> {
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        let broken = |broken| Stop::Broken(line, broken);
        // A read timestamp never falls. So if `stamp` is at least `ts`, a check without the guard
        // probably succeeds.
        if stamp >= ts
            && let Ok(read) = self.memory.try_read_at(line, hint)
        {
            let same = |t: &TupleRef<'_>| t.cts == seen_at && t.state.is_home();
            let found = TupleRef::glance(read.words(), self.table.0, slot);
            let enough = matches!(found, Ok(Some(tuple)) if same(&tuple))
                && read_timestamp(read.words()) >= ts;
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
        let dirty = page.raise_read_timestamp(leased(ts, lease, seen_at, rows));
        strict_assert!(
            leased(ts, lease, seen_at, rows) >= ts,
            "a lease ends before its transaction"
        );
        guard.mark_dirty(dirty.range());
        strict_assert!(
            read_timestamp(guard.words()) >= ts,
            "a row that was read can be overwritten below the reader's timestamp"
        );
        Ok(Stamped::Done)
    }

    /// Reads one page. `read` may see inconsistent bytes. Its result is used only if the read of
    /// the page validates.
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
        Err(Stop::Need(Need { addr: line, mode: AccessMode::Shared }))
    }

    /// Prefetches the line's header and the row's slot, which a read needs first. With `locks`,
    /// prefetches also the word that a lock of the line changes.
    #[inline]
    pub(crate) fn prefetch_slot(&self, id: RowId, hint: &Hint, locks: bool) {
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

    /// A guess of the frame of the row's line.
    #[inline]
    pub(crate) fn guess(&self, id: RowId) -> Hint {
        self.memory.guess(self.line_of(id))
    }

    /// Prefetches the tuple of the row. This reads the slot, so the caller prefetches the slot some
    /// time before.
    #[inline]
    pub(crate) fn prefetch_tuple(&self, id: RowId, hint: &Hint) {
        let at = Slot::at(self.slot_of(id));
        let bits = self.memory.peek(hint, at) >> (8 * (at & 4));
        let slot = Slot::from_bits(bits as u32);
        let end = (slot.offset + slot.size).min(self.memory.payload_len());
        self.memory.prefetch(hint, slot.offset.min(end)..end);
    }

    /// Prefetches what [`guess`](Heap::guess) reads.
    #[inline]
    pub(crate) fn prefetch_location(&self, id: RowId) {
        self.memory.prefetch_guess(self.line_of(id));
    }

    /// Reads the row `key` in `id`, and waits for lines as necessary. The value is in `value`
    /// afterwards, if the row exists.
    ///
    /// # Errors
    /// [`TxnError::Corrupt`], [`TxnError::Starved`], and memory failures.
    pub async fn get(
        &self,
        id: RowId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<SeenRow, TxnError> {
        value.clear();
        let (mut at, hint) = <(Reading, Hint)>::default();
        self.drive(Patience::Wait, || self.get_step(&mut at, id, &hint, key, value)).await
    }
}
