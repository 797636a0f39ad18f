//! The contents of an item. From the contents, a reader recognises the write that left them.
//!
//! ```text
//!   word 0   stamp 40 | check 24     check: a hash of the item's number and the stamp
//!   word k   a hash of word 0 and k
//! ```
//!
//! All words follow from the stamp and the item's number. So a check detects contents of two
//! writes, contents of another item, and contents that no write left. Word 0 passes such a check by
//! chance with probability 2^-24. Lost and stale writes show in the stamps.

use crate::hash::{GOLDEN, mix};

/// An item, counted through all lines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemNumber(pub u64);

/// The stamp of an item, below 2^40. For [`WriteKind::Locked`](super::WriteKind::Locked) the stamp
/// is the number of the item's writes. For blind writes, the writer chooses the stamp.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ItemTag(pub u64);

impl ItemTag {
    /// The largest stamp.
    pub const MAX: ItemTag = ItemTag((1 << 40) - 1);
}

/// The error for contents of an item that no single write left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Garbage {
    /// The item.
    pub item: ItemNumber,
    /// The item's first wrong word.
    pub word: usize,
}

/// Items of a fixed number of 8-byte words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemLayout {
    words: usize,
}

impl ItemLayout {
    /// The layout of items of `bytes` bytes. `None` unless `bytes` is a multiple of 8 above 0.
    pub fn new(bytes: usize) -> Option<ItemLayout> {
        (bytes > 0 && bytes.is_multiple_of(8)).then_some(ItemLayout { words: bytes / 8 })
    }

    /// Bytes of an item.
    pub fn bytes(&self) -> usize {
        self.words * 8
    }

    /// Calls `set` with the index and the value of each word of the item. `stamp` is at most
    /// [`ItemTag::MAX`].
    #[inline]
    pub fn write(&self, item: ItemNumber, stamp: ItemTag, mut set: impl FnMut(usize, u64)) {
        let first = first_word(item, stamp);
        set(0, first);
        for at in 1..self.words {
            set(at, word(first, at));
        }
    }

    /// The stamp of the item with the words that `get` returns.
    ///
    /// # Errors
    ///
    /// [`Garbage`] when no single write of this item left these words.
    #[inline]
    pub fn read(
        &self,
        item: ItemNumber,
        mut get: impl FnMut(usize) -> u64,
    ) -> Result<ItemTag, Garbage> {
        let first = get(0);
        let stamp = ItemTag(first >> 24);
        if first != first_word(item, stamp) {
            return Err(Garbage { item, word: 0 });
        }
        match (1..self.words).find(|at| get(*at) != word(first, *at)) {
            Some(word) => Err(Garbage { item, word }),
            None => Ok(stamp),
        }
    }
}

#[inline]
fn first_word(item: ItemNumber, stamp: ItemTag) -> u64 {
    (stamp.0 << 24) | (mix(mix(item.0 ^ GOLDEN) ^ stamp.0) >> 40)
}

#[inline]
fn word(first: u64, at: usize) -> u64 {
    mix(first.wrapping_add((at as u64).wrapping_mul(GOLDEN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_comes_back_and_every_other_word_is_noticed() {
        let layout = ItemLayout::new(32).unwrap();
        let mut words = [0; 4];
        layout.write(ItemNumber(7), ItemTag(12), |at, word| words[at] = word);
        assert_eq!(layout.read(ItemNumber(7), |at| words[at]), Ok(ItemTag(12)));
        assert!(layout.read(ItemNumber(8), |at| words[at]).is_err(), "another item's");
        let mut newer = [0; 4];
        layout.write(ItemNumber(7), ItemTag(13), |at, word| newer[at] = word);
        for torn in 1..4 {
            let get = |at: usize| if at < torn { newer[at] } else { words[at] };
            assert_eq!(
                layout.read(ItemNumber(7), get),
                Err(Garbage { item: ItemNumber(7), word: torn })
            );
        }
        assert!(layout.read(ItemNumber(7), |_| 0).is_err(), "never written");
    }

    #[test]
    fn items_are_whole_words() {
        assert_eq!(ItemLayout::new(8).map(|layout| layout.bytes()), Some(8));
        assert!(ItemLayout::new(0).is_none() && ItemLayout::new(12).is_none());
        let layout = ItemLayout::new(8).unwrap();
        let mut only = 0;
        layout.write(ItemNumber(0), ItemTag::MAX, |_, word| only = word);
        assert_eq!(layout.read(ItemNumber(0), |_| only), Ok(ItemTag::MAX));
    }
}
