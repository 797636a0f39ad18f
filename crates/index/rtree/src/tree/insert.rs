//! Inserts.

use std::ops::ControlFlow;

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;

use super::RTree;
use super::drive::RESTARTS_MAX;
use super::frame::{Frame, Path};
use super::stop::Stop;
use crate::page::{Page, Relation};
use crate::{RTreeError, Rect};

/// Where an insert ends its way down.
enum Seen {
    Dead,
    /// The page has been split, and the parent does not know it.
    Split,
    /// The cover does not contain the new box. The page's number of shrinks.
    Outside(u32),
    Leaf,
}

/// Why an insert did not add its entry to a leaf.
pub(super) enum Refused {
    /// The leaf is not what the insert saw on its way. It has to look again.
    Changed,
    Full,
    /// The leaf does not take this entry.
    Never,
    /// The leaf does not have what the entry is made of.
    Gone,
}

/// How one way down from the root ended.
pub(super) enum Way<'m, R> {
    /// The entry is in this leaf.
    Done(Frame<'m>, R),
    /// The tree has changed on the way, so begin again.
    Again,
    /// The leaf at the end does not take the entry.
    Refused,
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Inserts an entry. The tree may have any number of entries with the same box and id.
    ///
    /// # Errors
    /// [`RTreeError::NotFinite`], [`RTreeError::PayloadLength`], [`RTreeError::Starved`], and when
    /// memory fails or is full.
    pub async fn insert(&self, rect: &Rect<D>, id: u64, payload: &[u8]) -> Result<(), RTreeError> {
        self.check_entry(rect, payload)?;
        let operation = self.memory.enter().await?;
        let mut path = Path::new();
        for _ in 0..RESTARTS_MAX {
            path.clear();
            let max = self.max(0);
            let add = |page: &Page<'_, D>, at: &Frame<'_>| {
                is_ready(page, at, (max, 1), rect)?;
                page.push_entry(rect, id, payload);
                ControlFlow::Continue(())
            };
            if let Way::Done(..) = self.go_down(&mut path, rect, 1, add).await? {
                drop(operation);
                self.memory.handle().coop().await;
                return Ok(());
            }
        }
        Err(RTreeError::Starved { page: self.root, rounds: RESTARTS_MAX })
    }

    pub(super) fn check_entry(&self, rect: &Rect<D>, payload: &[u8]) -> Result<(), RTreeError> {
        if !rect.is_finite() {
            return Err(RTreeError::NotFinite);
        }
        let (len, expected) = (payload.len(), self.config.payload_len);
        if len != expected {
            return Err(RTreeError::PayloadLength { len, expected });
        }
        Ok(())
    }

    /// Goes down from the root once, and makes all pages on the way contain `rect`. `add` adds an
    /// entry to the leaf, which must have room for this number of entries.
    pub(super) async fn go_down<'m, R>(
        &'m self,
        path: &mut Path<'m>,
        rect: &Rect<D>,
        room: usize,
        add: impl Fn(&Page<'_, D>, &Frame<'_>) -> ControlFlow<Refused, R>,
    ) -> Result<Way<'m, R>, RTreeError> {
        let mut at = Frame::root(self.root, &self.hints.root);
        loop {
            match self.drive(|| self.descend(path, &mut at, rect)).await? {
                Seen::Dead => {
                    self.unlink(path, at.addr).await?;
                    return Ok(Way::Again);
                }
                Seen::Split => {
                    self.post(path, at.addr).await?;
                    // The parent has a new entry, which may be the better one.
                    let Some(parent) = path.pop() else { return Ok(Way::Again) };
                    at = parent;
                }
                Seen::Outside(shrinks) => {
                    if !self.grow(path, &at, rect, shrinks).await? {
                        return Ok(Way::Again);
                    }
                }
                Seen::Leaf => {
                    match self.change_at(at.addr, at.hint, |page| add(page, &at)).await? {
                        ControlFlow::Continue(done) => return Ok(Way::Done(at, done)),
                        ControlFlow::Break(Refused::Changed) => {}
                        ControlFlow::Break(Refused::Never) => return Ok(Way::Refused),
                        ControlFlow::Break(Refused::Gone) => return Ok(Way::Again),
                        ControlFlow::Break(Refused::Full) => {
                            if self.tidy(path, &at).await? {
                                continue;
                            }
                            self.split(path, at.addr, room).await?;
                            let Some(parent) = path.pop() else { return Ok(Way::Again) };
                            at = parent;
                        }
                    }
                }
            }
        }
    }

    /// Goes down from `at`, as far as the pages are here and contain the box. A leaf whose box
    /// above contains `rect` is not read: the writer looks at all that matters under its guard.
    /// When the writer is refused, the next call begins at the leaf and reads it.
    fn descend<'m>(
        &'m self,
        path: &mut Path<'m>,
        at: &mut Frame<'m>,
        rect: &Rect<D>,
    ) -> Result<Seen, Stop> {
        loop {
            let here = *at;
            let look = |page: &Page<'_, D>, hints: &'m [Hint]| {
                if let Some(end) = look(page, &here, rect) {
                    return ControlFlow::Break(end);
                }
                let (level, (slot, contains)) = (page.level(), choose(page, rect));
                let hint = hints.get(slot).unwrap_or(&self.hints.other);
                let child = Frame::below(level, (page.child(slot), hint), page.link(slot));
                let sequence = page.sequence();
                let page = Frame { level: Some(level), sequence, ..here };
                ControlFlow::Continue((page, child, contains))
            };
            match self.try_page(here.addr, here.hint, look)? {
                ControlFlow::Break(end) => return Ok(end),
                ControlFlow::Continue((page, child, contains)) => {
                    let is_leaf = page.level == Some(1);
                    // Of a leaf, an insert reads no more than the cover. Its writes do not wait.
                    let end =
                        if is_leaf { self.layout.cover_end() } else { self.layout.boxes_end() };
                    self.memory.prefetch(child.hint, 0..end);
                    path.push(page);
                    *at = child;
                    if is_leaf && contains {
                        return Ok(Seen::Leaf);
                    }
                }
            }
        }
    }
}

