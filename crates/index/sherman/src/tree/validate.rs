//! The check of a whole tree.

use std::collections::BTreeSet;

use latchwork_verbs::GlobalAddr;

use super::{Inner, Tree};
use crate::ShermanError;
use crate::node::{Content, Entry};

/// The result of a walk over a whole tree.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// The number of entries.
    pub entries: u64,
    /// The number of nodes on each level, leaves first.
    pub nodes_per_level: Vec<u64>,
    /// The number of leaves without entries.
    pub empty_leaves: u64,
    /// The number of nodes to which only a right sibling leads, because a split did not come to its
    /// post.
    pub unposted_nodes: u64,
    /// The number of entries for which the leaves have room.
    pub room: u64,
}

impl Tree {
    /// Walks the whole tree, and checks that keys ascend between their fences, that the fences of
    /// neighbours meet, and that each parent names nodes of the level below by their low fences.
    /// Meant for a tree without writers.
    ///
    /// # Errors
    /// [`ShermanError::Corrupt`] with the first fault; failures of the fabric.
    pub async fn validate(&self) -> Result<Statistics, ShermanError> {
        let inner = &self.0;
        let (mut first, root) = inner.newest_root().await?;
        let mut statistics = Statistics::default();
        let mut seen = BTreeSet::new();
        let mut expected: Vec<(Entry, GlobalAddr)> = vec![(root.low.clone(), first)];
        for level in (0..=root.header.level).rev() {
            let mut below = Vec::new();
            let mut known = expected.iter().peekable();
            let (mut node, mut low, mut nodes) = (first, Entry::from_elem(0, root.low.len()), 0);
            loop {
                if !seen.insert(node) {
                    return Err(Inner::corrupt(node, "it is reached twice"));
                }
                let content = inner.content(node).await?;
                check(node, &content, level, &low)?;
                match known.next_if(|(_, addr)| *addr == node) {
                    Some((fence, _)) if *fence != low => {
                        return Err(Inner::corrupt(node, "its parent says another low fence"));
                    }
                    Some(_) => {}
                    None => statistics.unposted_nodes += 1,
                }
                nodes += 1;
                if level == 0 {
                    statistics.entries += content.entries.len() as u64;
                    statistics.empty_leaves += u64::from(content.entries.is_empty());
                    statistics.room += inner.layout.room(0) as u64;
                } else {
                    let children = content.children(low.len());
                    below.extend(children.map(|(low, child)| (Entry::from_slice(low), child)));
                }
                match content.high {
                    Some(high) => (low, node) = (high, content.header.right),
                    None => break,
                }
            }
            if known.next().is_some() {
                return Err(Inner::corrupt(node, "a parent names a node that is not on its level"));
            }
            statistics.nodes_per_level.push(nodes);
            if level > 0 {
                first = below.first().ok_or(Inner::corrupt(node, "a level without nodes"))?.1;
            }
            expected = below;
        }
        statistics.nodes_per_level.reverse();
        Ok(statistics)
    }
}

fn check(node: GlobalAddr, content: &Content, level: u8, low: &Entry) -> Result<(), ShermanError> {
    let len = low.len();
    let keys = || content.entries.iter().map(|entry| &entry[..len]);
    let what = if content.header.level != level {
        "it is on another level than its neighbours"
    } else if content.low != *low {
        "its low fence is not the high fence of its neighbour"
    } else if content.high.as_ref().is_some_and(|high| high <= low) {
        "its fences do not ascend"
    } else if content.high.is_none() != content.header.right.is_null() {
        "only the last node of a level has no right sibling"
    } else if !keys().is_sorted_by(|a, b| a < b) {
        "its keys do not ascend"
    } else if keys().any(|key| {
        key < low.as_slice() || content.high.as_ref().is_some_and(|high| key >= high.as_slice())
    }) {
        "a key is outside its fences"
    } else if level > 0 && keys().next() != Some(low.as_slice()) {
        "its first child begins elsewhere"
    } else {
        return Ok(());
    };
    Err(Inner::corrupt(node, what))
}
