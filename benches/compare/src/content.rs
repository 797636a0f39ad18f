//! Keys and values with contents that allow a check of every answer without a second copy of the
//! data.

/// The `i`-th inserted key: all differ, and they are in random order (the finaliser of splitmix64,
/// which is a bijection).
#[inline]
pub(crate) fn key(i: u64) -> u64 {
    let x = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The result of reading a value. The sum covers all its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) first: u64,
    pub(crate) sum: u64,
}

/// A value. Its first word is made from the key and a version of 16 bits, and all other bytes from
/// that word. So a torn value has a wrong sum.
pub(crate) trait Content: Copy + Send + Sync + 'static {
    /// Bytes of a value.
    const LEN: usize;
    /// The value as bytes.
    type Bytes: AsRef<[u8]>;

    fn of_word(word: u64) -> Self;
    fn bytes(&self) -> Self::Bytes;
    /// Reads all bytes.
    fn seen(&self) -> Seen;
    /// As [`seen`](Content::seen), for a value in a page of our tree.
    fn seen_in_page(value: latchwork_blink::TreeValue<'_>) -> Seen;
    /// As [`seen`](Content::seen), for a value that was copied out as bytes; `None` if the length
    /// is wrong.
    fn seen_in_bytes(bytes: &[u8]) -> Option<Seen>;
    /// The sum of [`seen`](Content::seen) for a value with the first word `word`.
    fn sum_of(word: u64) -> u64;

    #[inline]
    fn new(key: u64, version: u16) -> Self {
        Self::of_word(word_of(key) | u64::from(version))
    }

    /// Whether `seen` is a value of `key`, in any version.
    #[inline]
    fn is_of(key: u64, seen: Seen) -> bool {
        seen.first & !0xffff == word_of(key) && seen.sum == Self::sum_of(seen.first)
    }
}

#[inline]
fn word_of(key: u64) -> u64 {
    (key.rotate_left(23) ^ 0x5bd1_e995_7b93_01c9) & !0xffff
}

impl Content for u64 {
    const LEN: usize = 8;
    type Bytes = [u8; 8];

    #[inline]
    fn of_word(word: u64) -> u64 {
        word
    }

    #[inline]
    fn bytes(&self) -> [u8; 8] {
        self.to_le_bytes()
    }

    #[inline]
    fn seen(&self) -> Seen {
        Seen { first: *self, sum: *self }
    }

    #[inline]
    fn seen_in_page(value: latchwork_blink::TreeValue<'_>) -> Seen {
        value.u64(0).seen()
    }

    #[inline]
    fn seen_in_bytes(bytes: &[u8]) -> Option<Seen> {
        bytes.try_into().ok().map(|bytes| u64::from_le_bytes(bytes).seen())
    }

    #[inline]
    fn sum_of(word: u64) -> u64 {
        word
    }
}

/// Words in a [`Wide`]; four bytes follow.
pub(crate) const WIDE_WORDS: usize = 12;

/// 100 bytes: the word twelve times, then its low half.
#[derive(Clone, Copy)]
pub(crate) struct Wide([u8; 100]);

impl Content for Wide {
    const LEN: usize = 100;
    type Bytes = [u8; 100];

    #[inline]
    fn of_word(word: u64) -> Wide {
        let mut bytes = [0; 100];
        let (words, _) = bytes.as_chunks_mut::<8>();
        words.fill(word.to_le_bytes());
        bytes[8 * WIDE_WORDS..].copy_from_slice(&(word as u32).to_le_bytes());
        Wide(bytes)
    }

    #[inline]
    fn bytes(&self) -> [u8; 100] {
        self.0
    }

    #[inline]
    fn seen(&self) -> Seen {
        let (words, tail) = self.0.as_chunks::<8>();
        let sum = words.iter().map(|word| u64::from_le_bytes(*word)).fold(0, u64::wrapping_add);
        let tail = tail.first_chunk().map_or(0, |tail| u32::from_le_bytes(*tail));
        Seen { first: u64::from_le_bytes(words[0]), sum: sum.wrapping_add(u64::from(tail)) }
    }

    #[inline]
    fn seen_in_page(value: latchwork_blink::TreeValue<'_>) -> Seen {
        let mut bytes = [0; 100];
        value.read(0, &mut bytes);
        Wide(bytes).seen()
    }

    #[inline]
    fn seen_in_bytes(bytes: &[u8]) -> Option<Seen> {
        bytes.try_into().ok().map(|bytes| Wide(bytes).seen())
    }

    #[inline]
    fn sum_of(word: u64) -> u64 {
        word.wrapping_mul(WIDE_WORDS as u64).wrapping_add(u64::from(word as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds<V: Content>() {
        let (one, other) = (key(1), key(2));
        for version in [0, 1, u16::MAX] {
            assert!(V::is_of(one, V::new(one, version).seen()));
            assert!(!V::is_of(other, V::new(one, version).seen()));
        }
        assert_eq!(V::new(one, 3).bytes().as_ref().len(), V::LEN);
    }

    #[test]
    fn a_value_is_known_by_its_key_in_every_version() {
        holds::<u64>();
        holds::<Wide>();
    }

    #[test]
    fn a_torn_value_is_noticed_wherever_it_is_torn() {
        let (old, new) = (Wide::new(key(7), 4), Wide::new(key(7), 5));
        for at in 1..100 {
            let mut torn = old;
            torn.0[at..].copy_from_slice(&new.0[at..]);
            // The versions differ in only one byte of eight, so only there a value can be torn.
            let differs = torn.0 != old.0 && torn.0 != new.0;
            assert_eq!(Wide::is_of(key(7), torn.seen()), !differs, "torn at {at}");
        }
    }
}
