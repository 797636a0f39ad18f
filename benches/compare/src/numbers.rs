//! Numbers on the command line.

use std::ops::RangeInclusive;

const KEYS: RangeInclusive<u64> = 1000..=1 << 31;

pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    match digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)) {
        Some(keys) if KEYS.contains(&keys) => Ok(keys),
        _ => Err("use a whole number from 1000 to 2147483648, or 100k, or 10M".to_owned()),
    }
}

pub(crate) fn whole<const LEAST: u64, const MOST: u64>(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(value) if (LEAST..=MOST).contains(&value) => Ok(value),
        _ => Err(format!("use a whole number from {LEAST} to {MOST}")),
    }
}

pub(crate) fn line_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(size) if size.is_power_of_two() && (512..=65_536).contains(&size) => Ok(size),
        _ => Err("use a power of two from 512 to 65536".to_owned()),
    }
}
