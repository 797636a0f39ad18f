//! Cells: the parts of a node that are written as a whole, with what shows a torn read.
//!
//! The fabric promises 8-byte words that arrive in any order. A READ beside a WRITE sees each word
//! before or after the WRITE.
//!
//! ```text
//!  Words      | 6 bytes, tag | 6 bytes, tag | ..            the same tag in each word of a cell
//!  Published  | FEV, bytes ...         .. bytes, REV |      4 bits each, at the two ends
//!  Checksum   | bytes ..                             |      one checksum for the whole node
//! ```

use latchwork_strict::strict_assert;

/// What shows that a READ of a node was torn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// A tag in each word. Right with words that arrive in any order.
    Words,
    /// Sherman's two-level versions (4.4): versions of 4 bits at the two ends of each entry and of
    /// each node. They do not show every torn read.
    Published,
    /// One checksum for a whole node, as in FG (Sherman 3.1).
    Checksum,
}

/// The versions of a cell.
///
/// `node` counts the rewritings of the node, and `entry` the writes of the cell since the last one.
/// A cell keeps the low bits only: 6 of `node` and 9 of `entry` with [`Check::Words`], 4 of `entry`
/// with [`Check::Published`], nothing with [`Check::Checksum`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Version {
    pub(crate) node: u16,
    pub(crate) entry: u16,
}

const ENTRY: u16 = (1 << 9) - 1;
/// Rewritings of a node after which its cells' tags are the same again.
pub(crate) const NODE: u16 = (1 << 6) - 1;
/// The bytes of a word beside its tag.
const CARRIED: usize = 6;
const TAG: u32 = 48;
const _: () = assert!(CARRIED * 8 == TAG as usize, "a word is its bytes and its tag");

/// A read cell whose words do not belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Torn;

/// The place of `bytes` bytes in a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    check: Check,
    bytes: usize,
}

impl Cell {
    pub(crate) const fn new(check: Check, bytes: usize) -> Cell {
        Cell { check, bytes }
    }

    /// The words of the cell.
    pub(crate) const fn words(self) -> usize {
        match self.check {
            Check::Words => self.bytes.div_ceil(CARRIED),
            Check::Published => (self.bytes + 2).div_ceil(8),
            Check::Checksum => self.bytes.div_ceil(8),
        }
    }

    /// The word and the bit of the word at which byte `at` stands.
    fn place(self, at: usize) -> (usize, u32) {
        let (word, byte) = match self.check {
            Check::Words => (at / CARRIED, at % CARRIED),
            Check::Published => ((at + 1) / 8, (at + 1) % 8),
            Check::Checksum => (at / 8, at % 8),
        };
        (word, byte as u32 * 8)
    }

    /// Writes the cell. A cell that is not `live` has no entry.
    pub(crate) fn write(self, words: &mut [u64], version: Version, live: bool, bytes: &[u8]) {
        strict_assert!(bytes.len() == self.bytes && words.len() == self.words(), "another cell");
        words.fill(0);
        for (at, &byte) in bytes.iter().enumerate() {
            let (word, bit) = self.place(at);
            words[word] |= u64::from(byte) << bit;
        }
        let Version { node, entry } = version;
        match self.check {
            Check::Words => {
                let tag = (node & NODE) << 10 | (entry & ENTRY) << 1 | u16::from(live);
                words.iter_mut().for_each(|word| *word |= u64::from(tag) << TAG);
            }
            Check::Published => {
                let version = u64::from(entry & 15);
                words[0] |= version | u64::from(live) << 4;
                words[self.words() - 1] |= version << 56;
            }
            Check::Checksum => {}
        }
    }

