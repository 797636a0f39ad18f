//! Keys: the byte strings under which records are in the store.

use std::fmt;

use crate::hash::ycsb_hash;

/// The longest key of any format, in bytes.
pub(crate) const KEY_LEN_MAX: usize = 512;

/// The maximum number of digits to which a key can be padded.
pub(crate) const ZERO_PADDING_MAX: usize = KEY_LEN_MAX - PREFIX.len();

const PREFIX: &[u8; 4] = b"user";

/// The maximum number of decimal digits of a 64-bit number.
const DIGITS_MAX: usize = 20;

/// The number of a record in the order of insertion, from 0.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct RecordNumber(pub u64);

impl fmt::Display for RecordNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The relation between record numbers and keys, and so the key order in which records are
/// inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InsertOrder {
    /// A key is the hash of the record number, so consecutive inserts are far apart in the key
    /// order.
    #[default]
    Hashed,
    /// A key is the record number. Keys sort like the numbers only with enough zero padding.
    Ordered,
}

/// How a key stands for its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyEncoding {
    /// `user` and the decimal digits, as in YCSB.
    #[default]
    Decimal,
    /// The number as 8 bytes, the most significant first.
    Binary,
}

/// The format of keys: by default `user` and the digits of a number, as in YCSB.
///
/// ```
/// use latchwork_workload::ycsb::{InsertOrder, KeyBuffer, KeyEncoding, KeyFormat, RecordNumber};
///
/// let mut buffer = KeyBuffer::new();
/// let hashed = KeyFormat { zero_padding: 1, ..KeyFormat::default() };
/// assert_eq!(hashed.write(RecordNumber(0), &mut buffer), b"user6284781860667377211");
/// let ordered = KeyFormat { order: InsertOrder::Ordered, zero_padding: 8, ..hashed };
/// assert_eq!(ordered.write(RecordNumber(5), &mut buffer), b"user00000005");
/// let binary = KeyFormat { encoding: KeyEncoding::Binary, ..ordered };
/// assert_eq!(binary.write(RecordNumber(5), &mut buffer), [0, 0, 0, 0, 0, 0, 0, 5]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyFormat {
    /// Decimal digits or bytes.
    pub encoding: KeyEncoding,
    /// Hashes or plain numbers.
    pub order: InsertOrder,
    /// Decimal numbers are padded with zeros to this many digits. The maximum is 508.
    pub zero_padding: usize,
}

impl KeyFormat {
    /// Writes the key of a record into the buffer and returns it. Does not allocate.
    #[inline]
    pub fn write<'a>(&self, record: RecordNumber, buffer: &'a mut KeyBuffer) -> &'a [u8] {
        let mut number = match self.order {
            InsertOrder::Hashed => ycsb_hash(record.0),
            InsertOrder::Ordered => record.0,
        };
        if self.encoding == KeyEncoding::Binary {
            let key = &mut buffer.bytes[..size_of::<u64>()];
            key.copy_from_slice(&number.to_be_bytes());
            return key;
        }
        let mut digits = [b'0'; DIGITS_MAX];
        let mut first = DIGITS_MAX;
        // Two digits per step halve the number of 64-bit divisions.
        while number >= 10 {
            let pair = (number % 100) as u8;
            number /= 100;
            first -= 2;
            digits[first] = b'0' + pair / 10;
            digits[first + 1] = b'0' + pair % 10;
        }
        if number > 0 || first == DIGITS_MAX {
            first -= 1;
            digits[first] = b'0' + number as u8;
        }
        let digits = &digits[first..];
        let padded = self.zero_padding.min(ZERO_PADDING_MAX).max(digits.len());
        let len = PREFIX.len() + padded;
        let key = &mut buffer.bytes[..len];
        let (prefix, rest) = key.split_at_mut(PREFIX.len());
        let (padding, number) = rest.split_at_mut(padded - digits.len());
        prefix.copy_from_slice(PREFIX);
        padding.fill(b'0');
        number.copy_from_slice(digits);
        key
    }

    /// The longest key that this format writes, in bytes.
    pub fn len_max(&self) -> usize {
        match self.encoding {
            KeyEncoding::Decimal => {
                PREFIX.len() + self.zero_padding.clamp(DIGITS_MAX, ZERO_PADDING_MAX)
            }
            KeyEncoding::Binary => size_of::<u64>(),
        }
    }

    /// Keys that cut the space of this format's keys into parts, about evenly for hashed keys. Each
    /// is the first key of a part, and the first one is empty.
    pub fn cuts(&self) -> Vec<Vec<u8>> {
        let cuts: Vec<Vec<u8>> = match self.encoding {
            KeyEncoding::Decimal => {
                (b'0'..=b':').map(|digit| [&PREFIX[..], &[digit]].concat()).collect()
            }
            KeyEncoding::Binary => (1..16).map(|part: u8| vec![part << 4]).collect(),
        };
        std::iter::once(Vec::new()).chain(cuts).collect()
    }
}

