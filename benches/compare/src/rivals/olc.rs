//! The B+ trees with optimistic lock coupling: `ferntree` and `bplustree`.

use std::ops::Bound;

use bplustree::BPlusTree as Tree;
use ferntree::OptimisticRead;

use crate::content::{Content, Seen, Wide};
use crate::draws::SCANNED;
use crate::map::{Map, Session};

// The leaves hold only machine words. A value of 100 bytes is a block of its own, which is the form
// that the documentation names for such types.
ferntree::impl_optimistic_read_boxed!(Wide);

pub(crate) struct Ferntree<V: OptimisticRead>(ferntree::Tree<u64, V>);

impl<V: Content + OptimisticRead> Map for Ferntree<V> {
    type Value = V;
    type Session<'m> = &'m Self;
    const ORDERED: bool = true;

    fn new() -> Self {
        Ferntree(ferntree::Tree::new())
    }

    fn session(&self) -> &Self {
        self
    }
}

impl<V: Content + OptimisticRead> Session<V> for &Ferntree<V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        !self.0.insert_defer(key, value)
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.0.lookup_optimistic(&key, |value| value.seen())
    }

    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.0.insert_defer(key, value)
    }

    #[inline]
    fn scan(&mut self, from: u64, mut visit: impl FnMut(u64, Seen)) {
        let mut entries = self.0.range(Bound::Included(&from), Bound::Unbounded);
        for _ in 0..SCANNED {
            let Some((key, value)) = entries.next() else { return };
            visit(*key, value.seen());
        }
    }
}

pub(crate) struct BPlusTree<V>(Tree<u64, V>);

impl<V: Content> Map for BPlusTree<V> {
    type Value = V;
    type Session<'m> = &'m Self;
    const ORDERED: bool = true;

    fn new() -> Self {
        BPlusTree(Tree::new())
    }

    fn session(&self) -> &Self {
        self
    }
}

impl<V: Content> Session<V> for &BPlusTree<V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        self.0.insert(key, value).is_none()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.0.lookup(&key, Content::seen)
    }

    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.0.insert(key, value).is_some()
    }

    #[inline]
    fn scan(&mut self, from: u64, mut visit: impl FnMut(u64, Seen)) {
        let mut entries = self.0.raw_iter();
        entries.seek(&from);
        for _ in 0..SCANNED {
            let Some((key, value)) = entries.next() else { return };
            visit(*key, value.seen());
        }
    }
}
