//! [`Order`]: fast sorts of items by keys of 64 bits.

use std::ops::Range;

/// The order of items that stay where they are.
pub(crate) struct Order {
    /// One word for each item: the number of the item in the low bits, and above them as much of
    /// its last key as has room. So a sort compares and moves single words.
    words: Vec<u64>,
    number_bits: u32,
    /// The keys of a sort. It is kept for its memory.
    keys: Vec<u64>,
}

impl Order {
    /// The items in the order of their numbers.
    pub(crate) fn of(count: usize) -> Order {
        let number_bits = usize::BITS - count.leading_zeros();
        Order { words: (0..count as u64).collect(), number_bits, keys: Vec::new() }
    }

    /// The numbers of the items from `range.start` on.
    pub(crate) fn numbers(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = usize> {
        let mask = (1 << self.number_bits) - 1;
        self.words[range].iter().map(move |word| (word & mask) as usize)
    }

    /// Sorts a part by the keys of the items, and those with equal keys by their numbers.
    pub(crate) fn sort(&mut self, part: Range<usize>, key: impl Fn(usize) -> u64) {
        let bits = self.number_bits;
        let mask = (1 << bits) - 1;
        let words = &mut self.words[part];
        self.keys.clear();
        self.keys.extend(words.iter().map(|word| key((word & mask) as usize)));
        let least = self.keys.iter().copied().min().unwrap_or(0);
        let most = self.keys.iter().copied().max().unwrap_or(0);
        let shift = (bits + u64::BITS - (most - least).leading_zeros()).saturating_sub(u64::BITS);
        for (word, key) in words.iter_mut().zip(&self.keys) {
            *word = (key - least) >> shift << bits | *word & mask;
        }
        words.sort_unstable();
        if shift == 0 {
            return;
        }
        // The bits that had no room decide between the few items whose other bits are equal.
        for equal in words.chunk_by_mut(|a, b| a >> bits == b >> bits) {
            if equal.len() > 1 {
                equal.sort_unstable_by_key(|word| (key((word & mask) as usize), *word));
            }
        }
    }
}

/// A key in the order of `f64::total_cmp`.
pub(crate) fn ordered(at: f64) -> u64 {
    let bits = at.to_bits();
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_exact_though_words_hold_only_a_part_of_their_keys() {
        // The keys differ in their highest and in their lowest bits.
        let numbers = [-1e300, 1.0, 1.0 + f64::EPSILON, 1.0, 0.0, -0.5, 1e300, 1.0 - f64::EPSILON];
        let mut order = Order::of(numbers.len());
        order.sort(0..numbers.len(), |number| ordered(numbers[number]));
        let sorted: Vec<usize> = order.numbers(0..numbers.len()).collect();
        assert_eq!(sorted, [0, 5, 4, 7, 1, 3, 2, 6]);
        order.sort(2..6, |number| u64::MAX - number as u64);
        let sorted: Vec<usize> = order.numbers(0..numbers.len()).collect();
        assert_eq!(sorted, [0, 5, 7, 4, 3, 1, 2, 6]);
    }
}
