//! Changing rows: under the write guard of one line at a time.

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Timestamp;

use super::places::Placed;
use super::{Heap, Seen};
use crate::page::{Dirty, Edit, New, Page, State};
use crate::{TupleId, TxnError};

/// What became of a change under its guard.
enum Outcome {
    /// It is done.
    Done {
        /// The tuple elsewhere that nothing leads to any more.
        stray: Option<TupleId>,
        /// The row moved to the place that was found for it.
        moved: bool,
    },
    /// The page has no room for the row.
    NoRoom,
    /// The row is in a state that was not asked for.
    Other(Seen),
    /// Written at this time already.
    Stale(Timestamp),
}

/// Which rows a change is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Was {
    Live,
    Deleted,
}

impl<M: CoherentMemory> Heap<M> {
    /// Adds a row that nothing leads to yet.
    pub(crate) async fn insert(
        &self,
        key: &[u8],
        value: &[u8],
        cts: Timestamp,
    ) -> Result<Placed, TxnError> {
        self.place(New { state: State::Live, cts, key, value }).await
    }

    /// Replaces the value of a row that is there. Otherwise nothing changes, and what the row is instead is
    /// returned.
    ///
    /// # Errors
    /// [`TxnError::Stale`], [`TxnError::RowTooLong`], [`TxnError::Corrupt`], and when memory fails or is
    /// full.
    pub async fn update(
        &self,
        id: TupleId,
        key: &[u8],
        value: &[u8],
        cts: Timestamp,
    ) -> Result<Seen, TxnError> {
        self.set(id, Was::Live, New { state: State::Live, cts, key, value }).await
    }

    /// Makes a tombstone a row again. Otherwise nothing changes, and what the row is instead is returned.
    ///
    /// # Errors
    /// As [`update`](Heap::update).
    pub async fn revive(
        &self,
        id: TupleId,
        key: &[u8],
        value: &[u8],
        cts: Timestamp,
    ) -> Result<Seen, TxnError> {
        self.set(id, Was::Deleted, New { state: State::Live, cts, key, value }).await
    }

    /// Makes a row a tombstone, with which its space can be used again but for a few bytes. Otherwise nothing
    /// changes, and what the row is instead is returned.
    ///
    /// # Errors
    /// As [`update`](Heap::update).
    pub async fn bury(&self, id: TupleId, key: &[u8], cts: Timestamp) -> Result<Seen, TxnError> {
        self.set(id, Was::Live, New { state: State::Tombstone, cts, key, value: &[] }).await
    }

