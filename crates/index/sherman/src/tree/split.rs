//! Splits, and the posts of new nodes to the levels above.

use std::rc::Rc;

use latchwork_verbs::GlobalAddr;
use smallvec::smallvec;

use super::Inner;
use super::detached::Detached;
use super::locate::STEPS;
use super::lock::Guard;
use crate::ShermanError;
use crate::node::{Content, Entry, View, entry};

impl Inner {
    pub(super) async fn allocate(&self) -> Result<GlobalAddr, ShermanError> {
        let lines = &self.resources.lines;
        Ok(lines.allocate(&self.resources.port, &self.resources.handle).await?)
    }

    /// Splits a leaf with one entry too many, and posts the new leaf.
    pub(super) async fn split_leaf(
        self: &Rc<Self>,
        guard: Guard,
        node: GlobalAddr,
        content: Content,
    ) -> Result<(), ShermanError> {
        let (middle, addr) = self.split(guard, node, content).await?;
        self.post_later(middle, addr).await
    }

    /// Splits a node. Returns the low fence and the address of the new node.
    async fn split(
        self: &Rc<Self>,
        guard: Guard,
        node: GlobalAddr,
        mut content: Content,
    ) -> Result<(Entry, GlobalAddr), ShermanError> {
        let addr = self.allocate().await?;
        self.counters.count(|c| c.splits += 1);
        let upper = content.split(&self.layout, addr);
        let (left, right) = (self.node_piece(node, &content), self.node_piece(addr, &upper));
        // The new node comes first, because readers reach it by the old one.
        if addr.node() == node.node() {
            guard.write_back(smallvec![right, left]).await?;
        } else {
            self.write_new(&right).await?;
            guard.write_back(smallvec![left]).await?;
        }
        self.cache(&content);
        self.cache(&upper);
        Ok((upper.low, addr))
    }

    /// Enters a new leaf into the level above. The future may be dropped.
    pub(super) fn post_later(
        self: &Rc<Self>,
        low: Entry,
        child: GlobalAddr,
    ) -> Detached<Result<(), ShermanError>> {
        Detached::new(&self.resources.handle, Rc::clone(self).post(1, low, child))
    }

    /// Enters `child`, whose low fence is `low`, into `level`; splits what is full, up to a new
    /// root.
    async fn post(
        self: Rc<Self>,
        mut level: u8,
        mut low: Entry,
        mut child: GlobalAddr,
    ) -> Result<(), ShermanError> {
        loop {
            let Some(located) = self.locate(&low, level).await? else {
                if self.grow(level, &low, child).await? {
                    return Ok(());
                }
                continue;
            };
            let (mut node, mut steps) = (located.node, 0);
            let (guard, mut content) = loop {
                steps += 1;
                if steps > STEPS {
                    return Err(Inner::corrupt(node, "a walk to the right does not end"));
                }
                let guard = self.lock(node).await?;
                let words = self.read_words(node).await?;
                let view = View { layout: &self.layout, words: &words };
                let header = self.header_under_lock(node, &view)?;
                let torn = |_| Inner::corrupt(node, "its parts do not belong together");
                let content = view.content(&header).map_err(torn)?;
                if content.high.as_ref().is_none_or(|high| low < *high) {
                    break (guard, content);
                }
                guard.release().await?;
                node = content.header.right;
            };
            if content.header.level != level {
                return Err(Inner::corrupt(node, "it is on another level than its parent says"));
            }
            match content.search(&low) {
                Ok(_) => {
                    guard.release().await?;
                    self.cache(&content);
                    return Ok(());
                }
                Err(index) => {
                    content.entries.insert(index, entry(&low, &child.bits().to_le_bytes()))
                }
            }
            if content.entries.len() <= self.layout.room(level) {
                guard.write_back(smallvec![self.node_piece(node, &content)]).await?;
                // The version in memory is one higher, which no reader of the copy minds.
                self.cache(&content);
                return Ok(());
            }
            (low, child) = self.split(guard, node, content).await?;
            level += 1;
        }
    }

    /// Makes a root on `level` over the present root and `child`. Returns `false` if another task
    /// has made a root there.
    async fn grow(
        self: &Rc<Self>,
        level: u8,
        low: &Entry,
        child: GlobalAddr,
    ) -> Result<bool, ShermanError> {
        let guard = self.lock(self.anchor).await?;
        let (root, content) = self.newest_root().await?;
        if content.header.level >= level {
            guard.release().await?;
            return Ok(false);
        }
        let addr = self.allocate().await?;
        let mut new = Content::empty(&self.layout, level, self.tag);
        new.entries = vec![
            entry(&new.low, &root.bits().to_le_bytes()),
            entry(low, &child.bits().to_le_bytes()),
        ];
        self.write_new(&self.node_piece(addr, &new)).await?;
        guard.write_back(smallvec![self.root_piece(addr)]).await?;
        self.set_root(addr);
        self.cache(&new);
        Ok(true)
    }
}
