//! How long keys and values may be, and how far pages may fill.

use crate::TreeError;
use crate::page::{HEADER, SLOT};
use crate::stamp::STAMP;

/// The longest key of any tree, in bytes.
pub const KEY_MAX: usize = 512;

/// The longest key and value that a tree accepts, in bytes; they follow from the line size.
///
/// A value may take a quarter of a line. A key may take [`KEY_MAX`] bytes, but never so many that a
/// page could not hold its two fences and two of the largest entries: a page with fewer could be
/// full and yet impossible to split. (Inner pages, whose values are 8 bytes, then hold at least
/// three children.)
///
/// | line | longest value | longest key | with stamps |
/// | --- | --- | --- | --- |
/// | 512 | 128 | 40 | 32 |
/// | 1024 | 256 | 104 | 96 |
/// | 2048 | 512 | 232 | 224 |
/// | 4096 | 1024 | 488 | 480 |
/// | 8192 and more | a quarter | 512 | 512 |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest key.
    pub key_max: usize,
    /// The longest value.
    pub value_max: usize,
}

impl Limits {
    /// The limits of trees without stamps, for lines with `payload` bytes for their user.
    ///
    /// # Errors
    /// [`TreeError::LineTooSmall`] when not even keys of 8 bytes would be possible.
    pub fn for_payload(payload: usize) -> Result<Limits, TreeError> {
        // The line is a power of two, of which its owner keeps a small header.
        let value_max = payload.next_power_of_two() / 4;
        // Two fences of K bytes, and two entries of a slotted page, which takes more than a fixed
        // one: a head and a cell, V bytes of value, and K - 8 bytes of key besides its head. That
        // makes 4 K + 2 (SLOT + V - 8) bytes, all multiples of 8.
        let left = payload.saturating_sub(HEADER + 2 * (SLOT + value_max - 8));
        let key_max = (left / 4 / 8 * 8).min(KEY_MAX);
        if key_max < 8 || payload > usize::from(u16::MAX) || !payload.is_multiple_of(8) {
            return Err(TreeError::LineTooSmall { payload });
        }
        Ok(Limits { key_max, value_max })
    }

    /// The limits of trees [with stamps](TreeConfig::stamped), for such lines.
    ///
    /// # Errors
    /// As [`for_payload`](Limits::for_payload).
    pub fn with_stamps(payload: usize) -> Result<Limits, TreeError> {
        let limits = Limits::for_payload(payload.saturating_sub(STAMP));
        limits.map_err(|_| TreeError::LineTooSmall { payload })
    }

    /// Whether a key can be in such a tree.
    ///
    /// # Errors
    /// [`TreeError::KeyEmpty`], [`TreeError::KeyTooLong`].
    pub fn check_key(&self, key: &[u8]) -> Result<(), TreeError> {
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

/// How a tree is made, and how a handle on it behaves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TreeConfig {
    /// Each leaf carries a [`Stamp`](crate::Stamp), for transactions: the operations whose names
    /// end in `_seen`, and [`still`](crate::Tree::still) and
    /// [`raise_read`](crate::Tree::raise_read). All handles on a tree agree on this; it takes 24
    /// bytes a page. In what follows they may differ.
    pub stamped: bool,
    /// Split a leaf instead of letting it hold more entries; at least 2. `None`: only bytes count.
    pub max_entries_leaf: Option<u16>,
    /// Split an inner page instead of letting it hold more children; at least 3. `None`: only bytes
    /// count.
    pub max_entries_inner: Option<u16>,
}

impl TreeConfig {
    /// The limits of a tree in lines with `payload` bytes for their user.
    pub(crate) fn limits(&self, payload: usize) -> Result<Limits, TreeError> {
        if self.stamped { Limits::with_stamps(payload) } else { Limits::for_payload(payload) }
    }

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
            (512, 128, 40, 32),
            (1024, 256, 104, 96),
            (2048, 512, 232, 224),
            (4096, 1024, 488, 480),
            (8192, 2048, 512, 512),
            (65536, 16384, 512, 512),
        ];
        for (line, value_max, key_max, stamped) in table {
            let payload = line - 32;
            assert_eq!(Limits::for_payload(payload).ok(), Some(Limits { key_max, value_max }));
            let limits = Limits { key_max: stamped, value_max };
            assert_eq!(Limits::with_stamps(payload).ok(), Some(limits));
        }
        assert!(Limits::for_payload(96).is_err());
        let error = Limits::with_stamps(96).unwrap_err();
        assert!(matches!(error, TreeError::LineTooSmall { payload: 96 }));
    }
}
