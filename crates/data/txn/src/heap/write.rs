//! Changing rows: under the write guard of one line at a time, as plain functions over lines that
//! are here.

use std::ops::Range;

use latchwork_cache::Hint;
use latchwork_coherence::LineLocks;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Timestamp;

use super::places::Placed;
use super::{Heap, Patience, Seen, Stop};
use crate::page::{Broken, Dirty, Edit, New, Page, State, TupleRef};
use crate::{Conflict, TupleId, TxnError};

/// Where a row that is to change will stand.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// In its slot, where there is room for it.
    AtHome,
    /// Elsewhere, where it stands already; its slot will lead there.
    Away(Placed),
}

/// What a row becomes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Install<'a> {
    /// A row with this value.
    Value(&'a [u8]),
    /// A row with this value, of which only the bytes from `from` to `to` are new.
    Part { value: &'a [u8], from: usize, to: usize },
    /// A tombstone.
    Tombstone,
}

/// What a look at the home line of a row that is to change found.
enum Look {
    Ready,
    NoRoom,
    Other,
    TooLate(Timestamp),
}

impl<M: LineLocks> Heap<M> {
    /// Makes sure that the row in `id`, whose line the caller has locked to write, is as it was at
    /// `cts`, that nobody who comes after `ts` has read it, and that a value of `value` bytes (or a
    /// tombstone, with `None`) will have room.
    ///
    /// # Errors
    /// [`Conflict::Changed`], [`Conflict::TooLate`]; [`TxnError::RowTooLong`], and when memory
    /// fails or is full.
    pub(crate) async fn prepare(
        &self,
        id: TupleId,
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
            // A tombstone fits where a row was.
            (Look::NoRoom, None) => {
                Err(TxnError::Corrupt { line, what: "no room for a tombstone".into() })
            }
            (Look::Other, _) => Err(Conflict::Changed.into()),
            (Look::TooLate(read), _) => Ok(Err(read)),
        }
    }

    /// As [`prepare`](Heap::prepare), of a row that stays as long as it is, in its slot.
    pub(crate) fn check_step(
        &self,
        id: TupleId,
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

    /// Changes the row in `id`, whose line the caller has locked to write, as was prepared: from
    /// what was written at the first time to what is written at the second.
    pub(crate) async fn install(
        &self,
        id: TupleId,
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
            // It was written before its timestamp was known. Not waiting for others' locks, under
            // its own: another place will do as well, if there is one.
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
                        State::Stub => Some(TupleId::from_bits(old.target()?)),
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
        // The old tuple elsewhere belongs to nobody from here on, and the new one to the row.
        drop(stray.map(|stray| self.placed(stray)));
        if let (Prepared::Away(placed), false) = (prepared, matches!(install, Install::Tombstone)) {
            placed.keep();
        }
        Ok(())
    }

    /// Overwrites the bytes `part` of a row with those of `value`, as a rule: if it is at home and
    /// stays as long as it is. Otherwise nothing happens, and the answer is false.
    ///
    /// The caller has locked the line to write, and the row is as it was written at `was`.
    #[inline]
    pub(crate) fn part_step(
        &self,
        id: TupleId,
        hint: &Hint,
        was: Timestamp,
        cts: Timestamp,
        value: &[u8],
        part: Range<usize>,
    ) -> Result<bool, Stop> {
        let line = self.line_of(id);
        let broken = |broken| Stop::Broken(line, broken);
        let mut guard = self.memory.try_write_at(line, hint).map_err(Stop::Need)?;
        // How much room the page has does not matter here.
        let old =
            TupleRef::glance(guard.words(), self.table.0, self.slot_of(id)).map_err(broken)?;
        let old = old.filter(|old| old.cts == was);
        let old = old.ok_or(broken(Broken("a row that was locked is another")))?;
        if old.state != State::Live || old.value_len() != value.len() {
            return Ok(false);
        }
        let changed = old.set_part(cts, part.start, &value[part]).map_err(broken)?;
        guard.mark_dirty(changed);
        Ok(true)
    }

    /// Makes pending rows, all of one line, rows like others. Waits for those who have locked the
    /// line to read, so the caller must hold no lock.
    pub(crate) async fn publish(
        &self,
        line: GlobalAddr,
        ids: &[TupleId],
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        self.drive(Patience::Wait, || self.publish_step(line, ids, cts)).await
    }

    /// As [`publish`](Heap::publish), if the line is here: a plain function.
    #[inline]
    pub(crate) fn publish_step(
        &self,
        line: GlobalAddr,
        ids: &[TupleId],
        cts: Timestamp,
    ) -> Result<(), Stop> {
        self.touch(line, &self.tail, |page| {
            let slots = ids.iter().map(|&id| self.slot_of(id));
            page.publish(slots, cts)
        })
    }

    /// Takes a tuple away to which nothing leads any more. `pending`: only if it is a pending row;
    /// otherwise only if it is a tombstone.
    pub(crate) async fn erase(
        &self,
        id: TupleId,
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

    /// The tombstone in `id`, if there is one of this row: when it was written, and the page's read
    /// stamp. Under the guard, as [`stamp_step`](Heap::stamp_step) asks of whoever has locked the
    /// line and looks at the stamp.
    pub(crate) fn tombstone_step(
        &self,
        id: TupleId,
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

    /// Changes a page of this table, but not how much room it has.
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

    /// Changes a page of this table, and notes how much room it has then.
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
            self.places.borrow_mut().note(line, after, self.worth());
        }
        Ok(result)
    }
}

/// What a change of a page gives back, and the bytes that it wrote.
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

/// What a row is in the eyes of whoever wants to change it.
impl Seen {
    /// When it was written or deleted.
    pub fn at(self) -> Option<Timestamp> {
        match self {
            Seen::Live(at) | Seen::Deleted(at) => Some(at),
            Seen::Pending | Seen::Absent => None,
        }
    }
}
