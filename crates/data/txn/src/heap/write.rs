//! Row changes. Each change of a page is a plain (not async) function under the write guard of one
//! line. The async functions obtain the line and repeat the change.

use std::ops::Range;

use latchwork_cache::Hint;
use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Timestamp;

use super::placement::Placed;
use super::places::Stray;
use super::read::SeenRow;
use super::stop::Stop;
use super::{Heap, Patience};
use crate::page::{Broken, Dirty, Edit, New, Page, State, TupleRef};
use crate::{Conflict, RowId, TxnError};

/// The location that a changed row will have.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// The home slot, which has room for the new tuple.
    AtHome,
    /// Another line, which contains the new tuple already. The install makes the home slot a stub
    /// that leads there.
    Away(Placed),
}

/// The new content of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Install<'a> {
    /// A row with this value.
    Value(&'a [u8]),
    /// A row with this value, of which only the bytes from `from` to `to` are new.
    Part { value: &'a [u8], from: usize, to: usize },
    /// A tombstone.
    Tombstone,
}

/// The result of the check of a home line in [`Heap::prepare`].
enum Look {
    Ready,
    NoRoom,
    Other,
    TooLate(Timestamp),
}

impl<M: LineLocks> Heap<M> {
    /// Prepares a change of the row in `id`, whose line the caller has locked to write. Checks that
    /// the row is the version written at `cts`, and that the read timestamp of its page is not
    /// above `ts`. Reserves room for `value`, or for a tombstone with `None`.
    ///
    /// # Errors
    /// [`Conflict::Changed`]; [`Conflict::Locked`]; [`TxnError::RowTooLong`];
    /// [`TxnError::Corrupt`]; memory that fails or is full. The inner error is the read timestamp
    /// of the page, if that is later than `ts`.
    pub(crate) async fn prepare(
        &self,
        id: RowId,
        hint: &Hint,
        key: &[u8],
        cts: Timestamp,
        ts: Option<Timestamp>,
        value: Option<&[u8]>,
    ) -> Result<Result<Prepared, Timestamp>, TxnError> {
        self.check_row(key, value.unwrap_or(&[]))?;
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        let look = |page: Page<'_>| {
            let old = page.tuple(slot)?.filter(|old| old.cts == cts && old.key_is(key));
            if old.is_none_or(|old| matches!(old.state, State::Away | State::Pending)) {
                return Ok((Look::Other, Dirty::default()));
            }
            if ts.is_some_and(|ts| page.read_stamp() > ts) {
                return Ok((Look::TooLate(page.read_stamp()), Dirty::default()));
            }
            match page.widen(slot, value.map_or(0, <[u8]>::len)) {
                Ok(dirty) => Ok((Look::Ready, dirty)),
                Err(Edit::Full) => Ok((Look::NoRoom, Dirty::default())),
                Err(Edit::Broken(broken)) => Err(broken),
            }
        };
        let looked = self.drive(Patience::NoWait, || {
            self.change(line, hint, |page| look(page).map_err(Edit::Broken))
        });
        match (looked.await?, value) {
            (Look::Ready, _) => Ok(Ok(Prepared::AtHome)),
            (Look::NoRoom, Some(value)) => {
                let new = New { state: State::Away, cts, key, value };
                Ok(Ok(Prepared::Away(self.place(new).await?)))
            }
            // This cannot happen on a sound page: a tombstone fits where a row was.
            (Look::NoRoom, None) => {
                Err(TxnError::Corrupt { line, what: "no room for a tombstone".into() })
            }
            (Look::Other, _) => Err(Conflict::Changed.into()),
            (Look::TooLate(read), _) => Ok(Err(read)),
        }
    }

    /// Like [`prepare`](Heap::prepare), for a new tuple of the same length as the old one, which
    /// stays in the home slot. The key is not compared, and a late timestamp is
    /// [`Conflict::TooLate`].
    pub(crate) fn check_step(
        &self,
        id: RowId,
        hint: &Hint,
        cts: Timestamp,
        ts: Timestamp,
    ) -> Result<Result<(), Conflict>, Stop> {
        let slot = self.slot_of(id);
        self.touch(self.line_of(id), hint, |page| {
            let same = page.tuple(slot)?.is_some_and(|t| t.cts == cts && t.state == State::Live);
            let checked = match same {
                true if page.read_stamp() > ts => Err(Conflict::TooLate),
                true => Ok(()),
                false => Err(Conflict::Changed),
            };
            Ok((checked, Dirty::default()))
        })
    }

    /// Installs a prepared change of the row in `id`, whose line the caller has locked to write.
    /// The version written at `was` becomes the version `cts`.
    pub(crate) async fn install(
        &self,
        id: RowId,
        hint: &Hint,
        key: &[u8],
        (was, cts): (Timestamp, Timestamp),
        prepared: &mut Prepared,
        install: Install<'_>,
    ) -> Result<(), TxnError> {
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        let target = match prepared {
            Prepared::AtHome => None,
            Prepared::Away(placed) => placed.id(),
        };
        if let (Some(target), Install::Value(_) | Install::Part { .. }) = (target, install) {
            // `prepare` wrote the tuple before the commit timestamp was known, so the timestamp is
            // written now. The transaction holds locks, so this access first does not wait for the
            // lock of another transaction: the row takes a new location instead. Only if no
            // location can be had, the access waits, up to its deadline.
            let away = self.line_of(target);
            let slot = self.slot_of(target);
            let redate =
                || self.touch(away, &Hint::default(), |page| page.set_part(slot, cts, 0, &[]));
            match self.drive(Patience::NoWait, redate).await {
                Err(TxnError::Conflict(_)) => {
                    let (Install::Value(value) | Install::Part { value, .. }) = install else {
                        return Ok(());
                    };
                    match self.place(New { state: State::Away, cts, key, value }).await {
                        Ok(placed) => *prepared = Prepared::Away(placed),
                        Err(_) => self.drive(Patience::Wait, redate).await?,
                    }
                }
                other => other?,
            }
        }
        let target = match prepared {
            Prepared::AtHome => None,
            Prepared::Away(placed) => placed.id(),
        };
        if let (Some(target), Install::Value(_) | Install::Part { .. }) = (target, install) {
            // Otherwise the death of this node may leave a stub that leads to nothing.
            self.memory.persist(self.line_of(target)).await?;
        }
        if let (Install::Part { value, from, to }, None) = (install, target) {
            let part = || self.part_step(id, hint, was, cts, value, from..to);
            if self.drive(Patience::Wait, part).await? {
                return Ok(());
            }
        }
        let bytes = target.map(|target| target.bits().to_le_bytes());
        let stray = self
            .drive(Patience::Wait, || {
                self.change(line, hint, |page| {
                    let old = page.tuple(slot)?.filter(|old| old.key_is(key));
                    let old = old.ok_or(Edit::of("a row that was locked is gone"))?;
                    let stray = match old.state {
                        State::Stub => Some(RowId::from_bits(old.target()?)),
                        _ => None,
                    };
                    let new = |state, value| New { state, cts, key, value };
                    let dirty = match (install, &bytes) {
                        (Install::Tombstone, _) => page.set(slot, new(State::Tombstone, &[]))?,
                        (_, Some(target)) => page.set(slot, new(State::Stub, &target[..]))?,
                        (Install::Value(value) | Install::Part { value, .. }, None) => {
                            page.set(slot, new(State::Live, value))?
                        }
                    };
                    Ok((stray, dirty))
                })
            })
            .await?;
        // From here on the old tuple away from home is a stray, and the new tuple belongs to the
        // row.
        drop(stray.map(|id| self.stray(Stray { id, led_here: Some(line) })));
        if let (Prepared::Away(placed), false) = (prepared, matches!(install, Install::Tombstone)) {
            placed.keep();
        }
        Ok(())
    }

    /// The fast path of a change: overwrites the bytes `part` of a row with those of `value`, if
    /// the row is at home and keeps its length. Otherwise the function changes nothing and returns
    /// false.
    ///
    /// The caller has locked the line to write, and the row is the version written at `was`.
    #[inline]
    pub(crate) fn part_step(
        &self,
        id: RowId,
        hint: &Hint,
        was: Timestamp,
        cts: Timestamp,
        value: &[u8],
        part: Range<usize>,
    ) -> Result<bool, Stop> {
        let line = self.line_of(id);
        let broken = |broken| Stop::Broken(line, broken);
        let mut guard = self.memory.try_write_at(line, hint).map_err(Stop::Need)?;
        // `glance` checks only the slot and not the free room of the page. This change needs no
        // room.
        let old =
            TupleRef::glance(guard.words(), self.table.0, self.slot_of(id)).map_err(broken)?;
        let old = old.filter(|old| old.cts == was);
        let old = old.ok_or(broken(Broken("a row that was locked is another")))?;
        if old.state != State::Live || old.value_len() != value.len() {
            return Ok(false);
        }
        let changed = old.set_part(cts, part.start, &value[part]).map_err(broken)?;
        strict_assert!(changed.end <= guard.words().len(), "bytes outside the line are dirty");
        guard.mark_dirty(changed);
        Ok(true)
    }

    /// Makes pending rows of one line live. Waits for transactions of other nodes that have locked
    /// the line, so the caller must hold no lock.
    pub(crate) async fn publish(
        &self,
        line: GlobalAddr,
        ids: &[RowId],
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        self.drive(Patience::Wait, || self.publish_step(line, ids, cts)).await
    }

    /// Like [`publish`](Heap::publish), as a plain function, if this node has the line.
    #[inline]
    pub(crate) fn publish_step(
        &self,
        line: GlobalAddr,
        ids: &[RowId],
        cts: Timestamp,
    ) -> Result<(), Stop> {
        self.touch(line, &self.tail, |page| {
            let slots = ids.iter().map(|&id| self.slot_of(id));
            page.publish(slots, cts)
        })
    }

    /// Removes a tuple to which no index entry leads any more: a pending row if `pending` is true,
    /// otherwise a tombstone. Returns whether the tuple was there.
    pub(crate) async fn erase(
        &self,
        id: RowId,
        key: &[u8],
        pending: bool,
        patience: Patience,
    ) -> Result<bool, TxnError> {
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        let state = if pending { State::Pending } else { State::Tombstone };
        self.drive(patience, || {
            self.change(line, &Hint::default(), |page| {
                let there = page.tuple(slot)?;
                if there.is_some_and(|old| old.state == state && old.key_is(key)) {
                    return Ok((true, page.erase(slot)?));
                }
                Ok((false, Dirty::default()))
            })
        })
        .await
    }

    /// The commit timestamp of the tombstone of this row in `id`, with the read timestamp of its
    /// page. Reads under the guard, as a caller that has locked the line must do: see
    /// [`stamp_step`](Heap::stamp_step).
    pub(crate) fn tombstone_step(
        &self,
        id: RowId,
        key: &[u8],
    ) -> Result<Option<(Timestamp, Timestamp)>, Stop> {
        let slot = self.slot_of(id);
        self.touch(self.line_of(id), &Hint::default(), |page| {
            let old = page.tuple(slot)?;
            let old = old.filter(|old| old.state == State::Tombstone && old.key_is(key));
            Ok((old.map(|old| (old.cts, page.read_stamp())), Dirty::default()))
        })
    }

    pub(crate) fn check_row(&self, key: &[u8], value: &[u8]) -> Result<(), TxnError> {
        let (len, max) = (key.len() + value.len(), self.row_max());
        if len > max { Err(TxnError::RowTooLong { len, max }) } else { Ok(()) }
    }

    /// Like [`change`](Heap::change), for a change that leaves the room of the page as it is.
    #[inline]
    fn touch<R: Changed>(
        &self,
        line: GlobalAddr,
        hint: &Hint,
        change: impl FnOnce(Page<'_>) -> Result<R, Edit>,
    ) -> Result<R::Result, Stop> {
        let broken = |broken| Stop::Broken(line, broken);
        let mut guard = self.memory.try_write_at(line, hint).map_err(Stop::Need)?;
        let page = Page::open(guard.words(), self.table.0).map_err(broken)?;
        match change(page) {
            Ok(changed) => {
                let (result, dirty) = changed.split();
                guard.mark_dirty(dirty.range());
                Ok(result)
            }
            Err(Edit::Broken(what)) => Err(broken(what)),
            Err(Edit::Full) => Err(broken(Broken("no room where some was kept"))),
        }
    }

    /// Changes a page of this table. If the page has more room afterwards, the heap's list of
    /// locations gets the page.
    pub(super) fn change<R>(
        &self,
        line: GlobalAddr,
        hint: &Hint,
        change: impl FnOnce(Page<'_>) -> Result<R, Edit>,
    ) -> Result<R::Result, Stop>
    where
        R: Changed,
    {
        let broken = |broken| Stop::Broken(line, broken);
        let mut guard = self.memory.try_write_at(line, hint).map_err(Stop::Need)?;
        let len = guard.words().len();
        let page = Page::open(guard.words(), self.table.0).map_err(broken)?;
        let before = page.header.room(len);
        let (result, dirty) = match change(page) {
            Ok(changed) => changed.split(),
            Err(Edit::Broken(what)) => return Err(broken(what)),
            Err(Edit::Full) => {
                return Err(broken(Broken("no room where some was kept")));
            }
        };
        guard.mark_dirty(dirty.range());
        let after = Page::open(guard.words(), self.table.0).map_err(broken)?.header.room(len);
        drop(guard);
        if after > before {
            self.locations.borrow_mut().note(line, after, self.worth());
        }
        Ok(result)
    }
}

/// The result of a page change, and the bytes that the change wrote.
pub(super) trait Changed {
    type Result;
    fn split(self) -> (Self::Result, Dirty);
}

impl Changed for Dirty {
    type Result = ();
    fn split(self) -> ((), Dirty) {
        ((), self)
    }
}

impl<T> Changed for (T, Dirty) {
    type Result = T;
    fn split(self) -> (T, Dirty) {
        self
    }
}

impl SeenRow {
    /// The timestamp at which the row was written or deleted.
    pub fn at(self) -> Option<Timestamp> {
        match self {
            SeenRow::Live(at) | SeenRow::Deleted(at) => Some(at),
            SeenRow::Pending | SeenRow::Absent => None,
        }
    }
}
