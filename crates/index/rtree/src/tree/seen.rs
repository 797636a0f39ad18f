//! [`Seen`]: what a query has shown, so that a moving entry is not shown twice.

use std::collections::BTreeSet;

/// The things that a query has shown. Most queries never ask, so the set is made at the first
/// question.
#[derive(Debug)]
pub(super) struct Seen<K> {
    /// Whether entries of the tree may move between leaves during the query. Otherwise nothing is
    /// kept.
    keeps: bool,
    list: Vec<K>,
    set: Option<BTreeSet<K>>,
    /// What was shown where an entry had departed from. It may come again without a record.
    elsewhere: BTreeSet<K>,
}

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Seen { keeps: false, list: Vec::new(), set: None, elsewhere: BTreeSet::new() }
    }
}

impl<K: Ord> Seen<K> {
    pub(super) fn begin(&mut self, keeps: bool) {
        self.keeps = keeps;
        self.list.clear();
        self.set = None;
        self.elsewhere.clear();
    }

    /// Remembers what is shown where its entry had departed from.
    pub(super) fn add_elsewhere(&mut self, key: K) {
        self.elsewhere.insert(key);
    }

    /// Whether an entry without a record was shown where it had departed from.
    #[inline]
    pub(super) fn was_elsewhere(&self, key: &K) -> bool {
        !self.elsewhere.is_empty() && self.elsewhere.contains(key)
    }

    #[inline]
    pub(super) fn add(&mut self, key: K) {
        if !self.keeps {
            return;
        }
        match &mut self.set {
            Some(set) => drop(set.insert(key)),
            None => self.list.push(key),
        }
    }

    /// Adds a thing, and returns whether it was new.
    pub(super) fn is_new(&mut self, key: K) -> bool {
        let list = &mut self.list;
        self.set.get_or_insert_with(|| list.drain(..).collect()).insert(key)
    }
}
