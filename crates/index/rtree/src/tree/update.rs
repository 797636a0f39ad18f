//! Updates: entries that move.
//!
//! If the cover of the entry's leaf contains the new box, one write of the leaf moves the entry.
//! Otherwise the entry moves to the leaf that an insert of the new box would choose. A query visits
//! the two leaves at different times. An insert before a remove does not suffice: a query may visit
//! the new leaf before the insert, and the old leaf after the remove, and miss the entry. A remove
//! before an insert is worse.
//!
//! # Steps
//!
//! A *move* has a number that no other move has. A leaf has a *record* for each of its entries that
//! takes part in a move.
//!
//! - U1: add the entry to the new leaf, with a record *pending*.
//! - U2: give the entry in the old leaf a record *departed*, if it is still there and has no
//!   record. This one write is the move. If it is refused, remove the entry of U1.
//! - U3: make the pending record *arrived*.
//! - Later: forget the records, and remove the departed entry.
//!
//! A query treats an entry whose box belongs to its answer by the record:
//!
//! | record   | the query                                                                        |
//! | -------- | -------------------------------------------------------------------------------- |
//! | none     | shows the entry                                                                  |
//! | pending  | looks for *departed* of the same move, then at the record again: acts as for     |
//! |          | *arrived* if either says so, or shows nothing                                    |
//! | arrived  | shows the entry, if it has not shown its id                                      |
//! | departed | if it has not shown the id: goes to the new leaf, and shows the entry from there |
//! |          | if its box belongs to the answer                                                 |
//!
//! A departed entry keeps its slot and its box. So covers, splits and shrinks treat it like any
//! other entry, and queries for the old place still come to it.
//!
//! # A query finds a moving entry once
//!
//! An entry with a record does not move to another leaf again. It moves inside of its leaf, which
//! grows if necessary. A record goes only when all operations have ended that were in progress at
//! the step that gave the record its role (*the rule*).
//!
//! 1. So during one query, at most one move of an object does its step U2. A later move of the
//!    object needs an entry without a record. The rule keeps the record *arrived* of the first move
//!    as long as the query lasts.
//! 2. *Never nowhere.* Let U2 be during the query, and let both boxes belong to the answer. The
//!    query visits the old leaf, because the entry stays there inside of the covers.
//!    - Before U2, the query shows the entry in the old leaf.
//!    - After U2, the query finds *departed*, by the rule. It shows the entry of the new leaf,
//!      unless that was removed or its box has left the answer. Then there was a moment at which
//!      nothing was to be shown.
//! 3. If only one of the boxes belongs to the answer, nothing was to be shown either before U2 or
//!    after U2.
//! 4. *Never twice.* The entry in the old leaf is shown by itself only before U2, and the one in
//!    the new leaf only after U2. So of two showings, the later one is at the new place.
//!    - If it is at *pending*, *arrived* or *departed*, the query asks whether it has shown the id.
//!    - If it is at an entry without a record, the record is forgotten. So the query began after
//!      U2, and the earlier showing was at *departed*. The query remembers these ids apart, and
//!      does not show them again.
//! 5. *A single moment.* What a query shows of an object was true when it read a leaf. U2 is one
//!    write, so a query that begins after another one has shown the new place does not show the old
//!    place.
//!
//! A query keeps the ids that it has shown only if the root says that entries may move. The first
//! update writes that into the root. Entries move between leaves only when all queries have ended
//! that began before. Until then their leaves grow.
//!
//! An id stands for one object. If several entries have the id of a moving one, a query may show
//! only one of them.
//!
//! # Other operations, and operations that end early
//!
//! - Exactly one of several updates and removes of one entry finds it: all decide by one write of
//!   the old leaf, which is U2 for a move. The others return `false`.
//! - A move that is dropped before U2 leaves a pending entry that no query shows. A later writer
//!   of the leaf removes it when the move's operation has ended for certain.
//! - A move that is dropped between U2 and U3 is done. A pending record is confirmed by the
//!   next update or remove of the entry, or before *departed* is removed.
//! - A split leaves the entries with records in their page. A page with entries does not die. So
//!   the leaf that a record names has the other entry, until the record there is forgotten.
//! - A leaf has few records, so that a full leaf has entries that a split can take away. An entry
//!   that gets no record moves inside of its leaf.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;

