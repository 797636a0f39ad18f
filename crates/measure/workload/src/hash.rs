//! The two hashes of this crate: YCSB's for keys, and a fast mixer for contents.

/// The odd constant of splitmix64: 2^64 divided by the golden ratio.
pub(crate) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

const FNV_OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

/// YCSB's hash of a number: 64-bit FNV-1a over the eight bytes, lowest first. The result is the
/// absolute value, as of Java's `Math.abs`.
///
/// The result is at most 2^63.
///
/// ```
/// assert_eq!(latchwork_workload::hash::ycsb_hash(0), 6284781860667377211);
/// ```
#[inline]
pub fn ycsb_hash(number: u64) -> u64 {
    let mut hash = FNV_OFFSET_BASIS;
    for octet in number.to_le_bytes() {
        hash = (hash ^ u64::from(octet)).wrapping_mul(FNV_PRIME);
    }
    (hash as i64).unsigned_abs()
}

/// The finaliser of splitmix64: a bijection in which every input bit changes about half of the
/// output bits.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A 64-bit hash of a byte string, eight bytes at a time. The hash is the same on every platform.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = mix(bytes.len() as u64 ^ GOLDEN);
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word)).wrapping_add(GOLDEN);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = mix(hash ^ u64::from_le_bytes(last)).wrapping_add(GOLDEN);
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ycsb_hash_gives_the_names_that_ycsb_gives() {
        // The first keys that YCSB itself loads with its default insert order.
        assert_eq!(ycsb_hash(0), 6284781860667377211);
        assert_eq!(ycsb_hash(1), 8517097267634966620);
        assert_eq!(ycsb_hash(2), 1820151046732198393);
    }

    #[test]
    fn byte_strings_that_differ_only_in_length_or_tail_differ() {
        let strings: [&[u8]; 8] =
            [b"", b"\0", b"\0\0", b"user1", b"user10", b"user0001", b"user00010", b"user00011"];
        let hashes: HashSet<u64> = strings.iter().map(|s| hash_bytes(s)).collect();
        assert_eq!(hashes.len(), strings.len());
    }
}
