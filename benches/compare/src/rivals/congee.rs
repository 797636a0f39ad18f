//! `congee`, an adaptive radix tree whose keys and values are machine words. Values of 100 bytes
//! are behind `Arc`s; that form cannot be scanned.

use std::sync::Arc;

use congee::epoch::Guard;
use congee::{Congee, CongeeArc, DefaultAllocator};

use crate::content::{Content, Seen, Wide};
use crate::draws::SCANNED;
use crate::map::{Map, Session};

pub(crate) struct CongeeOfWords(Congee<usize, usize>);

pub(crate) struct WordSession<'m> {
    tree: &'m Congee<usize, usize>,
    guard: Guard,
}

impl Map for CongeeOfWords {
    type Value = u64;
    type Session<'m> = WordSession<'m>;
    const ORDERED: bool = true;

    fn new() -> Self {
        CongeeOfWords(Congee::new(DefaultAllocator {}))
    }

    fn session(&self) -> WordSession<'_> {
        WordSession { tree: &self.0, guard: self.0.pin() }
    }
}

impl Session<u64> for WordSession<'_> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> bool {
        matches!(self.tree.insert(key as usize, value as usize, &self.guard), Ok(None))
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.tree.get(&(key as usize), &self.guard).map(|value| (value as u64).seen())
    }

    #[inline]
    fn update(&mut self, key: u64, value: u64) -> bool {
        matches!(self.tree.insert(key as usize, value as usize, &self.guard), Ok(Some(_)))
    }

    #[inline]
    fn scan(&mut self, from: u64, mut visit: impl FnMut(u64, Seen)) {
        let mut entries = [(0, 0); SCANNED];
        // The end of the range is exclusive, so the largest possible key is out of reach.
        let count = self.tree.range(&(from as usize), &usize::MAX, &mut entries, &self.guard);
        for (key, value) in &entries[..count] {
            visit(*key as u64, (*value as u64).seen());
        }
    }
}

pub(crate) struct CongeeOfArcs(CongeeArc<usize, Wide>);

pub(crate) struct ArcSession<'m> {
    tree: &'m CongeeArc<usize, Wide>,
    guard: Guard,
}

impl Map for CongeeOfArcs {
    type Value = Wide;
    type Session<'m> = ArcSession<'m>;
    const ORDERED: bool = false;

    fn new() -> Self {
        CongeeOfArcs(CongeeArc::new())
    }

    fn session(&self) -> ArcSession<'_> {
        ArcSession { tree: &self.0, guard: self.0.pin() }
    }
}

impl Session<Wide> for ArcSession<'_> {
    #[inline]
    fn insert(&mut self, key: u64, value: Wide) -> bool {
        matches!(self.tree.insert(key as usize, Arc::new(value), &self.guard), Ok(None))
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.tree.get(key as usize, &self.guard).map(|value| value.seen())
    }

    #[inline]
    fn update(&mut self, key: u64, value: Wide) -> bool {
        matches!(self.tree.insert(key as usize, Arc::new(value), &self.guard), Ok(Some(_)))
    }

    fn scan(&mut self, _from: u64, _visit: impl FnMut(u64, Seen)) {}
}
