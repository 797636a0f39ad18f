//! [`TreeWalk`]: the pages of a tree one by one, in an order that the caller chooses.
//!
//! The queries of this crate decide by planar geometry which pages they read. A walk leaves that
//! decision to the caller: for other distances, such as those on a sphere, and for pictures of the
//! levels.

use std::fmt;

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::drive::CHAIN_MAX;
use crate::page::{Page, Record, Role};
use crate::{NewEntry, RTreeError, Rect};

/// The way to a page, as its parent knows it.
#[derive(Clone, Copy)]
pub struct PageLink<'t> {
    addr: GlobalAddr,
    /// The sequence number that the parent expects; `None` for the root.
    expects: Option<u32>,
    hint: &'t Hint,
}

impl fmt::Debug for PageLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageLink").field(&self.addr).finish()
    }
}

/// What a [`PageLink`] leads to: one page, or several whose split is not posted yet.
#[derive(Clone, Debug)]
pub enum WalkedPage<'t, const D: usize> {
    /// The children of an inner page, with their boxes.
    Inner {
        /// The level, from 1 above the leaves.
        level: u8,
        /// Each child contains only entries inside of its box.
        children: Vec<(Rect<D>, PageLink<'t>)>,
    },
    /// The entries of a leaf.
    Leaf(Vec<NewEntry<D>>),
}

/// A walk over a tree. While it exists, the pages that it has seen are not reused, so end it soon.
///
/// A walk that follows all children sees each entry that is there throughout the walk, once, and no
/// entry that was there at no moment of it. The walk as a whole is no single moment. An entry that
/// an update moves during the walk may be seen at both places, or at none.
pub struct TreeWalk<'t, M: CoherentMemory, const D: usize> {
    tree: &'t RTree<M, D>,
    _operation: M::Operation,
}

impl<M: CoherentMemory, const D: usize> fmt::Debug for TreeWalk<'_, M, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeWalk").field("root", &self.tree.root).finish_non_exhaustive()
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Begins a walk.
    ///
    /// # Errors
    /// When memory fails.
    pub async fn walk(&self) -> Result<TreeWalk<'_, M, D>, RTreeError> {
        let operation = match self.memory.try_enter() {
            Some(operation) => operation,
            None => self.memory.enter().await?,
        };
        Ok(TreeWalk { tree: self, _operation: operation })
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// The entries that count at this place: each moved entry counts at its new place.
    async fn without_departed(
        &self,
        entries: Vec<NewEntry<D>>,
        moving: &[(usize, GlobalAddr, Record)],
    ) -> Result<Vec<NewEntry<D>>, RTreeError> {
        let mut departed = Vec::new();
        for (at, leaf, record) in moving {
            let is_here = match record.role {
                Role::Arrived => true,
                Role::Departed => false,
                Role::Pending => self.is_committed(*leaf, record).await?,
            };
            departed.extend((!is_here).then_some(*at));
        }
        let counting = entries.into_iter().enumerate().filter(|(at, _)| !departed.contains(at));
        Ok(counting.map(|(_, entry)| entry).collect())
    }
}

impl<'t, M: CoherentMemory, const D: usize> TreeWalk<'t, M, D> {
    /// The way to the root.
    pub fn root(&self) -> PageLink<'t> {
        PageLink { addr: self.tree.root, expects: None, hint: &self.tree.hints.root }
    }

    /// Reads a page, and gives the other tasks of the worker their turn.
    ///
    /// # Errors
    /// [`RTreeError::Corrupt`], and when memory fails.
    pub async fn read(&self, link: PageLink<'t>) -> Result<WalkedPage<'t, D>, RTreeError> {
        let tree = self.tree;
        let (mut level, mut children, mut entries) = (0, Vec::new(), Vec::new());
        // The entries that move or have moved lately: their positions, leaves and records.
        let mut moving: Vec<(usize, GlobalAddr, Record)> = Vec::new();
        let mut at = link;
        for _ in 0..CHAIN_MAX {
            let before = (children.len(), entries.len());
            let mut read = |page: &Page<'_, D>, hints: &'t [Hint]| {
                children.truncate(before.0);
                entries.truncate(before.1);
                moving.retain(|(at, ..)| *at < before.1);
                level = page.level();
                if level == 0 {
                    let records =
                        page.records().map(|(_, one)| (before.1 + one.slot, at.addr, one));
                    moving.extend(records);
                }
                for (slot, rect) in page.boxes().iter().enumerate() {
                    if level > 0 {
                        let hint = hints.get(slot).unwrap_or(&tree.hints.other);
                        let (addr, expects) = (page.child(slot), Some(page.link(slot).expects));
                        children.push((rect, PageLink { addr, expects, hint }));
                    } else {
                        let mut payload = Vec::with_capacity(tree.config.payload_len + 8);
                        page.append_payload(slot, &mut payload);
                        payload.truncate(tree.config.payload_len);
                        entries.push(NewEntry { rect, id: page.id(slot), payload });
                    }
                }
                let is_split = at.expects.is_some_and(|expects| expects != page.sequence());
                is_split.then(|| page.right())
            };
            match tree.drive(|| tree.try_page(at.addr, at.hint, &mut read)).await? {
                Some(right) => at = PageLink { addr: right, hint: &tree.hints.other, ..at },
                None => {
                    tree.memory.handle().coop().await;
                    return Ok(match level {
                        0 => WalkedPage::Leaf(tree.without_departed(entries, &moving).await?),
                        level => WalkedPage::Inner { level, children },
                    });
                }
            }
        }
        Err(tree.corrupt(link.addr, "right links without end"))
    }
}
