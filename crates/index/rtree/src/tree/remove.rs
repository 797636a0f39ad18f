//! Removals.

use std::ops::ControlFlow;

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;
use smallvec::SmallVec;

use super::RTree;
use super::drive::{CHAIN_MAX, RESTARTS_MAX};
use super::frame::{Frame, Path};
use crate::page::{Page, Record, Relation, Role};
use crate::{RTreeError, Rect};

/// A page that may have the entry, and the page from whose entry the search came.
#[derive(Clone, Copy)]
struct Visit<'m> {
    frame: Frame<'m>,
    /// The position of the parent in the list of visited inner pages.
    parent: Option<usize>,
}

/// Pages of a search. That of a usual tree needs no memory of its own.
type Visits<'m> = SmallVec<[Visit<'m>; 8]>;

/// What a search looks for in a leaf.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// An entry with this id that counts.
    Entry(u64),
    /// The departed entry of this move.
    Departed(u64),
}

/// What a search finds in a page.
enum Seen {
    /// An inner page. Its children that may have the entry are on the list of pages to visit.
    Inner { level: u8 },
    Leaf {
        found: bool,
        /// The entry waits for the end of its move, which may have been dropped.
        pending: Option<Record>,
    },
}

/// What a removal leaves behind.
enum Removed<const D: usize> {
    /// The page is dead.
    Emptied,
    /// The cover became smaller.
    Shrunk(Rect<D>),
    Plain,
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Removes an entry with this box and id. Returns `false` if there is none.
    ///
    /// # Errors
    /// [`RTreeError::Starved`], and when memory fails.
    pub async fn remove(&self, rect: &Rect<D>, id: u64) -> Result<bool, RTreeError> {
        let operation = self.memory.enter().await?;
        for _ in 0..RESTARTS_MAX {
            let Some(path) = self.search(rect, id).await? else {
                drop(operation);
                return Ok(false);
            };
            if self.remove_at(&path, rect, id).await? {
                drop(operation);
                self.tidy_left().await?;
                self.memory.handle().coop().await;
                return Ok(true);
            }
        }
        Err(RTreeError::Starved { page: self.root, rounds: RESTARTS_MAX })
    }