    async fn set(&self, id: TupleId, was: Was, new: New<'_>) -> Result<Seen, TxnError> {
        let (len, max) = (new.key.len() + new.value.len(), self.row_max());
        if len > max {
            return Err(TxnError::RowTooLong { len, max });
        }
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        let done = |new: &New<'_>| match new.state {
            State::Tombstone => Seen::Deleted(new.cts),
            _ => Seen::Live(new.cts),
        };
        let mut away: Option<Placed> = None;
        let mut rounds = 0;
        loop {
            let target = away.as_ref().and_then(Placed::id).map(|id| id.bits().to_le_bytes());
            let mut outcome = None;
            let changed = self.change(line, |page| {
                let (what, dirty) = set_step(page, slot, was, new, target.as_ref())?;
                outcome = Some(what);
                Ok(dirty)
            });
            if let Err(Edit::Broken(broken)) = changed.await? {
                return Err(self.corrupt(line, broken));
            }
            match outcome {
                Some(Outcome::Done { stray, moved }) => {
                    // The old tuple belongs to nobody from here on, and so does a new one if the row found
                    // room at home meanwhile.
                    drop(stray.map(|stray| self.placed(stray)));
                    if moved {
                        away.and_then(Placed::keep);
                    }
                    return Ok(done(&new));
                }
                Some(Outcome::Other(seen)) => return Ok(seen),
                Some(Outcome::Stale(there)) => {
                    return Err(TxnError::Stale { there, given: new.cts });
                }
                Some(Outcome::NoRoom) => {
                    away = Some(self.place(New { state: State::Away, ..new }).await?);
                }
                None => {}
            }
            self.count_round(id, &mut rounds)?;
        }
    }

    /// Overwrites a part of the value of a row that is there, and only these bytes and the timestamp count
    /// as changed. Otherwise nothing changes, and what the row is instead is returned. Of a row that has
    /// moved the whole value is written, so the row must be locked: a change in between would be lost.
    ///
    /// # Errors
    /// [`TxnError::OutsideValue`]; else as [`update`](Heap::update).
    pub async fn update_part(
        &self,
        id: TupleId,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
        cts: Timestamp,
    ) -> Result<Seen, TxnError> {
        let (line, slot, len) = (self.line_of(id), self.slot_of(id), bytes.len());
        let outside = |value_len| TxnError::OutsideValue { offset, len, value_len };
        let fits = |value_len| offset.checked_add(len).is_some_and(|end| end <= value_len);
        let mut outcome = None;
        let changed = self.change(line, |page| {
            let old = page.tuple(slot)?.filter(|old| old.key_is(key));
            outcome = Some(match old.map(|old| (old, old.state)) {
                None | Some((_, State::Away)) => Ok(Some(Seen::Absent)),
                Some((old, State::Tombstone)) => Ok(Some(Seen::Deleted(old.cts))),
                Some((_, State::Stub)) => Ok(None),
                Some((old, State::Live)) if old.cts >= cts => {
                    Err(TxnError::Stale { there: old.cts, given: cts })
                }
                Some((old, State::Live)) if !fits(old.value_len()) => Err(outside(old.value_len())),
                Some((_, State::Live)) => {
                    outcome = Some(Ok(Some(Seen::Live(cts))));
                    return page.set_part(slot, cts, offset, bytes);
                }
            });
            Ok(Dirty::default())
        });
        if let Err(Edit::Broken(broken)) = changed.await? {
            return Err(self.corrupt(line, broken));
        }
        if let Some(seen) = outcome.transpose()?.flatten() {
            return Ok(seen);
        }
        let mut value = Vec::new();
        match self.get(id, key, &mut value).await? {
            Seen::Live(_) if !fits(value.len()) => Err(outside(value.len())),
            Seen::Live(_) => {
                value[offset..offset + len].copy_from_slice(bytes);
                self.update(id, key, &value, cts).await
            }
            other => Ok(other),
        }
    }

    /// Takes a tombstone away that no transaction can need any more: one up to `floor`. Its slot is
    /// reserved until [`release`](Heap::release), so that an index that leads there still leads to
    /// nothing. Returns whether there was one.
    ///
    /// # Errors
    /// [`TxnError::Corrupt`], and when memory fails.
    pub async fn reserve(
        &self,
        id: TupleId,
        key: &[u8],
        floor: Timestamp,
    ) -> Result<bool, TxnError> {
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        let mut erased = false;
        let changed = self.change(line, |page| {
            let old = page
                .tuple(slot)?
                .filter(|old| old.state == State::Tombstone && old.cts <= floor && old.key_is(key));
            erased = old.is_some();
            if erased { page.erase(slot, false) } else { Ok(Dirty::default()) }
        });
        match changed.await? {
            Err(Edit::Broken(broken)) => Err(self.corrupt(line, broken)),
            _ => Ok(erased),
        }
    }

    /// Lets a reserved slot be used again: nothing leads to it any more.
    ///
    /// # Errors
    /// [`TxnError::Corrupt`], also when it was not reserved; and when memory fails.
    pub async fn release(&self, id: TupleId) -> Result<(), TxnError> {
        let (line, slot) = (self.line_of(id), self.slot_of(id));
        match self.change(line, |page| page.release(slot)).await? {
            Err(Edit::Broken(broken)) => Err(self.corrupt(line, broken)),
            _ => Ok(()),
        }
    }

    /// Changes a page of this table, and notes how much room it has then.
    pub(super) async fn change(
        &self,
        line: GlobalAddr,
        change: impl FnOnce(Page<'_>) -> Result<Dirty, Edit>,
    ) -> Result<Result<(), Edit>, TxnError> {
        let changed = self.memory.write(line, |guard| {
            let page = Page::open(guard.words(), self.table.0)?;
            let before = page.header.room(guard.words().len());
            let dirty = change(page)?;
            guard.mark_dirty(dirty.range());
            let after = Page::open(guard.words(), self.table.0)?.header.room(guard.words().len());
            Ok::<_, Edit>((before, after))
        });
        Ok(changed.await?.map(|(before, after)| {
            if after > before {
                self.places.borrow_mut().note(line, after, self.worth());
            }
        }))
    }
}

/// Changes a row to `new` if it was as `was` says; with `away` it may become a stub that leads there.
fn set_step(
    page: Page<'_>,
    slot: usize,
    was: Was,
    new: New<'_>,
    away: Option<&[u8; 8]>,
) -> Result<(Outcome, Dirty), Edit> {
    let nothing = |outcome| Ok((outcome, Dirty::default()));
    let Some(old) = page.tuple(slot)?.filter(|old| old.key_is(new.key)) else {
        return nothing(Outcome::Other(Seen::Absent));
    };
    let is = match old.state {
        State::Live | State::Stub => Was::Live,
        State::Tombstone => Was::Deleted,
        State::Away => return nothing(Outcome::Other(Seen::Absent)),
    };
    if is != was && old.cts == new.cts {
        // Two writes of one transaction are one by the time they come here.
        return nothing(Outcome::Stale(old.cts));
    }
    if is != was {
        let seen = if is == Was::Live { Seen::Live(old.cts) } else { Seen::Deleted(old.cts) };
        return nothing(Outcome::Other(seen));
    }
    if old.cts >= new.cts {
        return nothing(Outcome::Stale(old.cts));
    }
    let stray = match old.state {
        State::Stub => Some(TupleId::from_bits(old.target()?)),
        _ => None,
    };
    match (away, page.set(slot, new)) {
        // Back home, or it never left.
        (_, Ok(dirty)) => Ok((Outcome::Done { stray, moved: false }, dirty)),
        (None, Err(Edit::Full)) => nothing(Outcome::NoRoom),
        (Some(away), Err(Edit::Full)) => {
            let stub = New { state: State::Stub, value: away, ..new };
            Ok((Outcome::Done { stray, moved: true }, page.set(slot, stub)?))
        }
        (_, Err(broken)) => Err(broken),
    }
}
