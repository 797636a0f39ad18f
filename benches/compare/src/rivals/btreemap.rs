//! The lower bound: the standard library's tree behind one lock.

use std::collections::BTreeMap;

use parking_lot::RwLock;

use crate::content::{Content, Seen};
use crate::draws::SCANNED;
use crate::map::{Map, Session};

pub(crate) struct LockedBTreeMap<V>(RwLock<BTreeMap<u64, V>>);

impl<V: Content> Map for LockedBTreeMap<V> {
    type Value = V;
    type Session<'m> = &'m Self;
    const ORDERED: bool = true;

    fn new() -> Self {
        LockedBTreeMap(RwLock::new(BTreeMap::new()))
    }

    fn session(&self) -> &Self {
        self
    }
}

impl<V: Content> Session<V> for &LockedBTreeMap<V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        self.0.write().insert(key, value).is_none()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.0.read().get(&key).map(Content::seen)
    }

    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.0.write().get_mut(&key).map(|old| *old = value).is_some()
    }

    #[inline]
    fn scan(&mut self, from: u64, mut visit: impl FnMut(u64, Seen)) {
        for (key, value) in self.0.read().range(from..).take(SCANNED) {
            visit(*key, value.seen());
        }
    }
}
