//! Operations on one key.

use latchwork_coherence::{CoherentMemory, Need};

use super::Tree;
use super::cursor::Found;
use super::descent::{Descent, Stop};
use crate::leaf_stamp::Line;
use crate::page::{Dirty, Edit, Page, Seek};
use crate::{TreeError, TreeValue, ValueMut};

impl<M: CoherentMemory> Tree<M> {
    /// The value of `key`, if all pages on the path are cached: a plain function that seldom writes
    /// shared memory. `visit` sees the value in place, perhaps torn (see [`TreeValue`]). The result
    /// is what `visit` returned on consistent bytes.
    ///
    /// # Errors
    /// The line to [`ensure`](CoherentMemory::ensure) before the next attempt.
    /// [`get_with`](Tree::get_with) ensures the line and tries again. An invalid key yields `None`
    /// here, and a damaged page yields a need. [`get_with`](Tree::get_with) reports both as errors.
    pub fn try_get<R>(
        &self,
        key: &[u8],
        mut visit: impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<Option<R>, Need> {
        if self.limits.check_key(key).is_err() {
            return Ok(None);
        }
        match self.fast_get(key, &mut visit, |_| ()) {
            Ok((found, ())) => Ok(found),
            Err(at) => self.try_get_slow(at, key, &mut visit),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_get_slow<R>(
        &self,
        mut at: Descent,
        key: &[u8],
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<Option<R>, Need> {
        // A plain function does not enter an operation of the memory ([`CoherentMemory::enter`]),
        // because to enter may wait. An operation protects a reader from the reuse of freed lines.
        // Here this is not necessary: a page in a line that was used before has the mark *later*,
        // and is checked in full.
        self.get_step(&mut at, key, visit).map_err(|stop| match stop {
            Stop::Need(need) => need,
            Stop::Broken(addr, _) => Need { addr, mode: latchwork_coherence::AccessMode::Shared },
        })
    }

    fn get_step<R>(
        &self,
        at: &mut Descent,
        key: &[u8],
        mut visit: impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<Option<R>, Stop> {
        self.find(at, Seek::At(key), 0, |page, _| {
            Ok(page.search(key).ok().map(|slot| visit(page.value(slot))))
        })
    }

    /// The value of `key`, seen in place by `visit`. `visit` is called until it saw consistent
    /// bytes (see [`TreeValue`]).
    ///
    /// # Errors
    /// When the key is empty or too long, and when memory fails.
    pub async fn get_with<R>(
        &self,
        key: &[u8],
        mut visit: impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<Option<R>, TreeError> {
        self.limits.check_key(key)?;
        let found = match self.fast_get(key, &mut visit, |_| ()) {
            Ok((found, ())) => found,
            Err(at) => Box::pin(self.get_slow(at, key, &mut visit)).await?,
        };
        self.memory.handle().coop().await;
        Ok(found)
    }

    pub(super) async fn get_slow<R>(
        &self,
        mut at: Descent,
        key: &[u8],
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<Option<R>, TreeError> {
        if let Some((found, ())) = self.careful_get(key, visit, |_| ()) {
            return Ok(found);
        }
        let operation = self.memory.enter().await?;
        let found = self.drive(|| self.get_step(&mut at, key, &mut *visit)).await?;
        drop(operation);
        Ok(found)
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// As [`get_with`](Tree::get_with).
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        self.get_with(key, |value| value.to_vec()).await
    }

    /// Inserts a new key.
    ///
    /// # Errors
    /// [`TreeError::Exists`] when the key exists. Also when the key is empty, when key or value is
    /// too long, and when memory fails or is full.
    pub async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), TreeError> {
        self.limits.check_value(value)?;
        let new = self
            .add(
                key,
                |page, found, _| match found {
                    Ok(_) => Ok((false, Dirty::default())),
                    Err(slot) => Ok((true, self.insert_entry(page, slot, key, value)?)),
                },
                |_| (),
            )
            .await?;
        self.memory.handle().coop().await;
        if new { Ok(()) } else { Err(TreeError::Exists) }
    }

    /// Replaces the value of an existing key. A value of the same length stays in its position.
    ///
    /// # Errors
    /// [`TreeError::NotFound`] when the key does not exist; otherwise as [`upsert`](Tree::upsert).
    pub async fn update(&self, key: &[u8], value: &[u8]) -> Result<(), TreeError> {
        self.limits.check_value(value)?;
        let known = self
            .write(key, |page, found, _| match found {
                Ok(slot) => Ok((true, page.set_value(slot, value)?)),
                Err(_) => Ok((false, Dirty::default())),
            })
            .await?;
        if known { Ok(()) } else { Err(TreeError::NotFound) }
    }

    /// Sets the value of a key, new or existing. Returns whether the key is new.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert), without [`TreeError::Exists`].
    pub async fn upsert(&self, key: &[u8], value: &[u8]) -> Result<bool, TreeError> {
        self.limits.check_value(value)?;
        self.write(key, |page, found, _| match found {
            Ok(slot) => Ok((false, page.set_value(slot, value)?)),
            Err(slot) => Ok((true, self.insert_entry(page, slot, key, value)?)),
        })
        .await
    }

    /// Overwrites a part of a value in place. See [`ValueMut`] for the bytes that become dirty.
    ///
    /// # Errors
    /// [`TreeError::NotFound`] when the key does not exist, [`TreeError::OutsideValue`] when the
    /// value is too short; otherwise as [`get_with`](Tree::get_with).
    pub async fn update_range(
        &self,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), TreeError> {
        self.modify(key, |value| {
            if offset.checked_add(bytes.len()).is_none_or(|end| end > value.len()) {
                let (len, value_len) = (bytes.len(), value.len());
                return Err(TreeError::OutsideValue { offset, len, value_len });
            }
            value.write(offset, bytes);
            Ok(())
        })
        .await?
    }

    /// Reads and changes a value in place, atomically. `change` runs at most once, under the page's
    /// write guard. `change` must be short, because every access to the page waits for it.
    ///
    /// # Errors
    /// [`TreeError::NotFound`] when the key does not exist (then `change` has not run); otherwise
    /// as [`get_with`](Tree::get_with).
    pub async fn modify<R>(
        &self,
        key: &[u8],
        change: impl FnOnce(&mut ValueMut<'_>) -> R,
    ) -> Result<R, TreeError> {
        let mut change = Some(change);
        self.write(key, |page, found, _| {
            let Ok(slot) = found else { return Ok((None, Dirty::default())) };
            let mut value = ValueMut::new(page.words, page.value_range(slot)?);
            // Taken at most once: the write ends with the result of `change`.
            let result = change.take().map(|change| change(&mut value));
            Ok((result, Dirty::range(value.dirty())))
        })
        .await?
        .ok_or(TreeError::NotFound)
    }

    /// Replaces a value by the result of `change`, atomically. The length may change. `change` sees
    /// the old value under the page's write guard and leaves the new value in the buffer, which is
    /// empty at first. `change` may run several times, before and after a split. So it must have no
    /// other effect.
    ///
    /// # Errors
    /// As [`update`](Tree::update).
    pub async fn replace_with<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(TreeValue<'_>, &mut Vec<u8>) -> R,
    ) -> Result<R, TreeError> {
        let mut value = Vec::new();
        self.write(key, |page, found, _| {
            let Ok(slot) = found else {
                return Ok((Err(TreeError::NotFound), Dirty::default()));
            };
            value.clear();
            let result = change(page.value(slot), &mut value);
            match self.limits.check_value(&value) {
                Ok(()) => Ok((Ok(result), page.set_value(slot, &value)?)),
                Err(error) => Ok((Err(error), Dirty::default())),
            }
        })
        .await?
    }

    /// Removes a key. Returns whether the key existed.
    ///
    /// A leaf that becomes empty leaves the tree, and its line is freed. Leaves are not merged
    /// otherwise. If this future is dropped after the removal, the empty leaf may stay. A later
    /// scan that passes it leaves a note, and the next removal of this handle takes it out.
    ///
    /// # Errors
    /// As [`get_with`](Tree::get_with).
    pub async fn remove(&self, key: &[u8]) -> Result<bool, TreeError> {
        let remove = |page: &Page<'_>, found: Found, _: Line<'_>| match found {
            Ok(slot) => Ok((Some(page.header.count()), page.remove(slot)?)),
            Err(_) => Ok((None, Dirty::default())),
        };
        let count = self.write(key, remove).await?;
        self.after_removal(key, count).await;
        Ok(count.is_some())
    }

    pub(super) fn insert_entry(
        &self,
        page: &Page<'_>,
        slot: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<Dirty, Edit> {
        if page.header.count() >= self.config.max_entries(0) {
            return Err(Edit::Full);
        }
        page.insert(slot, key, value)
    }
}
