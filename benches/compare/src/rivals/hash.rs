//! The unordered structures, an upper bound for point reads: `scc::HashMap`, `dashmap`, `papaya`.
//! All use the hasher of `rustc-hash` instead of the standard library's slower one.

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

use crate::content::{Content, Seen};
use crate::map::{Map, Session};

pub(crate) struct SccHash<V>(scc::HashMap<u64, V, FxBuildHasher>);

impl<V: Content> Map for SccHash<V> {
    type Value = V;
    type Session<'m> = &'m Self;
    const ORDERED: bool = false;

    fn new() -> Self {
        SccHash(scc::HashMap::with_hasher(FxBuildHasher))
    }

    fn session(&self) -> &Self {
        self
    }
}

impl<V: Content> Session<V> for &SccHash<V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        self.0.insert_sync(key, value).is_ok()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.0.read_sync(&key, |_, value| value.seen())
    }

    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.0.update_sync(&key, |_, old| *old = value).is_some()
    }

    fn scan(&mut self, _from: u64, _visit: impl FnMut(u64, Seen)) {}
}

pub(crate) struct Dash<V>(DashMap<u64, V, FxBuildHasher>);

impl<V: Content> Map for Dash<V> {
    type Value = V;
    type Session<'m> = &'m Self;
    const ORDERED: bool = false;

    fn new() -> Self {
        Dash(DashMap::with_hasher(FxBuildHasher))
    }

    fn session(&self) -> &Self {
        self
    }
}

impl<V: Content> Session<V> for &Dash<V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        self.0.insert(key, value).is_none()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.0.get(&key).map(|value| value.seen())
    }

    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.0.get_mut(&key).map(|mut old| *old = value).is_some()
    }

    fn scan(&mut self, _from: u64, _visit: impl FnMut(u64, Seen)) {}
}

pub(crate) struct Papaya<V>(papaya::HashMap<u64, V, FxBuildHasher>);

pub(crate) struct PapayaSession<'m, V> {
    map: papaya::HashMapRef<'m, u64, V, FxBuildHasher, papaya::LocalGuard<'m>>,
}

impl<V: Content> Map for Papaya<V> {
    type Value = V;
    type Session<'m> = PapayaSession<'m, V>;
    const ORDERED: bool = false;

    fn new() -> Self {
        Papaya(papaya::HashMap::with_hasher(FxBuildHasher))
    }

    fn session(&self) -> PapayaSession<'_, V> {
        PapayaSession { map: self.0.pin() }
    }
}

impl<V: Content> Session<V> for PapayaSession<'_, V> {
    #[inline]
    fn insert(&mut self, key: u64, value: V) -> bool {
        self.map.insert(key, value).is_none()
    }

    #[inline]
    fn get(&mut self, key: u64) -> Option<Seen> {
        self.map.get(&key).map(Content::seen)
    }

    #[inline]
    fn update(&mut self, key: u64, value: V) -> bool {
        self.map.insert(key, value).is_some()
    }

    fn scan(&mut self, _from: u64, _visit: impl FnMut(u64, Seen)) {}
}
