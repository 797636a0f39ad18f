//! Smaller boxes, from below: step S3 of the [tree](super), and S2 of the page above.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;

use super::RTree;
use super::frame::Frame;
use crate::page::Link;
use crate::{RTreeError, Rect};

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Makes the entries above `child` smaller, after its cover has become `cover`. `path` leads to
    /// the parent of `child`. The frames have the links from before. Whatever has changed since
    /// ends the call: a box that is too large is no fault.
    pub(super) async fn shrink(
        &self,
        path: &[Frame<'_>],
        child: &Frame<'_>,
        cover: Rect<D>,
    ) -> Result<(), RTreeError> {
        let (mut child, mut cover) = (*child, cover);
        for parent in path.iter().rev() {
            let Some(seen) = child.link else { return Ok(()) };
            // D4.
            self.memory.persist(child.addr).await?;
            let shrunk = self.change_at(parent.addr, parent.hint, |page| {
                let slot = page.find_child(child.addr).filter(|_| page.level() > 0);
                let gives_way = self.config.rules.shrinks_give_way;
                let same = |link: Link| link == seen || !gives_way && link.expects == seen.expects;
                let Some(slot) = slot.filter(|&slot| same(page.link(slot))) else {
                    return ControlFlow::Break(());
                };
                let before = page.rect(slot);
                if !before.contains(&cover) {
                    // A later shrink of the child was faster. Its box is the smaller one, and the
                    // cover of this page may have become smaller with it.
                    return ControlFlow::Break(());
                }
                page.set_rect(slot, &cover);
                let known = parent.is_known(page.sequence());
                let is_root = parent.link.is_none();
                let shrunk = if is_root { None } else { page.shrink_without(&before) };
                ControlFlow::Continue(shrunk.filter(|_| known))
            });
            let ControlFlow::Continue(Some(next)) = shrunk.await? else { return Ok(()) };
            (child, cover) = (*parent, next);
        }
        Ok(())
    }
}