    /// The version of a cell, and whether it is live.
    ///
    /// # Errors
    /// [`Torn`] when the words are not all of one write.
    pub(crate) fn version(self, words: &[u64]) -> Result<(Version, bool), Torn> {
        let first = words[0];
        match self.check {
            Check::Words => {
                let differs = words.iter().fold(0, |all, word| all | (word ^ first)) >> TAG;
                let tag = (first >> TAG) as u16;
                let version = Version { node: tag >> 10, entry: tag >> 1 & ENTRY };
                if differs == 0 { Ok((version, tag & 1 == 1)) } else { Err(Torn) }
            }
            Check::Published => {
                let rear = words[self.words() - 1] >> 56 & 15;
                let version = Version { node: 0, entry: rear as u16 };
                if first & 15 == rear { Ok((version, first & 16 != 0)) } else { Err(Torn) }
            }
            Check::Checksum => Ok((Version::default(), true)),
        }
    }

    /// Copies the bytes of the cell from byte `from` on.
    pub(crate) fn read(self, words: &[u64], from: usize, to: &mut [u8]) {
        for (at, byte) in to.iter_mut().enumerate() {
            let (word, bit) = self.place(from + at);
            *byte = (words[word] >> bit) as u8;
        }
    }

    /// The words that a cell whose bytes begin with `key` begins with, as bits and their mask.
    pub(crate) fn probe(self, key: &[u8]) -> Probe {
        let mut words: smallvec::SmallVec<[(u64, u64); 4]> = smallvec::SmallVec::new();
        for (at, &byte) in key.iter().enumerate() {
            let (word, bit) = self.place(at);
            if words.len() <= word {
                words.resize(word + 1, (0, 0));
            }
            words[word].0 |= u64::from(byte) << bit;
            words[word].1 |= 0xff << bit;
        }
        Probe(words)
    }
}

/// A key as it stands in a cell.
pub(crate) struct Probe(smallvec::SmallVec<[(u64, u64); 4]>);

impl Probe {
    #[inline]
    pub(crate) fn matches(&self, words: &[u64]) -> bool {
        self.0.iter().zip(words).all(|(&(bits, mask), word)| word & mask == bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Check; 3] = [Check::Words, Check::Published, Check::Checksum];

    #[test]
    fn a_cell_gives_back_what_was_written() {
        for check in ALL {
            for len in 1..60 {
                let cell = Cell::new(check, len);
                let bytes: Vec<u8> = (0..len).map(|i| 255 - i as u8).collect();
                let mut words = vec![u64::MAX; cell.words()];
                let version = Version { node: 3, entry: 7 };
                cell.write(&mut words, version, true, &bytes);
                let mut back = vec![0; len];
                cell.read(&words, 0, &mut back);
                assert_eq!(back, bytes, "{check:?} {len}");
                let (found, live) = cell.version(&words).unwrap();
                assert!(live);
                if check == Check::Words {
                    assert_eq!(found, version);
                }
                let key = &bytes[..len.min(9)];
                assert!(cell.probe(key).matches(&words));
                let mut other = key.to_vec();
                *other.last_mut().unwrap() ^= 1;
                assert!(!cell.probe(&other).matches(&words));
            }
        }
    }

    #[test]
    fn tags_in_each_word_show_every_mixture_and_versions_at_the_ends_do_not() {
        let mut missed = 0;
        for check in [Check::Words, Check::Published] {
            let cell = Cell::new(check, 16);
            let (mut old, mut new) = (vec![0; cell.words()], vec![0; cell.words()]);
            cell.write(&mut old, Version { node: 0, entry: 1 }, true, &[1; 16]);
            cell.write(&mut new, Version { node: 0, entry: 2 }, true, &[2; 16]);
            for mix in 1..(1 << cell.words()) - 1_u32 {
                let choose = |i: usize| if mix >> i & 1 == 1 { new[i] } else { old[i] };
                let words: Vec<u64> = (0..cell.words()).map(choose).collect();
                match check {
                    Check::Words => assert_eq!(cell.version(&words), Err(Torn), "{mix:b}"),
                    _ => missed += usize::from(cell.version(&words).is_ok()),
                }
            }
        }
        // New ends around an old middle, and old ends around a new middle.
        assert_eq!(missed, 2);
    }
}
