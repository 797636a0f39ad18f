//! How much room entries will take, before there is a page.

use super::{FIXED_VALUE_MAX, HEAD, HEADER, SLOT, Shape, align, entry_size};

/// Counts the bytes of a page that is to hold some entries, with any fences.
///
/// The prefix that the fences will spare is not known yet, so the count is exact for keys of up to
/// 8 bytes and an upper bound for others.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Header, entries and, by `new`, the low fence.
    bytes: usize,
    count: usize,
    fixed: Fixed,
}

/// What speaks for a fixed page.
#[derive(Clone, Copy, Debug)]
enum Fixed {
    /// No entry against it.
    Open,
    /// All values have the first length and all keys the second; whether no key ends in zero.
    Constant(usize, usize, bool),
    /// All values have this length, and no key ends in zero.
    Derived(usize),
    /// Some entry does not fit.
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
    /// No entries, behind a low fence of so many bytes.
    pub(crate) fn new(low: usize) -> Tally {
        Tally { bytes: HEADER + align(low), count: 0, fixed: Fixed::Open }
    }

    /// Counts an entry.
    pub(crate) fn push(&mut self, key: &[u8], value: usize) {
        *self = self.with(key, value);
    }

    /// Bytes of all but the high fence, with one more entry.
    pub(crate) fn size_with(&self, key: &[u8], value: usize) -> usize {
        let with = self.with(key, value);
        // What a slotted page has and a fixed one has not is a cell per entry.
        if matches!(with.fixed, Fixed::No) {
            with.bytes
        } else {
            with.bytes - (SLOT - HEAD) * with.count
        }
    }

    fn with(&self, key: &[u8], value: usize) -> Tally {
        let bytes = self.bytes + SLOT + entry_size(key.len(), value);
        Tally { bytes, count: self.count + 1, fixed: self.fixed.with(key, value) }
    }
}