/// A reusable buffer for the longest key.
#[derive(Clone, Debug)]
pub struct KeyBuffer {
    bytes: [u8; KEY_LEN_MAX],
}

impl KeyBuffer {
    /// An empty buffer.
    pub fn new() -> KeyBuffer {
        KeyBuffer { bytes: [0; KEY_LEN_MAX] }
    }
}

impl Default for KeyBuffer {
    fn default() -> KeyBuffer {
        KeyBuffer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(order: InsertOrder, zero_padding: usize, number: u64) -> String {
        let mut buffer = KeyBuffer::new();
        let format = KeyFormat { order, zero_padding, ..KeyFormat::default() };
        let key = format.write(RecordNumber(number), &mut buffer);
        assert!(key.len() <= format.len_max());
        String::from_utf8(key.to_vec()).unwrap()
    }

    #[test]
    fn keys_are_those_that_ycsb_writes() {
        assert_eq!(key(InsertOrder::Hashed, 1, 1), "user8517097267634966620");
        assert_eq!(key(InsertOrder::Ordered, 1, 0), "user0");
        assert_eq!(key(InsertOrder::Ordered, 1, 1234), "user1234");
        assert_eq!(key(InsertOrder::Ordered, 0, 7), "user7");
        for number in [9, 10, 11, 99, 100, 101, 909, 1000, 10_000_000_000] {
            assert_eq!(key(InsertOrder::Ordered, 0, number), format!("user{number}"));
        }
        assert_eq!(key(InsertOrder::Ordered, 6, 1234), "user001234");
        assert_eq!(key(InsertOrder::Ordered, 3, u64::MAX), "user18446744073709551615");
    }

    #[test]
    fn each_key_is_in_one_part_and_no_part_of_hashed_keys_has_more_than_two_thirds() {
        for encoding in [KeyEncoding::Decimal, KeyEncoding::Binary] {
            let format = KeyFormat { encoding, ..KeyFormat::default() };
            let cuts = format.cuts();
            assert!(cuts.is_sorted() && cuts[0].is_empty());
            let mut seen = vec![0; cuts.len()];
            let mut buffer = KeyBuffer::new();
            for number in 0..1000 {
                let key = format.write(RecordNumber(number), &mut buffer);
                seen[cuts.partition_point(|cut| cut.as_slice() <= key) - 1] += 1;
            }
            assert!(seen.iter().all(|seen| *seen < 667), "{encoding:?}: {seen:?}");
        }
    }

    #[test]
    fn the_widest_padding_fills_the_longest_key() {
        let widest = key(InsertOrder::Ordered, usize::MAX, 9);
        assert_eq!(widest.len(), KEY_LEN_MAX);
        assert!(widest.starts_with("user00") && widest.ends_with("0009"));
    }

    #[test]
    fn a_buffer_keeps_nothing_of_an_earlier_key() {
        let mut buffer = KeyBuffer::new();
        let order = InsertOrder::Ordered;
        let format = |zero_padding| KeyFormat { order, zero_padding, ..KeyFormat::default() };
        format(12).write(RecordNumber(999_999_999_999), &mut buffer);
        assert_eq!(format(1).write(RecordNumber(3), &mut buffer), b"user3");
        assert_eq!(format(5).write(RecordNumber(3), &mut buffer), b"user00003");
    }
}
