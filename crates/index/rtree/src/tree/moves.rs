//! The two leaves of a move, as other operations find them: steps of the [update](super::update).

use std::ops::ControlFlow;

use latchwork_cache::Hint;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::stop::Stop;
use crate::page::{Broken, Page, Record, Role};
use crate::{RTreeError, Rect};

/// An entry with its payload.
pub(super) struct Whole<const D: usize> {
    pub(super) rect: Rect<D>,
    pub(super) id: u64,
    /// Padded to whole words.
    pub(super) payload: Vec<u8>,
}

/// What a query does with an entry that has a record.
pub(super) enum Answer<const D: usize> {
    /// The entry counts.
    Counts,
    /// The entry does not count, and leads to none.
    Nothing,
    /// The object of the entry is at another place.
    Elsewhere(Whole<D>),
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Reads the leaf that a record names. `None` also if the line has another user now: a leaf
    /// with a record stays, so the record is gone. A page of this tree that is damaged is an error,
    /// because it may have the record. With a damaged tag it looks like the page of another user,
    /// and no operation that comes from a record can tell them apart.
    async fn look_at<R>(
        &self,
        leaf: GlobalAddr,
        mut read: impl FnMut(&Page<'_, D>) -> Option<R>,
    ) -> Result<Option<R>, RTreeError> {
        let hint = self.memory.guess(leaf);
        let mut read =
            |page: &Page<'_, D>, _: &[Hint]| if page.level() == 0 { read(page) } else { None };
        let look = || unless_foreign(self.try_page(leaf, &hint, &mut read), None);
        unless_freed(self.drive(look).await)
    }

    /// Changes the leaf that a record names, if `change` finds something there. As
    /// [`look_at`](RTree::look_at) for a line that has another user now.
    pub(super) async fn change_leaf<R>(
        &self,
        leaf: GlobalAddr,
        mut change: impl FnMut(&Page<'_, D>) -> Option<R>,
    ) -> Result<Option<R>, RTreeError> {
        let hint = self.memory.guess(leaf);
        let mut change = |page: &Page<'_, D>| {
            let done = if page.level() == 0 { change(page) } else { None };
            done.map_or(ControlFlow::Break(()), ControlFlow::Continue)
        };
        let step = || {
            let changed = self.try_change(leaf, &hint, &mut change);
            unless_foreign(changed, ControlFlow::Break(())).map(ControlFlow::continue_value)
        };
        unless_freed(self.drive(step).await)
    }

    /// Whether the move of an entry that was pending in `leaf` has its step U2. The caller is
    /// inside of the operation that has read the record.
    ///
    /// 1. If the other leaf has the departed entry, U2 was done.
    /// 2. A departed entry goes only after its pending one was confirmed. So if there is no
    ///    departed entry, and the record still is pending afterwards, U2 was not done at the first
    ///    look.
    /// 3. Otherwise the record was confirmed, or the entry was removed. A record that was confirmed
    ///    during this operation stays until the operation ends. So it is there, as *arrived*.
    pub(super) async fn is_committed(
        &self,
        leaf: GlobalAddr,
        pending: &Record,
    ) -> Result<bool, RTreeError> {
        let number = pending.number;
        let departed = |page: &Page<'_, D>| page.record_in(number, Role::Departed).map(drop);
        if self.look_at(pending.leaf, departed).await?.is_some() {
            return Ok(true);
        }
        let arrived = |page: &Page<'_, D>| page.record_in(number, Role::Arrived).map(drop);
        Ok(self.look_at(leaf, arrived).await?.is_some())
    }

    /// Whether the other entry of a departed one waits for its step U3.
    pub(super) async fn is_pending(&self, departed: &Record) -> Result<bool, RTreeError> {
        let number = departed.number;
        let found = |page: &Page<'_, D>| page.record_in(number, Role::Pending).map(drop);
        Ok(self.look_at(departed.leaf, found).await?.is_some())
    }

    /// Step U3: the pending entry of a committed move counts by itself. `record` names the leaf
    /// that it has left. Returns the number of records in the page.
    pub(super) async fn confirm(
        &self,
        leaf: GlobalAddr,
        record: &Record,
    ) -> Result<Option<usize>, RTreeError> {
        // D6.
        self.persist_if_there(record.leaf).await?;
        let number = record.number;
        self.change_leaf(leaf, |page| {
            let (at, record) = page.record_in(number, Role::Pending)?;
            page.set_record(at, Record { role: Role::Arrived, mark: None, ..record });
            Some(page.record_count())
        })
        .await
    }

    /// The entry of a departed one at its new place.
    async fn entry_elsewhere(&self, departed: &Record) -> Result<Option<Whole<D>>, RTreeError> {
        let number = departed.number;
        self.look_at(departed.leaf, |page| {
            let here = page.record_in(number, Role::Arrived);
            let (_, record) = here.or_else(|| page.record_in(number, Role::Pending))?;
            let mut payload = Vec::new();
            page.append_payload(record.slot, &mut payload);
            Some(Whole { rect: page.rect(record.slot), id: page.id(record.slot), payload })
        })
        .await
    }

    /// What a query does with an entry of `leaf` that has this record.
    pub(super) async fn answer(
        &self,
        leaf: GlobalAddr,
        record: &Record,
    ) -> Result<Answer<D>, RTreeError> {
        Ok(match record.role {
            Role::Arrived => Answer::Counts,
            Role::Pending if self.is_committed(leaf, record).await? => Answer::Counts,
            Role::Pending => Answer::Nothing,
            Role::Departed => match self.entry_elsewhere(record).await? {
                Some(whole) => Answer::Elsewhere(whole),
                None => Answer::Nothing,
            },
        })
    }
}

/// The result of a step, or `gone` if the line has another user.
fn unless_foreign<R>(result: Result<R, Stop>, gone: R) -> Result<R, Stop> {
    match result {
        Err(Stop::Broken(_, Broken::FOREIGN)) => Ok(gone),
        result => result,
    }
}

/// The result of an operation, or `None` if the line is free.
fn unless_freed<R>(result: Result<Option<R>, RTreeError>) -> Result<Option<R>, RTreeError> {
    match result {
        Err(RTreeError::Memory(MemoryError::BadAddress { .. })) => Ok(None),
        result => result,
    }
}
