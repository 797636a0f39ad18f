//! The tree as an [`OrderedIndex`].

use std::ops::{Bound, ControlFlow};

use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_index::{ErrorKind, IndexError, IndexStatistics, OrderedIndex, ValueEdit, ValueView};

use super::{Tree, TreeStatistics};
use crate::{TreeError, TreeValue, ValueMut};

// Each future is that of the tree itself, so generic code runs what direct calls run.
impl<M: CoherentMemory> OrderedIndex for Tree<M> {
    type Error = TreeError;
    type Value<'v> = TreeValue<'v>;
    type ValueMut<'v> = ValueMut<'v>;

    fn get_with<R>(
        &self,
        key: &[u8],
        visit: impl FnMut(TreeValue<'_>) -> R,
    ) -> impl Future<Output = Result<Option<R>, TreeError>> {
        self.get_with(key, visit)
    }

    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Vec<u8>>, TreeError>> {
        self.get(key)
    }

    fn try_get<R>(&self, key: &[u8], visit: impl FnMut(TreeValue<'_>) -> R) -> Option<Option<R>> {
        self.try_get(key, visit).ok()
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), TreeError>> {
        self.insert(key, value)
    }

    fn update(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), TreeError>> {
        self.update(key, value)
    }

    fn upsert(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<bool, TreeError>> {
        self.upsert(key, value)
    }

    fn update_range(
        &self,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> impl Future<Output = Result<(), TreeError>> {
        self.update_range(key, offset, bytes)
    }

    fn modify<R>(
        &self,
        key: &[u8],
        change: impl FnOnce(&mut ValueMut<'_>) -> R,
    ) -> impl Future<Output = Result<R, TreeError>> {
        self.modify(key, change)
    }

    fn replace_with<R>(
        &self,
        key: &[u8],
        change: impl FnMut(TreeValue<'_>, &mut Vec<u8>) -> R,
    ) -> impl Future<Output = Result<R, TreeError>> {
        self.replace_with(key, change)
    }

    fn remove(&self, key: &[u8]) -> impl Future<Output = Result<bool, TreeError>> {
        self.remove(key)
    }

    fn scan_up(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> impl Future<Output = Result<usize, TreeError>> {
        self.scan_up(from, limit, visit)
    }

    async fn scan_down(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<usize>, TreeError> {
        self.scan_down(from, limit, visit).await.map(Some)
    }

    fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: f64,
    ) -> impl Future<Output = Result<u64, TreeError>> {
        self.bulk_load(entries, fill)
    }

    async fn validate(&self) -> Result<IndexStatistics, TreeError> {
        self.validate().await.map(IndexStatistics::from)
    }
}

impl From<TreeStatistics> for IndexStatistics {
    fn from(tree: TreeStatistics) -> IndexStatistics {
        IndexStatistics {
            entries: tree.entries,
            levels: tree.pages_per_level.len() as u64,
            pages: tree.pages(),
            used_bytes: tree.used_bytes,
            total_bytes: tree.total_bytes,
        }
    }
}

impl IndexError for TreeError {
    fn kind(&self) -> ErrorKind {
        match self {
            TreeError::NotFound => ErrorKind::NotFound,
            TreeError::Exists => ErrorKind::Exists,
            TreeError::OutsideValue { .. } => ErrorKind::OutsideValue,
            TreeError::KeyEmpty
            | TreeError::KeyTooLong { .. }
            | TreeError::ValueTooLong { .. }
            | TreeError::NotStamped
            | TreeError::FillFactor(_)
            | TreeError::LineTooSmall { .. } => ErrorKind::Refused,
            TreeError::NotEmpty | TreeError::InUse => ErrorKind::NotEmpty,
            TreeError::Unsorted { .. } => ErrorKind::Unsorted,
            TreeError::Corrupt { .. } => ErrorKind::Corrupt,
            TreeError::Starved { .. } | TreeError::Memory(MemoryError::Timeout { .. }) => {
                ErrorKind::TimedOut
            }
            TreeError::Memory(MemoryError::OutOfMemory(_)) => ErrorKind::OutOfMemory,
            TreeError::Memory(_) => ErrorKind::Failed,
        }
    }
}

impl ValueView for TreeValue<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn read(&self, offset: usize, to: &mut [u8]) {
        self.read(offset, to);
    }

    #[inline]
    fn u64(&self, offset: usize) -> u64 {
        self.u64(offset)
    }

    #[inline]
    fn to_vec(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl ValueView for ValueMut<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn read(&self, offset: usize, to: &mut [u8]) {
        self.read(offset, to);
    }

    #[inline]
    fn u64(&self, offset: usize) -> u64 {
        self.u64(offset)
    }

    #[inline]
    fn to_vec(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl ValueEdit for ValueMut<'_> {
    #[inline]
    fn write(&mut self, offset: usize, from: &[u8]) {
        self.write(offset, from);
    }
}
