//! Reads and checks the fields of a profile. Almost every error text names the accepted values.

use std::fmt;
use std::ops::RangeInclusive;

use latchwork_verbs::BATCH_MAX;
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A number within a range. With `open`, the start of the range is not accepted. `what` describes
/// the accepted values.
struct Number {
    range: RangeInclusive<f64>,
    open: bool,
    what: &'static str,
}

impl Number {
    fn check<E: de::Error>(&self, value: f64) -> Result<f64, E> {
        let too_small = self.open && value <= *self.range.start();
        if self.range.contains(&value) && !too_small {
            return Ok(value);
        }
        Err(E::custom(format_args!("must be {}", self.what)))
    }
}

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        self.check(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        self.check(value as f64)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        self.check(value as f64)
    }
}

/// A whole number within a range. `what` describes the accepted values.
struct Whole {
    range: RangeInclusive<u64>,
    what: &'static str,
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        let value = u64::try_from(value).ok().filter(|value| self.range.contains(value));
        value.ok_or_else(|| E::custom(format_args!("must be {}", self.what)))
    }
}

pub(super) fn bandwidth<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let what = "a positive number of Gbit/s, 0.001 to 10000";
    from.deserialize_f64(Number { range: 0.001..=10_000.0, open: false, what })
}

pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let what = "a positive number of millions per second, 0.001 to 10000";
    from.deserialize_f64(Number { range: 0.001..=10_000.0, open: false, what })
}

pub(super) fn nanos<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let what = "a whole number of nanoseconds, at most 1000000000";
    from.deserialize_i64(Whole { range: 0..=1_000_000_000, what })
}

pub(super) fn bucket_bits<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    small(from, 0..=32, "a number of address bits, 0 to 32")
}

pub(super) fn places<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    small(from, 0..=65_536, "a number of atomics, 0 (no limit) to 65536")
}

pub(super) fn chip<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    small(from, 0..=1 << 30, "a number of bytes, 0 (none) to 1073741824")
}

pub(super) fn queue_pairs<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    small(from, 1..=100, "a number of queue pairs, 1 to 100")
}

pub(super) fn engines<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    small(from, 1..=2, "1 (shared) or 2 (one to issue, one to serve)")
}

pub(super) fn inline<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    small(from, 0..=4096, "a number of bytes, 0 to 4096")
}

pub(super) fn packet<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    small(from, 64..=65_536, "a number of bytes, 64 to 65536")
}

pub(super) fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    const { assert!(BATCH_MAX == 4, "the text below says so") };
    small(from, 4..=65_536, "a number of requests, 4 (a whole batch) to 65536")
}

fn small<'de, D: Deserializer<'de>>(
    from: D,
    range: RangeInclusive<u64>,
    what: &'static str,
) -> Result<u32, D::Error> {
    let value = from.deserialize_i64(Whole { range, what })?;
    Ok(u32::try_from(value).expect("the range is one of u32"))
}

pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    let fits = !text.trim().is_empty() && !text.contains(['\n', '\r']);
    fits.then_some(text).ok_or_else(|| de::Error::custom("must be one line of text"))
}

pub(super) fn value<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_f64(Number { range: 0.0..=1e9, open: true, what: "a positive number" })
}

pub(super) fn tolerance<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let what = "a part of the value, above 0 and at most 0.5";
    from.deserialize_f64(Number { range: 0.0..=0.5, open: true, what })
}

pub(super) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let what = "a number of bytes, a multiple of 8, 8 to 4194304";
    let bytes = small(from, 8..=4 << 20, what)?;
    let fits = bytes.is_multiple_of(8);
    fits.then_some(Some(bytes)).ok_or_else(|| de::Error::custom(format_args!("must be {what}")))
}
