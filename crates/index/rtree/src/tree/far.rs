//! Moves between two leaves: steps U1 to U3 of the [update](super::update).

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::frame::{Frame, Path};
use super::insert::{Refused, Way, is_ready};
use crate::page::{Page, Record, Role};
use crate::{RTreeError, Rect};

#[derive(Clone, Copy)]
pub(super) struct Move<'a, const D: usize> {
    pub(super) id: u64,
    pub(super) old: &'a Rect<D>,
    pub(super) new: &'a Rect<D>,
    pub(super) payload: &'a [u8],
}

/// How an attempt to move an entry ended.
pub(super) enum Moved {
    Done,
    /// The entry is not where it was. Look for it again.
    Again,
    /// The entry cannot leave its leaf now.
    Stays,
}

/// What step U1 did.
enum Placed {
    /// The new place is in the same leaf. So the move is done.
    Inside,
    /// The entry waits in another leaf.
    Pending,
}

/// Why step U2 was refused.
enum Uncommitted {
    Gone,
    NoRoom,
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Whether entries may move between leaves. That needs all queries in progress to keep what
    /// they have shown. So the root says that entries may move, and later gets a mark. Queries that
    /// did not see the first of both have ended when the mark is below
    /// [`ended`](CoherentMemory::ended).
    pub(super) async fn can_move_far(&self) -> Result<bool, RTreeError> {
        const ANNOUNCED: u64 = 1;
        if self.moves.get() || self.layout.records_max(self.max(0)) == 0 {
            return Ok(self.moves.get());
        }
        let set = async |from: u64, to: u64| {
            let set = self.change(self.root, |page| {
                if page.moves() != from {
                    return ControlFlow::Break(());
                }
                page.set_moves(to);
                ControlFlow::Continue(())
            });
            set.await.map(drop)
        };
        match self.read(self.root, |page| page.moves()).await? {
            0 => set(0, ANNOUNCED).await?,
            ANNOUNCED => {
                let mark = self.memory.mark().await?;
                set(ANNOUNCED, mark + 2).await?;
            }
            marked => {
                let ended = self.memory.ended().await?;
                // D6.
                self.memory.persist(self.root).await?;
                self.moves.set(marked - 2 < ended);
            }
        }
        Ok(self.moves.get())
    }

    /// Moves an entry to another leaf. `path` leads to its leaf.
    pub(super) async fn move_far(
        &self,
        path: &[Frame<'_>],
        entry: Move<'_, D>,
    ) -> Result<Moved, RTreeError> {
        let Some((leaf, above)) = path.split_last() else { return Ok(Moved::Again) };
        let number = self.memory.handle().random();
        // U1.
        let mut way = Path::new();
        let max = self.max(0);
        let room = 1 + self.layout.record_cells();
        let place = |page: &Page<'_, D>, at: &Frame<'_>| {
            if at.addr == leaf.addr && page.level() == 0 && page.cover().contains(entry.new) {
                let Some(slot) = page.find(entry.old, entry.id) else {
                    return ControlFlow::Break(Refused::Gone);
                };
                page.set_entry(slot, entry.new, entry.payload);
                return ControlFlow::Continue(Placed::Inside);
            }
            // The entries of the root may have to go to other pages all at once.
            if at.link.is_none() && page.level() == 0 {
                return ControlFlow::Break(Refused::Never);
            }
            is_ready(page, at, (max, room), entry.new)?;
            if !page.can_record(max) {
                return ControlFlow::Break(Refused::Never);
            }
            let slot = page.count();
            page.push_entry(entry.new, entry.id, entry.payload);
            if self.config.rules.departed_stay {
                let (role, leaf) = (Role::Pending, leaf.addr);
                page.push_record(Record { role, slot, number, leaf, mark: None });
            }
            ControlFlow::Continue(Placed::Pending)
        };
        let (target, to) = match self.go_down(&mut way, entry.new, room, place).await? {
            Way::Again => return Ok(Moved::Again),
            Way::Refused => return Ok(Moved::Stays),
            Way::Done(_, Placed::Inside) => return Ok(Moved::Done),
            Way::Done(at, Placed::Pending) => (at, at.addr),
        };
        // D6.
        self.memory.persist(to).await?;
        // U2.
        let committed = match self.commit(leaf.addr, to, number, entry).await {
            Ok(Some(Ok(records))) => records,
            Ok(refused) => {
                self.take_back(to, number).await?;
                let stays = matches!(refused, Some(Err(Uncommitted::NoRoom)));
                return Ok(if stays { Moved::Stays } else { Moved::Again });
            }
            Err(error) => {
                // The error says more than a second one would.
                let _ = self.take_back(to, number).await;
                return Err(error);
            }
        };
        // U3.
        let (role, from) = (Role::Departed, leaf.addr);
        let record = Record { role, slot: 0, number, leaf: from, mark: None };
        let records = self.confirm(to, &record).await?.unwrap_or_default();
        self.tidy_at(above, leaf, committed).await?;
        self.tidy_at(&way, &target, records).await?;
        Ok(Moved::Done)
    }

    /// Step U2: the entry departs from its leaf. Returns the number of records there. `None`: the
    /// entry is gone.
    async fn commit(
        &self,
        from: GlobalAddr,
        to: GlobalAddr,
        number: u64,
        entry: Move<'_, D>,
    ) -> Result<Option<Result<usize, Uncommitted>>, RTreeError> {
        let max = self.max(0);
        let depart = |page: &Page<'_, D>| {
            let slot = page.find(entry.old, entry.id)?;
            if page.record_of(slot).is_some() {
                return Some(Err(Uncommitted::Gone));
            }
            if !page.can_record(max) {
                return Some(Err(Uncommitted::NoRoom));
            }
            if !self.config.rules.departed_stay {
                page.remove(slot);
                if page.count() == 0 {
                    page.set_dead();
                }
                return Some(Ok(0));
            }
            page.push_record(Record { role: Role::Departed, slot, number, leaf: to, mark: None });
            self.note_left(page);
            Some(Ok(page.record_count()))
        };
        self.change_leaf(from, depart).await
    }
}
