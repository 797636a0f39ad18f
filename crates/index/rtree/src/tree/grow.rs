//! Larger covers, from above: steps G1 and G2 of the [tree](super).

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;

use super::RTree;
use super::frame::Frame;
use crate::page::Page;
use crate::{RTreeError, Rect};

/// Why the entry above did not become larger.
enum Refused {
    NotHere,
    Changed,
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Makes the cover of `at` contain `rect`. `shrinks` is the page's number of shrinks, read
    /// before. `false`: the tree has changed, so begin again.
    pub(super) async fn grow(
        &self,
        path: &[Frame<'_>],
        at: &Frame<'_>,
        rect: &Rect<D>,
        shrinks: u32,
    ) -> Result<bool, RTreeError> {
        let (Some(parent), Some(link)) = (path.last(), at.link) else {
            return Err(self.corrupt(at.addr, "the cover of the root is not everything"));
        };
        // G1. The entry has nearly always stayed in the page in which it was seen.
        let grow = |page: &Page<'_, D>| {
            let slot = page.find_child(at.addr).filter(|_| page.level() > 0);
            let Some(slot) = slot else { return ControlFlow::Break(Refused::NotHere) };
            let mut now = page.link(slot);
            if now.expects != link.expects || !page.cover().contains(rect) {
                return ControlFlow::Break(Refused::Changed);
            }
            now.grows = now.grows.wrapping_add(1);
            page.set_rect(slot, &page.rect(slot).union(rect));
            page.set_link(slot, now);
            ControlFlow::Continue(())
        };
        let mut above = parent.addr;
        let mut grown = self.change_at(above, parent.hint, grow).await?;
        if let ControlFlow::Break(Refused::NotHere) = grown
            && let Some((holder, _)) = self.holder(parent, at.addr).await?
        {
            above = holder;
            grown = self.change(above, grow).await?;
        }
        let rules = &self.config.rules;
        if rules.parents_grow && grown.is_break() {
            return Ok(false);
        }
        // D3.
        self.persist_entry_in(above).await?;
        // G2.
        let grown = self.change_at(at.addr, at.hint, |page| {
            let overtaken = page.shrinks() != shrinks && rules.shrinks_give_way;
            if page.is_dead() || page.sequence() != link.expects || overtaken {
                return ControlFlow::Break(());
            }
            page.set_cover(&page.cover().union(rect));
            ControlFlow::Continue(())
        });
        Ok(grown.await?.is_continue())
    }
}
