//! Removals.

use std::ops::ControlFlow;

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;
use smallvec::SmallVec;

use super::RTree;
use super::drive::{CHAIN_MAX, RESTARTS_MAX};
use super::frame::Frame;
use crate::page::{Page, Record, Relation, Role};
use crate::{RTreeError, Rect};

/// A page that may have the entry, and the page from whose entry the search came.
struct Visit<'m> {
    frame: Frame<'m>,
    /// The position of the parent in the list of visited inner pages.
    parent: Option<usize>,
}

/// What a search looks for in a leaf.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// An entry with this id that counts.
    Entry(u64),
    /// The departed entry of this move.
    Departed(u64),
}

/// What a search finds in a page.
enum Seen<'m> {
    /// An inner page with children that may have the entry.
    Inner { level: u8, children: SmallVec<[Frame<'m>; 4]> },
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
    ) -> Result<Option<Vec<Frame<'_>>>, RTreeError> {
        self.search_for(rect, Wanted::Entry(id)).await
    }

    /// The path to a leaf with what is wanted at `rect`, leaf included.
    pub(super) async fn search_for(
        &self,
        rect: &Rect<D>,
        wanted: Wanted,
    ) -> Result<Option<Vec<Frame<'_>>>, RTreeError> {
        let mut inner: Vec<Visit<'_>> = Vec::new();
        let mut todo =
            vec![Visit { frame: Frame::root(self.root, &self.hints.root), parent: None }];
        let mut visits = 0;
        while let Some(Visit { frame, parent }) = todo.pop() {
            visits += 1;
            let look = |page: &Page<'_, D>, hints: _| {
                (self.look(page, hints, rect, wanted), page.sequence(), page.right())
            };
            let visit = || self.try_page(frame.addr, frame.hint, look);
            let (seen, sequence, right) = self.drive(visit).await?;
            if frame.link.is_some_and(|link| link.expects != sequence) {
                if right.is_null() || visits > CHAIN_MAX {
                    return Err(
                        self.corrupt(frame.addr, "no right sibling has the expected number")
                    );
                }
                todo.push(Visit {
                    frame: Frame { addr: right, hint: &self.hints.other, ..frame },
                    parent,
                });
            }
            let seen = match seen {
                Seen::Leaf { pending: Some(record), .. } => {
                    let found = self.is_committed(frame.addr, &record).await?;
                    if found {
                        self.confirm(frame.addr, record.number).await?;
                    }
                    Seen::Leaf { found, pending: None }
                }
                seen => seen,
            };
            match seen {
                Seen::Leaf { found: false, .. } => {}
                Seen::Leaf { found: true, .. } => {
                    let mut path = vec![frame];
                    let mut next = parent;
                    while let Some(visit) = next.map(|at| &inner[at]) {
                        path.push(visit.frame);
                        next = visit.parent;
                    }
                    path.reverse();
                    return Ok(Some(path));
                }
                Seen::Inner { level, children } => {
                    let frame = Frame { level: Some(level), sequence, ..frame };
                    inner.push(Visit { frame, parent });
                    let parent = Some(inner.len() - 1);
                    todo.extend(children.into_iter().map(|frame| Visit { frame, parent }));
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
            page.remove(slot);
            if leaf.link.is_none() {
                return ControlFlow::Continue(Removed::Plain);
            }
            if page.count() == 0 {
                page.set_dead();
                return ControlFlow::Continue(Removed::Emptied);
            }
            self.note_left(page);
            let (cover, union) = (page.cover(), page.union());
            if cover == union {
                return ControlFlow::Continue(Removed::Plain);
            }
            page.shrink_cover(&union);
            let known = leaf.is_known(page.sequence());
            ControlFlow::Continue(if known { Removed::Shrunk(union) } else { Removed::Plain })
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
        rect: &Rect<D>,
        wanted: Wanted,
    ) -> Seen<'m> {
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
        let mut children = SmallVec::new();
        page.boxes().select(Relation::Contains, rect, |slot| {
            let hint = hints.get(slot).unwrap_or(&self.hints.other);
            self.memory.prefetch(hint, 0..self.layout.boxes_end());
            children.push(Frame::below(level, (page.child(slot), hint), page.link(slot)));
        });
        Seen::Inner { level, children }
    }
}
