//! Computes the room that entries will take, before their page exists.

use latchwork_strict::strict_assert;

use super::{FIXED_VALUE_MAX, HEAD, HEADER, SLOT, Shape, align, entry_size};

/// Counts the bytes of a page with given entries and any fence keys.
///
/// The prefix that the fence keys will have in common is unknown. So the count is exact for keys of
/// up to 8 bytes, and an upper bound for longer keys.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The bytes of the header, of the entries and of the low fence.
    bytes: usize,
    count: usize,
    fixed: Fixed,
}

/// Whether the page can be fixed.
#[derive(Clone, Copy, Debug)]
enum Fixed {
    /// No entry has been counted.
    Open,
    /// All values have the first length and all keys the second. The flag: no key ends in a zero
    /// byte.
    Constant(usize, usize, bool),
    /// All values have this length, and no key ends in zero.
    Derived(usize),
    /// An entry does not fit a fixed page.
    No,
}

impl Fixed {
    fn with(self, key: &[u8], value: usize) -> Fixed {
        let tells = Shape::DERIVED.holds(key);
        if key.len() > HEAD || value > FIXED_VALUE_MAX {
            return Fixed::No;
        }
        match self {
            Fixed::Open => Fixed::Constant(value, key.len(), tells),
            Fixed::Constant(values, keys, all) if values == value && keys == key.len() => {
                Fixed::Constant(values, keys, all && tells)
            }
            Fixed::Constant(values, _, true) | Fixed::Derived(values)
                if values == value && tells =>
            {
                Fixed::Derived(values)
            }
            _ => Fixed::No,
        }
    }
}

impl Tally {
    /// No entries, behind a low fence of `low` bytes.
    pub(crate) fn new(low: usize) -> Tally {
        Tally { bytes: HEADER + align(low), count: 0, fixed: Fixed::Open }
    }

    /// Counts an entry.
    pub(crate) fn push(&mut self, key: &[u8], value: usize) {
        *self = self.with(key, value);
    }

    /// The bytes of everything except the high fence, with one more entry.
    pub(crate) fn size_with(&self, key: &[u8], value: usize) -> usize {
        let with = self.with(key, value);
        strict_assert!(with.count > 0 && with.bytes >= self.bytes, "a page shrinks with an entry");
        // In a slotted page each entry also has a cell.
        if matches!(with.fixed, Fixed::No) {
            with.bytes
        } else {
            with.bytes - (SLOT - HEAD) * with.count
        }
    }

    fn with(&self, key: &[u8], value: usize) -> Tally {
        let bytes = self.bytes + SLOT + entry_size(key.len(), value);
        strict_assert!(bytes > self.bytes, "an entry takes no room");
        Tally { bytes, count: self.count + 1, fixed: self.fixed.with(key, value) }
    }
}
