//! Descents: from a cached node or the root to the node of a level that has a key.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use latchwork_verbs::GlobalAddr;

use super::Inner;
use crate::ShermanError;
use crate::node::Content;

/// The nodes that one operation visits at most. A tree with more is damaged.
pub(super) const STEPS: u32 = 10_000;

/// Where a descent ended.
pub(super) struct Located {
    pub(super) node: GlobalAddr,
    /// Whether the parent was read in this descent, so that a child that it does not name is not
    /// posted yet.
    pub(super) is_fresh: bool,
}

impl Inner {
    fn root(&self) -> Option<GlobalAddr> {
        let root = GlobalAddr::from_bits(self.shared.root.load(Relaxed));
        (!root.is_null()).then_some(root)
    }

    pub(super) fn set_root(&self, root: GlobalAddr) {
        // Relaxed: an old root serves as well, and the nodes are read from the memory nodes.
        self.shared.root.store(root.bits(), Relaxed);
    }

    /// The root, with all that it says. Each reading of the anchor finds the newest.
    pub(super) async fn newest_root(
        self: &Rc<Self>,
    ) -> Result<(GlobalAddr, Content), ShermanError> {
        let root = self.read_root().await?;
        self.set_root(root);
        Ok((root, self.content(root).await?))
    }

    /// Keeps a copy of an inner node.
    pub(super) fn cache(&self, content: &Content) {
        if content.header.level > 0 && self.config.cache_bytes > 0 {
            let random = self.resources.handle.random();
            self.shared.cache.insert(content.clone(), self.layout.words * 8, random);
        }
    }

    /// The node on `level` whose range has `key`, as far as the levels above know it.
    ///
    /// # Errors
    /// `None` when the tree has no level above `level`.
    pub(super) async fn locate(
        self: &Rc<Self>,
        key: &[u8],
        level: u8,
    ) -> Result<Option<Located>, ShermanError> {
        let (mut node, mut from, mut is_fresh, mut above);
        // What the root says, which was read for its level.
        let mut known = None;
        match self.shared.cache.find(level, key) {
            Some(cached) => {
                self.counters.count(|c| c.cache_hits += 1);
                let child = cached.content.child(key);
                node =
                    child.ok_or(Inner::corrupt(self.anchor, "an inner node without children"))?;
                above = cached.content.header.level - 1;
                (from, is_fresh) = (Some(cached), false);
            }
            None => {
                let mut content;
                (node, content) = match self.root() {
                    Some(root) => (root, self.content(root).await?),
                    None => self.newest_root().await?,
                };
                if content.header.level < level {
                    // The known root is old, or the tree has no such level.
                    (node, content) = self.newest_root().await?;
                    if content.header.level < level {
                        return Ok(None);
                    }
                }
                above = content.header.level;
                known = Some(content);
                (from, is_fresh) = (None, true);
            }
        }
        for _ in 0..STEPS {
            if above == level {
                return Ok(Some(Located { node, is_fresh }));
            }
            let content = match known.take() {
                Some(content) => content,
                None => self.content(node).await?,
            };
            if content.header.level != above {
                return Err(Inner::corrupt(node, "it is on another level than its parent says"));
            }
            if content.high.as_ref().is_some_and(|high| key >= high.as_slice()) {
                self.counters.count(|c| c.right_steps += 1);
                if let Some(old) = from.take() {
                    self.shared.cache.remove(&old);
                }
                node = content.header.right;
                continue;
            }
            self.cache(&content);
            node = content.child(key).ok_or(Inner::corrupt(node, "it has no child for a key"))?;
            above -= 1;
            (from, is_fresh) = (None, true);
        }
        Err(Inner::corrupt(node, "a descent does not end"))
    }
}
