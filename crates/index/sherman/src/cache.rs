//! [`IndexCache`]: the inner nodes that a compute node keeps (Sherman 4.2).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use latchwork_runtime::sync::{Arc, Mutex};

use crate::node::{Content, Entry};

/// Copies of inner nodes, by level and low fence. A copy may be old: a child that it names then has
/// a high fence at or below the key, and the search goes on at the child's right sibling.
pub(crate) struct IndexCache {
    nodes: Mutex<Nodes>,
    budget: usize,
    clock: AtomicU64,
}

#[derive(Default)]
struct Nodes {
    by_low: std::collections::BTreeMap<(u8, Entry), Arc<Cached>>,
    bytes: usize,
}

pub(crate) struct Cached {
    pub(crate) content: Content,
    /// The clock at the last use. Relaxed: a hint for the replacement.
    used: AtomicU64,
    bytes: usize,
}

impl IndexCache {
    pub(crate) fn new(budget: usize) -> IndexCache {
        IndexCache { nodes: Mutex::default(), budget, clock: AtomicU64::new(0) }
    }

    /// The cached node of the lowest level above `level` whose range has `key`.
    pub(crate) fn find(&self, level: u8, key: &[u8]) -> Option<Arc<Cached>> {
        let nodes = self.nodes.lock();
        let highest = nodes.by_low.last_key_value()?.0.0;
        for level in level + 1..=highest {
            let last = (level, Entry::from_slice(key));
            let Some(((found, _), cached)) = nodes.by_low.range(..=last).next_back() else {
                continue;
            };
            let high = &cached.content.high;
            if *found == level && high.as_ref().is_none_or(|high| key < high.as_slice()) {
                cached.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
                return Some(Arc::clone(cached));
            }
        }
        None
    }

    /// Keeps a copy in place of an older one. `random` chooses which other copies to drop.
    pub(crate) fn insert(&self, content: Content, bytes: usize, random: u64) {
        if bytes > self.budget {
            return;
        }
        let level = content.header.level;
        let key = (level, content.low.clone());
        let used = AtomicU64::new(self.clock.fetch_add(1, Relaxed));
        let mut nodes = self.nodes.lock();
        if let Some(old) = nodes.by_low.insert(key, Arc::new(Cached { content, used, bytes })) {
            nodes.bytes -= old.bytes;
        }
        nodes.bytes += bytes;
        while nodes.bytes > self.budget && nodes.evict(random) {}
    }

    pub(crate) fn remove(&self, cached: &Cached) {
        let key = (cached.content.header.level, cached.content.low.clone());
        let mut nodes = self.nodes.lock();
        if let Some(old) = nodes.by_low.remove(&key) {
            nodes.bytes -= old.bytes;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.nodes.lock().bytes
    }
}

impl Nodes {
    /// Drops the less recently used of two nodes of the lowest level. The levels above stay.
    fn evict(&mut self, random: u64) -> bool {
        let Some(((level, _), _)) = self.by_low.first_key_value() else { return false };
        let level = *level;
        let probe = |random: u64| {
            let at = (level, Entry::from_slice(&random.to_be_bytes()));
            let lowest = self.by_low.range((level, Entry::new())..(level + 1, Entry::new()));
            let mut behind = self.by_low.range(at..(level + 1, Entry::new()));
            let found = behind.next().or_else(|| lowest.into_iter().next())?;
            Some((found.0.clone(), found.1.used.load(Relaxed)))
        };
        let (one, other) = (probe(random), probe(random.rotate_left(31)));
        let older = match (one, other) {
            (Some(one), Some(other)) => {
                if one.1 < other.1 {
                    one.0
                } else {
                    other.0
                }
            }
            _ => return false,
        };
        if let Some(old) = self.by_low.remove(&older) {
            self.bytes -= old.bytes;
        }
        true
    }
}
