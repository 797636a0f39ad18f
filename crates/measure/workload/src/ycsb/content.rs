//! The contents of a field: bytes that follow from the record's key, the field and a version. From
//! these bytes a reader recognises the field and the write, and whether all bytes come from one
//! write.
//!
//! ```text
//!   field   | version, little endian | words of a generator seeded by key, field and version |
//!             min(8, length / 2) bytes                   the rest
//! ```
//!
//! The check refuses a field that mixes bytes of two writes, because all words follow from the
//! version at the head. The check also refuses the bytes of another record or of another field. For
//! very short fields, wrong bytes can pass by chance. Fields shorter than 16 bytes keep only the
//! low bytes of the version. A field of one byte keeps no version.

use std::fmt;

use crate::hash::{GOLDEN, hash_bytes, mix};

/// Bytes that a version takes at the head of a field of at least 16 bytes.
pub const VERSION_LEN: usize = 8;

const WORD_FACTOR: u64 = 0xD6E8_FEB8_6659_FD93;

/// The number of the write that left a field. Loaded and inserted records have
/// [`ContentVersion::LOADED`].
///
/// An update takes its version from the worker's [`Versions`], so updates of a run have distinct
/// versions. A read-modify-write instead writes [`ContentVersion::next`] of the version that it
/// read. If a run has only read-modify-writes, the versions of all fields add up to the number of
/// written fields. A lost update makes the sum too small.
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
pub struct ContentVersion(u64);

impl ContentVersion {
    /// The version of a field without a write since its record was loaded or inserted.
    pub const LOADED: ContentVersion = ContentVersion(0);

    /// The version with this number.
    pub const fn new(number: u64) -> ContentVersion {
        ContentVersion(number)
    }

    /// The version's number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The version that a read-modify-write writes over this version.
    pub const fn next(self) -> ContentVersion {
        ContentVersion(self.0.wrapping_add(1))
    }
}

impl fmt::Display for ContentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A worker's supply of versions. The versions differ from the versions of all other workers of the
/// run, and of the processes that replace dead ones of the run.
///
/// ```text
///   63          48 47                   16 15      0
///   |  worker + 1  |   number of write   |    0    |   a worker of the run
///   | 1 |    epoch    | number of write  |    0    |   a worker of a process that replaces a dead one
///   63  62          40 39               16
/// ```
///
/// Read-modify-writes count in the low bits.
#[derive(Debug)]
pub struct Versions {
    next: u64,
    step: u64,
}

impl Versions {
    /// The supply of the worker with this number, from 0, counted over all compute nodes. Workers
    /// from number 32767 on can share versions with processes that replace dead ones.
    pub fn of_worker(worker: u16) -> Versions {
        // The field of the last worker overflows to 0, so its writes count from 1. Its versions
        // then differ from `LOADED`, and from 65535 read-modify-writes over `LOADED`.
        Versions { next: ((u64::from(worker) + 1) << 48).max(1 << 16), step: 1 << 16 }
    }

    /// The supply of a worker of a process that joined at this member epoch to replace a dead one.
    /// `worker` is one of `workers`, from 0. After sixteen million writes the process goes on with
    /// the versions of the next epoch. After eight million epochs, versions repeat.
    pub fn of_replacement(epoch: u64, worker: u64, workers: u64) -> Versions {
        let first = (1 << 63) | ((epoch & ((1 << 23) - 1)) << 40);
        Versions { next: first + (worker << 16), step: workers << 16 }
    }

    /// A version that no other write of the run has. After four billion writes of one worker,
    /// versions repeat.
    #[inline]
    pub fn take(&mut self) -> ContentVersion {
        let version = ContentVersion(self.next);
        self.next = self.next.wrapping_add(self.step);
        version
    }
}

/// The seed of the contents of a record's fields: a hash of the record's key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContentKey(u64);

impl ContentKey {
    /// The content key of the record with this key, as it stands in the store.
    #[inline]
    pub fn new(key: &[u8]) -> ContentKey {
        ContentKey(hash_bytes(key))
    }

