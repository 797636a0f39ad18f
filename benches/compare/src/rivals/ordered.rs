//! `scc::TreeIndex`, a B+ tree for reading, and the skip list of `crossbeam`.

use crossbeam_skiplist::SkipMap;
use scc::{Guard, TreeIndex};

use crate::content::{Content, Seen};
use crate::draws::SCANNED;
use crate::map::{Map, Session};

pub(crate) struct SccTree<V>(TreeIndex<u64, V>);

pub(crate) struct SccTreeSession<'m, V> {
    tree: &'m TreeIndex<u64, V>,
    guard: Guard,
}

impl<V: Content> Map for SccTree<V> {
    type Value = V;
    type Session<'m> = SccTreeSession<'m, V>;
    const ORDERED: bool = true;

    fn new() -> Self {
        SccTree(TreeIndex::new())
    }

    fn session(&self) -> SccTreeSession<'_, V> {
        SccTreeSession { tree: &self.0, guard: Guard::new() }
    }
}

impl<V: Content> Session<V> for SccTreeSession<'_, V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        self.tree.insert_sync(key, value).is_ok()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.tree.peek(&key, &self.guard).map(Content::seen)
    }

    // The call does not return whether the key existed. The scans and reads that follow detect a
    // missing or duplicate key.
    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.tree.upsert_sync(key, value);
        true
    }

    #[inline]
    fn scan(&mut self, from: u64, mut visit: impl FnMut(u64, Seen)) {
        for (key, value) in self.tree.range(from.., &self.guard).take(SCANNED) {
            visit(*key, value.seen());
        }
    }
}

pub(crate) struct SkipList<V>(SkipMap<u64, V>);

impl<V: Content> Map for SkipList<V> {
    type Value = V;
    type Session<'m> = &'m Self;
    const ORDERED: bool = true;

    fn new() -> Self {
        SkipList(SkipMap::new())
    }

    fn session(&self) -> &Self {
        self
    }
}

/// Maximum number of repeated reads of a key that is being replaced.
const LOOKS_MAX: usize = 1 << 20;

// An insertion replaces an existing entry without a report, so an update is the same call. The call
// removes the old entry before it adds the new one. For a moment the key is missing, and a reader
// on another thread reads again.
impl<V: Content> Session<V> for &SkipList<V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        self.0.insert(key, value);
        true
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        (0..LOOKS_MAX).find_map(|_| self.0.get(&key).map(|entry| entry.value().seen()))
    }

    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.0.insert(key, value);
        true
    }

    #[inline]
    fn scan(&mut self, from: u64, mut visit: impl FnMut(u64, Seen)) {
        for entry in self.0.range(from..).take(SCANNED) {
            visit(*entry.key(), entry.value().seen());
        }
    }
}
