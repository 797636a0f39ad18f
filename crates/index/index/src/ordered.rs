//! [`OrderedIndex`].

use std::ops::{Bound, ControlFlow};

use crate::{IndexError, IndexStatistics, ValueEdit, ValueView};

/// One worker's handle on an ordered index: a map of byte strings that all nodes of a cluster
/// share.
///
/// Operations on one key are linearizable. Keys order as byte strings. An index may restrict the
/// lengths of keys and values: other lengths are [refused](crate::ErrorKind::Refused).
///
/// Every operation can also end with an error of the memory or the fabric below. A call whose
/// future is dropped may have taken effect or not.
#[expect(async_fn_in_trait, reason = "its futures stay on their worker, as all here")]
pub trait OrderedIndex: 'static {
    /// The reason why an operation failed.
    type Error: IndexError;

    /// A value in its place, to read.
    type Value<'v>: ValueView;

    /// A value in its place, to change.
    type ValueMut<'v>: ValueEdit;

    /// The value of `key`, seen in place by `visit` (see [`ValueView`]).
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused).
    async fn get_with<R>(
        &self,
        key: &[u8],
        visit: impl FnMut(Self::Value<'_>) -> R,
    ) -> Result<Option<R>, Self::Error>;

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// As [`get_with`](OrderedIndex::get_with).
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
        self.get_with(key, |value| value.to_vec()).await
    }

    /// Like [`get_with`](OrderedIndex::get_with), for pages that are cached: a plain function that
    /// does not wait. The outer `None` says nothing about the key: the index cannot answer at once.
    fn try_get<R>(
        &self,
        _key: &[u8],
        _visit: impl FnMut(Self::Value<'_>) -> R,
    ) -> Option<Option<R>> {
        None
    }

    /// Inserts a new key.
    ///
    /// # Errors
    /// [`Exists`](crate::ErrorKind::Exists), [`Refused`](crate::ErrorKind::Refused) and
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory).
    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Replaces the value of an existing key.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), [`Refused`](crate::ErrorKind::Refused) and
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory).
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Sets the value of a key, new or existing. Returns whether the key is new.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) and [`OutOfMemory`](crate::ErrorKind::OutOfMemory).
    async fn upsert(&self, key: &[u8], value: &[u8]) -> Result<bool, Self::Error>;

    /// Overwrites a part of a value.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), [`OutsideValue`](crate::ErrorKind::OutsideValue)
    /// and [`Refused`](crate::ErrorKind::Refused).
    async fn update_range(
        &self,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Self::Error>;

    /// Reads and changes a value in place, atomically. `change` runs at most once, and others may
    /// wait for its end. So it must be short.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), and `change` has not run;
    /// [`Refused`](crate::ErrorKind::Refused).
    async fn modify<R>(
        &self,
        key: &[u8],
        change: impl FnOnce(&mut Self::ValueMut<'_>) -> R,
    ) -> Result<R, Self::Error>;

    /// Replaces a value by the one that `change` leaves in its buffer, atomically. The buffer is
    /// empty at first. `change` may run several times, so it must have no other effect.
    ///
    /// # Errors
    /// As [`update`](OrderedIndex::update).
    async fn replace_with<R>(
        &self,
        key: &[u8],
        change: impl FnMut(Self::Value<'_>, &mut Vec<u8>) -> R,
    ) -> Result<R, Self::Error>;

    /// Removes a key. Returns whether the key existed.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused).
    async fn remove(&self, key: &[u8]) -> Result<bool, Self::Error>;

    /// Shows at most `limit` entries in ascending order, starting at `from`, until `visit` breaks.
    /// Returns the number of shown entries.
    ///
    /// The whole scan has no single instant. An entry that exists during the whole scan is shown
    /// exactly once, and each entry is shown with a value that it had during the scan.
    ///
    /// # Errors
    /// Those of the memory below.
    async fn scan_up(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, Self::Error>;

    /// Like [`scan_up`](OrderedIndex::scan_up), in descending order. `None`: the index does not
    /// scan downwards, and nothing was shown.
    ///
    /// # Errors
    /// As [`scan_up`](OrderedIndex::scan_up).
    async fn scan_down(
        &self,
        _from: Bound<&[u8]>,
        _limit: usize,
        _visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<usize>, Self::Error> {
        Ok(None)
    }

    /// Fills an empty index from entries in strictly ascending order. Returns the number of
    /// entries. `fill` is the share of each page to use, from 0.1 to 1. No other operation should
    /// insert during the load.
    ///
    /// # Errors
    /// [`NotEmpty`](crate::ErrorKind::NotEmpty), [`Unsorted`](crate::ErrorKind::Unsorted),
    /// [`Refused`](crate::ErrorKind::Refused) and [`OutOfMemory`](crate::ErrorKind::OutOfMemory).
    async fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: f64,
    ) -> Result<u64, Self::Error>;

    /// Walks the whole index and checks it. Meant for an index without writers.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) with the first fault.
    async fn validate(&self) -> Result<IndexStatistics, Self::Error>;
}
