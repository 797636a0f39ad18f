//! Splits become known in the level above.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::drive::CHAIN_MAX;
use super::frame::Frame;
use crate::page::{Link, Page};
use crate::{RTreeError, Rect};

/// What one page of a chain of right siblings says.
#[derive(Clone, Copy)]
struct Sibling<const D: usize> {
    sequence: u32,
    right: GlobalAddr,
    cover: Rect<D>,
}

impl<const D: usize> Sibling<D> {
    fn of(page: &Page<'_, D>) -> Sibling<D> {
        // The cover of a page without entries does not matter.
        let cover = if page.count() == 0 { Rect::NOTHING } else { page.cover() };
        Sibling { sequence: page.sequence(), right: page.right(), cover }
    }
}

/// Why an entry was not posted.
enum Refused {
    /// Another operation has changed the entry.
    Changed,
    Full,
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// The page with the entry of `child`, and the link of the entry. `frame` is the page in which
    /// the entry was seen. `None` if the entry is gone.
    pub(super) async fn holder(
        &self,
        frame: &Frame<'_>,
        child: GlobalAddr,
    ) -> Result<Option<(GlobalAddr, Link)>, RTreeError> {
        let mut addr = frame.addr;
        for _ in 0..CHAIN_MAX {
            let look = |page: &Page<'_, D>| {
                if frame.level.is_some_and(|level| level != page.level()) || page.level() == 0 {
                    return ControlFlow::Break(None);
                }
                match page.find_child(child) {
                    Some(slot) => ControlFlow::Break(Some(page.link(slot))),
                    None if page.sequence() == frame.sequence => ControlFlow::Break(None),
                    None => ControlFlow::Continue(page.right()),
                }
            };
            match self.read(addr, look).await? {
                ControlFlow::Break(link) => return Ok(link.map(|link| (addr, link))),
                ControlFlow::Continue(right) if right.is_null() => return Ok(None),
                ControlFlow::Continue(right) => {
                    // D2.
                    self.memory.persist(addr).await?;
                    addr = right;
                }
            }
        }
        Err(self.corrupt(frame.addr, "right links without end"))
    }

    /// Enters the right siblings of `split`, which its parent's entry does not know, in the level
    /// above. `path` leads to the parent. Does nothing if another operation was faster.
    pub(super) async fn post(
        &self,
        path: &[Frame<'_>],
        split: GlobalAddr,
    ) -> Result<(), RTreeError> {
        let Some((parent, above)) = path.split_last() else { return Ok(()) };
        loop {
            let Some((holder, link)) = self.holder(parent, split).await? else { return Ok(()) };
            let first = self.read(split, Sibling::of).await?;
            if first.sequence == link.expects {
                return Ok(());
            }
            // D2.
            self.memory.persist(split).await?;
            let others = self.cover_of_chain(first.right, link.expects).await?;
            let posted = self.change(holder, |page| {
                let slot = page.find_child(split).filter(|_| page.level() > 0);
                let Some(slot) = slot.filter(|&slot| page.link(slot).expects == link.expects)
                else {
                    return ControlFlow::Break(Refused::Changed);
                };
                if page.count() >= self.max(page.level()) {
                    return ControlFlow::Break(Refused::Full);
                }
                page.set_rect(slot, &first.cover);
                page.set_link(slot, Link::new(first.sequence));
                page.push_child(&others, first.right, Link::new(link.expects));
                ControlFlow::Continue(())
            });
            match posted.await? {
                ControlFlow::Continue(()) | ControlFlow::Break(Refused::Changed) => return Ok(()),
                ControlFlow::Break(Refused::Full) => {
                    Box::pin(self.split(above, holder, 1)).await?;
                    if holder == self.root {
                        // The entry is in another page now, which the path does not know. The next
                        // writer that comes to `split` posts it.
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The union of the covers of a page and its right siblings, up to the one with the number
    /// `last`. Memory has all of them then.
    async fn cover_of_chain(&self, first: GlobalAddr, last: u32) -> Result<Rect<D>, RTreeError> {
        let (mut addr, mut cover) = (first, Rect::NOTHING);
        for _ in 0..CHAIN_MAX {
            if addr.is_null() {
                return Err(self.corrupt(first, "no right sibling has the expected number"));
            }
            let next = self.read(addr, Sibling::of).await?;
            self.memory.persist(addr).await?;
            cover = cover.union(&next.cover);
            if next.sequence == last {
                return Ok(cover);
            }
            addr = next.right;
        }
        Err(self.corrupt(first, "right links without end"))
    }
}