    /// The path to a leaf with the entry, leaf included.
    pub(super) async fn search(
        &self,
        rect: &Rect<D>,
        id: u64,
    ) -> Result<Option<Path<'_>>, RTreeError> {
        self.search_for(rect, Wanted::Entry(id)).await
    }

    /// The path to a leaf with what is wanted at `rect`, leaf included.
    pub(super) async fn search_for(
        &self,
        rect: &Rect<D>,
        wanted: Wanted,
    ) -> Result<Option<Path<'_>>, RTreeError> {
        let (mut inner, mut todo) = (Visits::new(), Visits::new());
        todo.push(Visit { frame: Frame::root(self.root, &self.hints.root), parent: None });
        let mut visits = 0;
        while let Some(Visit { frame, parent }) = todo.pop() {
            visits += 1;
            let (left, number) = (todo.len(), inner.len());
            let visit = || {
                self.try_page(frame.addr, frame.hint, |page, hints| {
                    todo.truncate(left);
                    let mut add = |frame| todo.push(Visit { frame, parent: Some(number) });
                    let seen = self.look(page, hints, (rect, wanted), &mut add);
                    (seen, page.sequence(), page.right())
                })
            };
            let (seen, sequence, right) = self.drive(visit).await?;
            if frame.link.is_some_and(|link| link.expects != sequence) {
                if right.is_null() || visits > CHAIN_MAX {
                    return Err(
                        self.corrupt(frame.addr, "no right sibling has the expected number")
                    );
                }
                // D2. Queries do not come here.
                self.memory.persist(frame.addr).await?;
                let frame = Frame { addr: right, hint: &self.hints.other, ..frame };
                todo.insert(left, Visit { frame, parent });
            }
            let seen = match seen {
                Seen::Leaf { pending: Some(record), .. } => {
                    let found = self.is_committed(frame.addr, &record).await?;
                    if found {
                        self.confirm(frame.addr, &record).await?;
                    }
                    Seen::Leaf { found, pending: None }
                }
                seen => seen,
            };
            match seen {
                Seen::Leaf { found: false, .. } => {}
                Seen::Leaf { found: true, .. } => {
                    let (mut path, mut next) = (Path::from_iter([frame]), parent);
                    while let Some(visit) = next.map(|at| &inner[at]) {
                        path.push(visit.frame);
                        next = visit.parent;
                    }
                    path.reverse();
                    return Ok(Some(path));
                }
                Seen::Inner { level } => {
                    let frame = Frame { level: Some(level), sequence, ..frame };
                    inner.push(Visit { frame, parent });
                }
            }
        }
        Ok(None)
    }

    /// Removes the entry from the leaf at the end of `path`. `false`: it is not there any more.
    async fn remove_at(
        &self,
        path: &[Frame<'_>],
        rect: &Rect<D>,
        id: u64,
    ) -> Result<bool, RTreeError> {
        let Some((leaf, above)) = path.split_last() else { return Ok(false) };
        let removed = self.change_at(leaf.addr, leaf.hint, |page| {
            let slot = Some(page).filter(|page| page.level() == 0);
            let Some(slot) = slot.and_then(|page| page.find(rect, id)) else {
                return ControlFlow::Break(());
            };
            let gone = page.rect(slot);
            page.remove(slot);
            if leaf.link.is_none() {
                return ControlFlow::Continue(Removed::Plain);
            }
            if page.count() == 0 {
                page.set_dead();
                return ControlFlow::Continue(Removed::Emptied);
            }
            self.note_left(page);
            let known = leaf.is_known(page.sequence());
            let shrunk = page.shrink_without(&gone).filter(|_| known);
            ControlFlow::Continue(shrunk.map_or(Removed::Plain, Removed::Shrunk))
        });
        match removed.await? {
            ControlFlow::Break(()) => return Ok(false),
            ControlFlow::Continue(Removed::Emptied) => self.unlink(above, leaf.addr).await?,
            ControlFlow::Continue(Removed::Shrunk(cover)) => {
                self.shrink(above, leaf, cover).await?;
            }
            ControlFlow::Continue(Removed::Plain) => {}
        }
        Ok(true)
    }

    fn look<'m>(
        &'m self,
        page: &Page<'_, D>,
        hints: &'m [Hint],
        (rect, wanted): (&Rect<D>, Wanted),
        child: &mut impl FnMut(Frame<'m>),
    ) -> Seen {
        let level = page.level();
        if level == 0 {
            let id = match wanted {
                Wanted::Entry(id) => id,
                Wanted::Departed(number) => {
                    let found = page.record_in(number, Role::Departed).is_some();
                    return Seen::Leaf { found, pending: None };
                }
            };
            let found = page.find(rect, id).is_some();
            let waits = |slot| page.record_of(slot).filter(|record| record.role == Role::Pending);
            let pending = if found || page.record_count() == 0 {
                None
            } else {
                page.slots_of(rect, id).find_map(waits)
            };
            return Seen::Leaf { found, pending };
        }
        let (cover, boxes) = (0..self.layout.cover_end(), 0..self.layout.boxes_end());
        page.boxes().select(Relation::Contains, rect, |slot| {
            let hint = hints.get(slot).unwrap_or(&self.hints.other);
            if level > 1 {
                self.memory.prefetch(hint, boxes.clone());
            } else {
                self.memory.prefetch(hint, cover.clone());
                self.memory.prefetch(hint, boxes.end..self.layout.ids_end());
            }
            child(Frame::below(level, (page.child(slot), hint), page.link(slot)));
        });
        Seen::Inner { level }
    }
}
