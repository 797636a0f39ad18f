//! The tree as an [`OrderedIndex`].

use std::ops::{Bound, ControlFlow};

use latchwork_index::{ErrorKind, IndexError, IndexStatistics, OrderedIndex};
use latchwork_memnode::PoolError;

use super::{Change, Statistics, Tree};
use crate::ShermanError;
use crate::node::Entry;

impl OrderedIndex for Tree {
    type Error = ShermanError;
    type Value<'v> = &'v [u8];
    type ValueMut<'v> = &'v mut [u8];

    async fn get_with<R>(
        &self,
        key: &[u8],
        mut visit: impl FnMut(&[u8]) -> R,
    ) -> Result<Option<R>, ShermanError> {
        let mut value = Vec::new();
        Ok(self.get(key, &mut value).await?.then(|| visit(&value)))
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShermanError> {
        let mut value = Vec::new();
        Ok(self.get(key, &mut value).await?.then_some(value))
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), ShermanError> {
        self.insert(key, value).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<(), ShermanError> {
        self.update(key, value).await
    }

    async fn upsert(&self, key: &[u8], value: &[u8]) -> Result<bool, ShermanError> {
        self.upsert(key, value).await
    }

    async fn update_range(
        &self,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), ShermanError> {
        self.update_range(key, offset, bytes).await
    }

    async fn modify<R>(
        &self,
        key: &[u8],
        change: impl FnOnce(&mut &mut [u8]) -> R,
    ) -> Result<R, ShermanError> {
        let mut change = Some(change);
        let modify = |old: Option<&[u8]>, new: &mut Vec<u8>| match (old, change.take()) {
            (Some(old), Some(change)) => {
                new.extend_from_slice(old);
                (Change::Put, Some(change(&mut new.as_mut_slice())))
            }
            _ => (Change::Keep, None),
        };
        self.change(key, modify).await?.ok_or(ShermanError::NotFound)
    }

    async fn replace_with<R>(
        &self,
        key: &[u8],
        change: impl FnMut(&[u8], &mut Vec<u8>) -> R,
    ) -> Result<R, ShermanError> {
        self.replace_with(key, change).await
    }

    async fn remove(&self, key: &[u8]) -> Result<bool, ShermanError> {
        self.remove(key).await
    }

    async fn scan_up(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, ShermanError> {
        // A bound may be shorter than the keys: zeros make it the least key that begins with it.
        let mut first = Entry::from_slice(match from {
            Bound::Unbounded => &[],
            Bound::Included(key) | Bound::Excluded(key) => key,
        });
        let is_excluded = matches!(from, Bound::Excluded(_));
        let excluded = is_excluded.then(|| first.clone());
        if first.len() < self.config().key_len {
            first.resize(self.config().key_len, 0);
        }
        let mut shown = 0;
        let show = |key: &[u8], value: &[u8]| {
            if excluded.as_deref() == Some(key) {
                return ControlFlow::Continue(());
            }
            if shown == limit {
                return ControlFlow::Break(());
            }
            shown += 1;
            visit(key, value)
        };
        self.scan(&first, limit.saturating_add(usize::from(is_excluded)), show).await?;
        Ok(shown)
    }

    async fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: f64,
    ) -> Result<u64, ShermanError> {
        self.bulk_load(entries, fill).await
    }

    async fn validate(&self) -> Result<IndexStatistics, ShermanError> {
        let statistics = self.validate().await?;
        Ok(statistics.of_index(self.0.layout.words as u64 * 8))
    }
}

impl Statistics {
    /// The statistics with nodes of `node` bytes. An entry has its share of a leaf's bytes.
    fn of_index(&self, node: u64) -> IndexStatistics {
        let pages = self.nodes_per_level.iter().sum();
        let leaves = self.nodes_per_level.first().copied().unwrap_or(0);
        let used = (leaves * node).checked_mul(self.entries);
        let leaf_bytes = used.map_or(0, |used| used / self.room.max(1));
        IndexStatistics {
            entries: self.entries,
            levels: self.nodes_per_level.len() as u64,
            pages,
            used_bytes: leaf_bytes + (pages - leaves) * node,
            total_bytes: pages * node,
        }
    }
}

impl IndexError for ShermanError {
    fn kind(&self) -> ErrorKind {
        match self {
            ShermanError::NotFound => ErrorKind::NotFound,
            ShermanError::Exists => ErrorKind::Exists,
            ShermanError::OutsideValue { .. } => ErrorKind::OutsideValue,
            ShermanError::Key { .. }
            | ShermanError::Value { .. }
            | ShermanError::KeyLength { .. }
            | ShermanError::ValueLength { .. }
            | ShermanError::Mismatch { .. }
            | ShermanError::NoChip { .. }
            | ShermanError::FillFactor(_) => ErrorKind::Refused,
            ShermanError::NotEmpty => ErrorKind::NotEmpty,
            ShermanError::Unsorted { .. } => ErrorKind::Unsorted,
            ShermanError::Pool(PoolError::OutOfMemory { .. }) => ErrorKind::OutOfMemory,
            ShermanError::Locked { .. } | ShermanError::Pool(PoolError::Timeout { .. }) => {
                ErrorKind::TimedOut
            }
            ShermanError::Corrupt { .. } => ErrorKind::Corrupt,
            ShermanError::Pool(_) | ShermanError::Verb(_) | ShermanError::Setup(_) => {
                ErrorKind::Failed
            }
        }
    }
}