    /// The hash as a number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The number of a field in its record, from 0.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct FieldIndex(pub u16);

impl fmt::Display for FieldIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of bytes that the version takes in a field of `len` bytes.
pub(super) fn version_len(len: usize) -> usize {
    VERSION_LEN.min(len / 2)
}

/// The seed of one field under one version.
#[inline]
pub(super) fn seed(key: ContentKey, field: FieldIndex, version: ContentVersion) -> u64 {
    mix(key.0 ^ mix(version.0.wrapping_add(u64::from(field.0).wrapping_mul(GOLDEN))))
}

/// The part of a version that a field of `len` bytes can keep.
fn kept(version: ContentVersion, len: usize) -> ContentVersion {
    match version_len(len) {
        VERSION_LEN => version,
        short => ContentVersion(version.0 & ((1 << (8 * short)) - 1)),
    }
}

/// The version at the head of a field.
#[inline]
pub(super) fn version_of(field: &[u8]) -> ContentVersion {
    let mut bytes = [0; VERSION_LEN];
    let len = version_len(field.len());
    bytes[..len].copy_from_slice(&field[..len]);
    ContentVersion(u64::from_le_bytes(bytes))
}

#[inline]
fn word(seed: u64, index: usize) -> [u8; 8] {
    // One multiplication suffices. With equal indices, words of different seeds differ. The shift
    // brings the high bits of the product into the low bytes.
    let x = seed.wrapping_add((index as u64 + 1).wrapping_mul(GOLDEN)).wrapping_mul(WORD_FACTOR);
    (x ^ (x >> 32)).to_le_bytes()
}

#[inline]
pub(super) fn fill(out: &mut [u8], key: ContentKey, field: FieldIndex, version: ContentVersion) {
    let version = kept(version, out.len());
    let seed = seed(key, field, version);
    let (head, body) = out.split_at_mut(version_len(out.len()));
    head.copy_from_slice(&version.0.to_le_bytes()[..head.len()]);
    let (words, tail) = body.as_chunks_mut::<8>();
    let count = words.len();
    for (index, place) in words.iter_mut().enumerate() {
        *place = word(seed, index);
    }
    tail.copy_from_slice(&word(seed, count)[..tail.len()]);
}

/// The version of a field with the bytes of exactly one write, else `None`.
#[inline]
pub(super) fn check(bytes: &[u8], key: ContentKey, field: FieldIndex) -> Option<ContentVersion> {
    let version = version_of(bytes);
    let seed = seed(key, field, version);
    let (words, tail) = bytes[version_len(bytes.len())..].as_chunks::<8>();
    let mut differs = false;
    for (index, found) in words.iter().enumerate() {
        differs |= *found != word(seed, index);
    }
    differs |= tail != &word(seed, words.len())[..tail.len()];
    (!differs).then_some(version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KEY: ContentKey = ContentKey(99);
    const FIELD: FieldIndex = FieldIndex(3);

    fn field(len: usize, version: u64) -> Vec<u8> {
        let mut bytes = vec![0; len];
        fill(&mut bytes, KEY, FIELD, ContentVersion(version));
        bytes
    }

    #[test]
    fn every_length_verifies_and_gives_its_version_back() {
        for len in 0..40 {
            let version = check(&field(len, 0x1234_5678_9abc_def0), KEY, FIELD).unwrap();
            let kept_bytes = version_len(len) as u32;
            let mask = 1u64.checked_shl(8 * kept_bytes).map_or(u64::MAX, |bit| bit - 1);
            assert_eq!(version.0, 0x1234_5678_9abc_def0 & mask, "{len}");
        }
    }

    #[test]
    fn foreign_contents_are_detected() {
        let bytes = field(100, 7);
        assert!(check(&bytes, KEY, FIELD).is_some());
        assert!(check(&bytes, ContentKey(98), FIELD).is_none());
        assert!(check(&bytes, KEY, FieldIndex(4)).is_none());
        assert!(
            check(&bytes[..99], KEY, FIELD).is_some(),
            "a prefix is whole; lengths are the record's affair"
        );
    }

    #[test]
    fn a_field_torn_at_any_byte_is_detected() {
        let (old, new) = (field(100, 7), field(100, 0x700));
        for at in 1..100 {
            let torn = [&new[..at], &old[at..]].concat();
            let whole = torn == old || torn == new;
            assert_eq!(check(&torn, KEY, FIELD).is_some(), whole, "torn at {at}");
        }
    }

    #[test]
    fn workers_never_take_the_same_version() {
        let (mut first, mut second) = (Versions::of_worker(0), Versions::of_worker(1));
        let taken =
            [first.take(), first.take(), second.take(), second.take(), ContentVersion::LOADED];
        for (i, version) in taken.iter().enumerate() {
            assert!(!taken[..i].contains(version));
        }
        let mut last = Versions::of_worker(u16::MAX);
        for version in [last.take(), last.take()] {
            assert!(!taken.contains(&version), "{version} of the last worker");
        }
        let increments = (0..1000).fold(taken[0], |version, _| version.next());
        assert!(increments < taken[1], "increments stay below the worker's next version");
    }

    #[test]
    fn processes_that_replace_dead_ones_never_take_the_same_version() {
        let take = |mut versions: Versions| [(); 3].map(|()| versions.take());
        let of_run = (0..4).flat_map(|worker| take(Versions::of_worker(worker)));
        let count = 40;
        let replacements = (0..10_000).step_by(2).flat_map(|epoch| {
            let worker = |index| Versions::of_replacement(epoch, index, count);
            [0, count - 1].map(worker).into_iter().flat_map(take)
        });
        let (mut seen, mut taken) = (BTreeSet::new(), 0);
        for version in of_run.chain(replacements) {
            assert!(seen.insert(version), "{version} is the version of two writes");
            taken += 1;
        }
        assert_eq!(taken, 4 * 3 + 5_000 * 2 * 3);
    }
}
