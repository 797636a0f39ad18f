//! How long keys and values may be, and how far pages may fill.

use crate::TreeError;
use crate::page::{HEADER, SLOT};

/// The longest key of any tree, in bytes.
pub const KEY_MAX: usize = 512;

/// The longest key and value that a tree accepts, in bytes; they follow from the line size.
///
/// A value may take a quarter of a line. A key may take [`KEY_MAX`] bytes, but never so many that a
/// page could not hold its two fences and two of the largest entries: a page with fewer could be full
/// and yet impossible to split. (Inner pages, whose values are 8 bytes, then hold at least three
/// children.)
///
/// | line | longest value | longest key |
/// | --- | --- | --- |
/// | 512 | 128 | 40 |
/// | 1024 | 256 | 104 |
/// | 2048 | 512 | 232 |
/// | 4096 | 1024 | 488 |
/// | 8192 and more | a quarter | 512 |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest key.
    pub key_max: usize,
    /// The longest value.
    pub value_max: usize,
}

impl Limits {
    /// The limits for lines with `payload` bytes for their user.
    ///
    /// # Errors
    /// [`TreeError::LineTooSmall`] when not even keys of 8 bytes would be possible.
    pub fn for_payload(payload: usize) -> Result<Limits, TreeError> {
        // The line is a power of two, of which its owner keeps a small header.
        let value_max = payload.next_power_of_two() / 4;
        // Two fences of K bytes, and two entries of a slotted page, which takes more than a fixed one: a
        // head and a cell, V bytes of value, and K - 8 bytes of key besides its head. That makes
        // 4 K + 2 (SLOT + V - 8) bytes, all multiples of 8.
        let left = payload.saturating_sub(HEADER + 2 * (SLOT + value_max - 8));
        let key_max = (left / 4 / 8 * 8).min(KEY_MAX);
        if key_max < 8 || payload > usize::from(u16::MAX) || !payload.is_multiple_of(8) {
            return Err(TreeError::LineTooSmall { payload });
        }
        Ok(Limits { key_max, value_max })
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), TreeError> {
        if key.is_empty() {
            return Err(TreeError::KeyEmpty);
        }
        if key.len() > self.key_max {
            return Err(TreeError::KeyTooLong { len: key.len(), max: self.key_max });
        }
        Ok(())
    }

    pub(crate) fn check_value(&self, value: &[u8]) -> Result<(), TreeError> {
        if value.len() > self.value_max {
            return Err(TreeError::ValueTooLong { len: value.len(), max: self.value_max });
        }
        Ok(())
    }
}

/// How a handle on a tree behaves. Handles on one tree may differ.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TreeConfig {
    /// Split a leaf instead of letting it hold more entries; at least 2. `None`: only bytes count.
    pub max_entries_leaf: Option<u16>,
    /// Split an inner page instead of letting it hold more children; at least 3. `None`: only bytes
    /// count.
    pub max_entries_inner: Option<u16>,
}

impl TreeConfig {
    /// The most entries of a page on `level`.
    pub(crate) fn max_entries(&self, level: u8) -> usize {
        let (max, least) =
            if level == 0 { (self.max_entries_leaf, 2) } else { (self.max_entries_inner, 3) };
        max.map_or(usize::MAX, |max| usize::from(max.max(least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_table() {
        let table = [
            (512, 128, 40),
            (1024, 256, 104),
            (2048, 512, 232),
            (4096, 1024, 488),
            (8192, 2048, 512),
            (65536, 16384, 512),
        ];
        for (line, value_max, key_max) in table {
            assert_eq!(Limits::for_payload(line - 32).ok(), Some(Limits { key_max, value_max }));
        }
        assert!(Limits::for_payload(96).is_err());
    }
}
