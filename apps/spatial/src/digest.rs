//! Hashes of results: equal on every machine for equal results.

/// Adds a word to a hash.
pub(crate) fn add(hash: u64, word: u64) -> u64 {
    // The finaliser of splitmix64.
    let mut x = (hash.rotate_left(5) ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The content of an entry in the index: a hash of its id and its box, so that an entry that mixes
/// two others is noticed.
pub(crate) fn payload(id: u64, area: &crate::geometry::Area) -> [u8; 8] {
    let [[west, south], [east, north]] = [area.low(), area.high()];
    let numbers = [west, south, east, north].map(f64::to_bits);
    numbers.into_iter().fold(id, add).to_le_bytes()
}

/// The hash of an entry, as a number.
pub(crate) fn of_entry(id: u64, area: &crate::geometry::Area) -> u64 {
    u64::from_le_bytes(payload(id, area))
}
