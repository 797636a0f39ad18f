//! Scans: the leaves of a range, several READs at a time (Sherman 4.4).

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::rc::Rc;

use latchwork_verbs::GlobalAddr;

use super::locate::STEPS;
use super::{Inner, Tree};
use crate::ShermanError;
use crate::node::{Content, Entry};

/// The leaves that a scan reads at one time.
const AHEAD: usize = 16;

impl Tree {
    /// Shows up to `limit` entries from the key `from` on, in ascending order, until `visit`
    /// breaks. Returns the number of shown entries.
    ///
    /// Each leaf is read at an instant of its own, so a scan is not atomic with writes (Sherman
    /// 4.4). Each key that is there throughout the scan is shown once.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub async fn scan(
        &self,
        from: &[u8],
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, ShermanError> {
        self.check_key(from)?;
        let inner = &self.0;
        let (mut from, mut shown) = (Entry::from_slice(from), 0);
        let mut leaves = Leaves::default();
        while shown < limit {
            let leaf = inner.next_leaf(&mut leaves, &from, limit - shown).await?;
            let first = leaf.search(&from).unwrap_or_else(|index| index);
            for entry in leaf.entries[first..].iter().take(limit - shown) {
                let (key, value) = entry.split_at(from.len());
                shown += 1;
                if visit(key, value).is_break() {
                    return Ok(shown);
                }
            }
            let Some(high) = leaf.high else { break };
            leaves.right = Some(leaf.header.right);
            from = high;
        }
        Ok(shown)
    }
}

/// The leaves that a scan has read ahead.
#[derive(Default)]
struct Leaves {
    read: VecDeque<Content>,
    /// The right sibling of the last leaf.
    right: Option<GlobalAddr>,
}

impl Inner {
    /// The leaf whose range has `key`.
    async fn next_leaf(
        self: &Rc<Self>,
        leaves: &mut Leaves,
        key: &Entry,
        entries: usize,
    ) -> Result<Content, ShermanError> {
        let has =
            |leaf: &Content| leaf.low <= *key && leaf.high.as_ref().is_none_or(|high| key < high);
        while let Some(leaf) = leaves.read.pop_front() {
            if has(&leaf) {
                return Ok(leaf);
            }
            if leaf.low > *key {
                // A leaf in between was split since the parent was read.
                leaves.read.push_front(leaf);
                break;
            }
        }
        if leaves.read.is_empty() {
            // A leaf is at least about half full, after many inserts.
            let wanted = entries.div_ceil(self.layout.room(0).div_ceil(2)).clamp(1, AHEAD);
            self.read_ahead(leaves, key, wanted).await?;
            if leaves.read.front().is_some_and(has) {
                return leaves.read.pop_front().ok_or(Inner::corrupt(self.anchor, "no leaf"));
            }
        }
        let mut node = match leaves.right.take() {
            Some(right) => right,
            None => self.first_leaf(key).await?,
        };
        for _ in 0..STEPS {
            let leaf = self.content(node).await?;
            if leaf.header.level != 0 {
                break;
            }
            if has(&leaf) {
                return Ok(leaf);
            }
            self.counters.count(|c| c.right_steps += 1);
            node = leaf.header.right;
        }
        Err(Inner::corrupt(node, "a scan does not end"))
    }

    async fn first_leaf(self: &Rc<Self>, key: &Entry) -> Result<GlobalAddr, ShermanError> {
        let located = self.locate(key, 0).await?;
        Ok(located.ok_or(Inner::corrupt(self.anchor, "a tree without leaves"))?.node)
    }

    /// Reads, at one time, the leaves that the parent of `key` names from `key` on.
    async fn read_ahead(
        self: &Rc<Self>,
        leaves: &mut Leaves,
        key: &Entry,
        wanted: usize,
    ) -> Result<(), ShermanError> {
        if wanted < 2 {
            return Ok(());
        }
        let parent = match self.shared.cache.find(0, key) {
            Some(cached) if cached.content.header.level == 1 => cached,
            // A search puts the parent into the cache, for the next scan.
            _ => return Ok(()),
        };
        let content = &parent.content;
        let first = match content.search(key) {
            Ok(index) => index,
            Err(index) => index.saturating_sub(1),
        };
        let children = content.children(key.len()).skip(first).take(wanted);
        let handle = &self.resources.handle;
        let reads: Vec<_> = children
            .map(|(_, child)| {
                let inner = Rc::clone(self);
                handle.spawn_service(async move { inner.content(child).await })
            })
            .collect();
        for read in reads {
            let read = read.await;
            leaves.read.push_back(read.map_err(|_| Inner::corrupt(self.anchor, "a read ended"))??);
        }
        Ok(())
    }
}
