//! Dead pages leave the tree.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::frame::Frame;
use super::removed::Removed;
use super::spares::Listed;
use crate::RTreeError;

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Removes the entry of a dead page from its parent, and frees the page. `path` leads to the
    /// parent. Does nothing if another operation was faster, or if the parent does not know the
    /// page yet.
    pub(super) async fn unlink(
        &self,
        path: &[Frame<'_>],
        dead: GlobalAddr,
    ) -> Result<(), RTreeError> {
        let Some((parent, above)) = path.split_last() else { return Ok(()) };
        // A dead page keeps its number.
        let sequence = self.read(dead, |page| page.sequence()).await?;
        self.post(path, dead).await?;
        let Some((holder, link)) = self.holder(parent, dead).await? else { return Ok(()) };
        if link.expects != sequence {
            return Ok(());
        }
        // D5.
        self.persist_if_there(dead).await?;
        let is_root = holder == self.root;
        let removed = self.change(holder, |page| {
            let slot = page.find_child(dead).filter(|_| page.level() > 0);
            let Some(slot) = slot.filter(|&slot| page.link(slot).expects == sequence) else {
                return ControlFlow::Break(());
            };
            page.remove(slot);
            let is_empty = page.count() == 0;
            if is_empty && is_root {
                page.set_level(0);
            } else if is_empty {
                page.set_dead();
            }
            ControlFlow::Continue(is_empty)
        });
        let ControlFlow::Continue(is_empty) = removed.await? else { return Ok(()) };
        // From here on the line is on the list of lines that have left the tree.
        drop(Listed::new(Removed { page: dead, holder }, self.removed.clone()));
        self.free_removed().await?;
        if is_empty && !is_root {
            Box::pin(self.unlink(above, holder)).await?;
        }
        Ok(())
    }
}