use super::RTree;
use super::drive::RESTARTS_MAX;
use super::far::{Move, Moved};
use super::frame::Frame;
use crate::page::Page;
use crate::{RTreeError, Rect};

/// Why an entry was not moved inside of its leaf.
enum Refused {
    /// The entry is not in the page any more.
    Gone,
    /// The page's cover does not contain the new box.
    Outside { has_record: bool, has_room: bool, can_record: bool },
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Moves the entry with the box `old` and this id to the box `new`, and gives it this payload.
    /// Returns `false` if there is no such entry; then nothing changes.
    ///
    /// A query finds the entry at the old or the new place, once. An id stands for one object: if
    /// other entries have the same id, a query during the update may miss some of them. Of several
    /// updates and removes of one entry at the same time, one finds the entry, and the others
    /// return `false`.
    ///
    /// # Errors
    /// [`RTreeError::NotFinite`], [`RTreeError::PayloadLength`], [`RTreeError::Starved`], and when
    /// memory fails or is full. After an error of memory the entry is at one of both places.
    pub async fn update(
        &self,
        old: &Rect<D>,
        id: u64,
        new: &Rect<D>,
        payload: &[u8],
    ) -> Result<bool, RTreeError> {
        self.check_entry(new, payload)?;
        let entry = Move { id, old, new, payload };
        let operation = self.memory.enter().await?;
        for _ in 0..RESTARTS_MAX {
            let Some(path) = self.search(old, id).await? else {
                drop(operation);
                return Ok(false);
            };
            if self.update_at(&path, entry).await? {
                drop(operation);
                self.tidy_left().await?;
                self.memory.handle().coop().await;
                return Ok(true);
            }
        }
        Err(RTreeError::Starved { page: self.root, rounds: RESTARTS_MAX })
    }

    /// Moves the entry in the leaf at the end of `path`. `false`: look for the entry again.
    async fn update_at(&self, path: &[Frame<'_>], entry: Move<'_, D>) -> Result<bool, RTreeError> {
        let Some((leaf, above)) = path.split_last() else { return Ok(false) };
        let (cells, max) = (self.layout.record_cells(), self.max(0));
        let moved = self.change_at(leaf.addr, leaf.hint, |page| {
            let slot = Some(page).filter(|page| page.level() == 0);
            let Some(slot) = slot.and_then(|page| page.find(entry.old, entry.id)) else {
                return ControlFlow::Break(Refused::Gone);
            };
            if !page.cover().contains(entry.new) {
                let (has_room, can_record) = (page.has_room(cells), page.can_record(max));
                let has_record = page.record_of(slot).is_some();
                return ControlFlow::Break(Refused::Outside { has_record, has_room, can_record });
            }
            page.set_entry(slot, entry.new, entry.payload);
            ControlFlow::Continue(())
        });
        let (has_record, has_room, can_record) = match moved.await? {
            ControlFlow::Continue(()) => return Ok(true),
            ControlFlow::Break(Refused::Gone) => return Ok(false),
            ControlFlow::Break(Refused::Outside { has_record, has_room, can_record }) => {
                (has_record, has_room, can_record)
            }
        };
        if self.can_move_far().await? {
            if (has_record || !can_record) && self.tidy(above, leaf).await? {
                return Ok(false);
            }
            if !has_record && !has_room {
                self.split(above, leaf.addr, cells).await?;
                return Ok(false);
            }
            if !has_record && can_record {
                match self.move_far(path, entry).await? {
                    Moved::Done => return Ok(true),
                    Moved::Again => return Ok(false),
                    Moved::Stays => {}
                }
            }
        }
        self.cover_path(path, entry.new).await?;
        Ok(false)
    }

    /// Makes the covers of all pages of a path contain `rect`, from above. Ends early if the tree
    /// has changed.
    async fn cover_path(&self, path: &[Frame<'_>], rect: &Rect<D>) -> Result<(), RTreeError> {
        for (depth, at) in path.iter().enumerate().skip(1) {
            let above = &path[..depth];
            let look = |page: &Page<'_, D>| {
                let known = at.is_known(page.sequence()) && !page.is_dead();
                (known, page.cover().contains(rect), page.shrinks())
            };
            let (known, contains, shrinks) = self.read(at.addr, look).await?;
            if !known {
                // A page that is not posted does not grow.
                return self.post(above, at.named).await;
            }
            if !contains && !self.grow(above, at, rect, shrinks).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}