/// Whether the way of an insert ends at `page`.
fn look<const D: usize>(page: &Page<'_, D>, at: &Frame<'_>, rect: &Rect<D>) -> Option<Seen> {
    if page.is_dead() {
        return Some(Seen::Dead);
    }
    if at.link.is_some_and(|link| link.expects != page.sequence()) {
        return Some(Seen::Split);
    }
    if !page.cover().contains(rect) {
        return Some(Seen::Outside(page.shrinks()));
    }
    (page.level() == 0).then_some(Seen::Leaf)
}

/// The smallest entry that contains the box. If there is none, the entry that becomes least larger,
/// and of those with the same growth the smallest. Also whether it contains the box.
fn choose<const D: usize>(page: &Page<'_, D>, rect: &Rect<D>) -> (usize, bool) {
    let boxes = page.boxes();
    let (mut chosen, mut least) = (None, f64::INFINITY);
    boxes.select(Relation::Contains, rect, |slot| {
        let area = boxes.rect(slot).area();
        if chosen.is_none() || area < least {
            (chosen, least) = (Some(slot), area);
        }
    });
    if let Some(slot) = chosen {
        return (slot, true);
    }
    let (mut chosen, mut best) = (0, (f64::INFINITY, f64::INFINITY));
    for (slot, old) in boxes.iter().enumerate() {
        let area = old.area();
        let growth = old.union(rect).area() - area;
        if growth < best.0 || growth == best.0 && area < best.1 {
            (chosen, best) = (slot, (growth, area));
        }
    }
    (chosen, false)
}

/// Whether an insert may add an entry with the box `rect` to the leaf. A leaf is full with `max`
/// entries, and without room for `room` more.
pub(super) fn is_ready<const D: usize>(
    page: &Page<'_, D>,
    at: &Frame<'_>,
    (max, room): (usize, usize),
    rect: &Rect<D>,
) -> ControlFlow<Refused> {
    let same = at.link.is_none_or(|link| link.expects == page.sequence());
    if page.level() != 0 || page.is_dead() || !same || !page.cover().contains(rect) {
        return ControlFlow::Break(Refused::Changed);
    }
    // A leaf of entries with records only cannot be split.
    let is_full = page.count() >= max && page.record_count() < page.count();
    if is_full || !page.has_room(room) {
        return ControlFlow::Break(Refused::Full);
    }
    ControlFlow::Continue(())
}
