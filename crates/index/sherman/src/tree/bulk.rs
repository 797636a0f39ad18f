//! Bulk loading: a new tree from ascending entries, level by level.

use latchwork_verbs::GlobalAddr;
use smallvec::smallvec;

use super::{Inner, Tree};
use crate::ShermanError;
use crate::node::{Content, Entry, entry};

impl Tree {
    /// Fills an empty tree with ascending entries. Nodes are filled to the share `fill`, 0.1 to 1.
    /// Returns the number of entries. No other operation may run.
    ///
    /// # Errors
    /// [`ShermanError::NotEmpty`], [`ShermanError::Unsorted`], [`ShermanError::FillFactor`], errors
    /// of the lengths, and failures of the fabric and the pool. The tree is then empty still.
    pub async fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: f64,
    ) -> Result<u64, ShermanError> {
        let inner = &self.0;
        if !(0.1..=1.0).contains(&fill) {
            return Err(ShermanError::FillFactor(fill));
        }
        let guard = inner.lock(inner.anchor).await?;
        let (root, content) = inner.newest_root().await?;
        if content.header.level > 0 || !content.entries.is_empty() {
            guard.release().await?;
            return Err(ShermanError::NotEmpty);
        }
        let (mut loaded, mut last) = (0, Entry::new());
        // The first leaf stays where it is: it is written last, so that a failure leaves the tree
        // empty.
        let mut leaves = Level::new(inner, 0, root, fill);
        let mut above = Vec::new();
        for (key, value) in entries {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.check_key(key)?;
            if value.len() != inner.layout.value_len {
                let expected = inner.layout.value_len;
                return Err(ShermanError::Value { len: value.len(), expected });
            }
            if loaded > 0 && key <= last.as_slice() {
                return Err(ShermanError::Unsorted { index: loaded });
            }
            last = Entry::from_slice(key);
            loaded += 1;
            leaves.push(entry(key, value), &mut above).await?;
        }
        let mut first = leaves.finish(&mut above).await?;
        let (mut level, mut nodes) = (0, above);
        while nodes.len() > 1 {
            level += 1;
            let mut builder = Level::new(inner, level, inner.allocate().await?, fill);
            let mut above = Vec::new();
            for (low, child) in &nodes {
                builder.push(entry(low, &child.bits().to_le_bytes()), &mut above).await?;
            }
            let lowest = builder.finish(&mut above).await?;
            inner.write_new(&inner.node_piece(above[0].1, &lowest)).await?;
            nodes = above;
        }
        first.header.version = content.header.version;
        inner.write_new(&inner.node_piece(root, &first)).await?;
        let top = nodes[0].1;
        guard.write_back(smallvec![inner.root_piece(top)]).await?;
        inner.set_root(top);
        Ok(loaded)
    }
}

/// The nodes of one level, from left to right.
struct Level<'a> {
    inner: &'a Inner,
    most: usize,
    node: Content,
    addr: GlobalAddr,
    /// The first node of the level, which is not written yet.
    first: Option<Content>,
}

impl<'a> Level<'a> {
    fn new(inner: &'a Inner, level: u8, addr: GlobalAddr, fill: f64) -> Level<'a> {
        let room = inner.layout.room(level);
        let most = ((room as f64 * fill) as usize).clamp(2, room);
        let node = Content::empty(&inner.layout, level, inner.tag);
        Level { inner, most, node, addr, first: None }
    }

    /// Adds an entry. A node that is full is entered into `above`.
    async fn push(
        &mut self,
        entry: Entry,
        above: &mut Vec<(Entry, GlobalAddr)>,
    ) -> Result<(), ShermanError> {
        if self.node.entries.len() == self.most {
            let inner = self.inner;
            let next = inner.allocate().await?;
            let low = Entry::from_slice(&entry[..inner.layout.key_len]);
            let mut new = Content::empty(&inner.layout, self.node.header.level, inner.tag);
            new.low = low.clone();
            let mut full = std::mem::replace(&mut self.node, new);
            full.high = Some(low);
            full.header.is_last = false;
            full.header.right = next;
            above.push((full.low.clone(), self.addr));
            if self.first.is_none() {
                self.first = Some(full);
            } else {
                inner.write_new(&inner.node_piece(self.addr, &full)).await?;
            }
            self.addr = next;
        }
        self.node.entries.push(entry);
        Ok(())
    }

    /// Ends the level. Returns its first node, which is not written.
    async fn finish(self, above: &mut Vec<(Entry, GlobalAddr)>) -> Result<Content, ShermanError> {
        above.push((self.node.low.clone(), self.addr));
        match self.first {
            None => Ok(self.node),
            Some(first) => {
                self.inner.write_new(&self.inner.node_piece(self.addr, &self.node)).await?;
                Ok(first)
            }
        }
    }
}
