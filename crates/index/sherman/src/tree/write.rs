//! The usual operations on single keys, as changes.

use super::{Change, Tree};
use crate::ShermanError;

impl Tree {
    /// Stores a value. Returns whether the key was new.
    ///
    /// # Errors
    /// As [`change`](Tree::change).
    pub async fn upsert(&self, key: &[u8], value: &[u8]) -> Result<bool, ShermanError> {
        self.check_value(value)?;
        let put = |old: Option<&[u8]>, new: &mut Vec<u8>| {
            new.extend_from_slice(value);
            (Change::Put, old.is_none())
        };
        self.change(key, put).await
    }

    /// Stores the value of a new key.
    ///
    /// # Errors
    /// [`ShermanError::Exists`], and as [`change`](Tree::change).
    pub async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), ShermanError> {
        self.check_value(value)?;
        let put = |old: Option<&[u8]>, new: &mut Vec<u8>| {
            if old.is_some() {
                return (Change::Keep, Err(ShermanError::Exists));
            }
            new.extend_from_slice(value);
            (Change::Put, Ok(()))
        };
        self.change(key, put).await?
    }

    /// Overwrites the value of a key.
    ///
    /// # Errors
    /// [`ShermanError::NotFound`], and as [`change`](Tree::change).
    pub async fn update(&self, key: &[u8], value: &[u8]) -> Result<(), ShermanError> {
        self.check_value(value)?;
        self.replace_with(key, |_, new| new.extend_from_slice(value)).await
    }

    /// Overwrites the bytes of a key's value from `offset` on.
    ///
    /// # Errors
    /// [`ShermanError::NotFound`], [`ShermanError::OutsideValue`], and as [`change`](Tree::change).
    pub async fn update_range(
        &self,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), ShermanError> {
        let (len, value_len) = (bytes.len(), self.0.layout.value_len);
        let inside = offset.checked_add(len).is_some_and(|end| end <= value_len);
        let put = |old: Option<&[u8]>, new: &mut Vec<u8>| match old {
            None => (Change::Keep, Err(ShermanError::NotFound)),
            Some(_) if !inside => {
                (Change::Keep, Err(ShermanError::OutsideValue { offset, len, value_len }))
            }
            Some(old) => {
                new.extend_from_slice(old);
                new[offset..offset + len].copy_from_slice(bytes);
                (Change::Put, Ok(()))
            }
        };
        self.change(key, put).await?
    }

    /// Computes the new value of a key from the old one, in one step.
    ///
    /// # Errors
    /// [`ShermanError::NotFound`], and as [`change`](Tree::change).
    pub async fn replace_with<R>(
        &self,
        key: &[u8],
        mut replace: impl FnMut(&[u8], &mut Vec<u8>) -> R,
    ) -> Result<R, ShermanError> {
        let put = |old: Option<&[u8]>, new: &mut Vec<u8>| match old {
            Some(old) => (Change::Put, Ok(replace(old, new))),
            None => (Change::Keep, Err(ShermanError::NotFound)),
        };
        self.change(key, put).await?
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// # Errors
    /// As [`change`](Tree::change).
    pub async fn remove(&self, key: &[u8]) -> Result<bool, ShermanError> {
        self.change(key, |old, _| (Change::Remove, old.is_some())).await
    }

    fn check_value(&self, value: &[u8]) -> Result<(), ShermanError> {
        let expected = self.0.layout.value_len;
        if value.len() == expected {
            Ok(())
        } else {
            Err(ShermanError::Value { len: value.len(), expected })
        }
    }
}
