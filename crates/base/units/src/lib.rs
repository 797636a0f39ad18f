//! Parses sizes and times as people write them. Flags, settings and property files use this
//! grammar.
//!
//! ```text
//!   value = number [unit]        no space between them
//!   number                       digits, with a fraction if need be: 256, 0.5, .5, 1e3
//!   unit of a size               B, K or KiB, M or MiB, G or GiB, T or TiB: powers of 1024, in any case
//!   unit of a time               ns, us or µs, ms, s, m or min, h: in lower case
//! ```
//!
//! A number without a unit has the unit that the flag or the key documents ([`SizeUnit`],
//! [`TimeUnit`]).
//!
//! # Guarantees
//!
//! - A number of digits only is exact. A number with a fraction or an exponent is computed as a
//!   64-bit float. Such a size is cut to whole bytes, and such a time is rounded to nanoseconds. If
//!   the result would be 0 although the number is not 0, the text is refused.
//! - `KB` and `MB` are refused, because they mean powers of 1000 to some readers and powers of 1024
//!   to others.
//! - A number that is negative, infinite or too large is refused.
//!
//! ```
//! use latchwork_units::{SizeUnit, TimeUnit, size, time};
//! use std::time::Duration;
//!
//! assert_eq!(size("256", SizeUnit::MiB), Some(256 << 20));
//! assert_eq!(size("256MiB", SizeUnit::B), size("256M", SizeUnit::MiB));
//! assert_eq!(time("10", TimeUnit::Seconds), Some(Duration::from_secs(10)));
//! assert_eq!(time("500ms", TimeUnit::Seconds), time("0.5", TimeUnit::Seconds));
//! assert_eq!(time("50", TimeUnit::Microseconds), time("50us", TimeUnit::Seconds));
//! assert_eq!(size("256MB", SizeUnit::B), None);
//! ```

#![forbid(unsafe_code)]

use std::time::Duration;

/// The unit of a size that is written without a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeUnit {
    /// Bytes.
    B,
    /// Mebibytes.
    MiB,
}

/// The unit of a time that is written without a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
}

/// The names of each unit of a size, in lower case, and its bytes.
const SIZES: [(&[&str], u64); 5] = [
    (&["b"], 1),
    (&["k", "kib"], 1 << 10),
    (&["m", "mib"], 1 << 20),
    (&["g", "gib"], 1 << 30),
    (&["t", "tib"], 1 << 40),
];

/// The names of each unit of a time, and its nanoseconds.
const TIMES: [(&[&str], u64); 6] = [
    (&["ns"], 1),
    (&["us", "µs"], 1_000),
    (&["ms"], 1_000_000),
    (&["s"], 1_000_000_000),
    (&["m", "min"], 60_000_000_000),
    (&["h"], 3_600_000_000_000),
];

impl SizeUnit {
    fn bytes(self) -> u64 {
        match self {
            SizeUnit::B => 1,
            SizeUnit::MiB => 1 << 20,
        }
    }
}

impl TimeUnit {
    fn nanos(self) -> u64 {
        match self {
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Minutes => 60_000_000_000,
        }
    }
}

/// Parses `text` as a number of bytes; `None` if `text` is not a size or too large. `plain` is the
/// unit of a number without a unit. 0 is a size.
pub fn size(text: &str, plain: SizeUnit) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    match Number::split(&lower, &SIZES, plain.bytes())? {
        (Number::Whole(number), unit) => number.checked_mul(unit),
        (Number::Fraction(number), unit) => {
            let bytes = (number * unit as f64).floor();
            fits(bytes, number).then_some(bytes as u64)
        }
    }
}

/// Parses `text` as a time; `None` if `text` is not a time or too large. `plain` is the unit of a
/// number without a unit. 0 is a time.
pub fn time(text: &str, plain: TimeUnit) -> Option<Duration> {
    match Number::split(text, &TIMES, plain.nanos())? {
        (Number::Whole(number), unit) => number.checked_mul(unit).map(Duration::from_nanos),
        (Number::Fraction(number), unit) => {
            let nanos = (number * unit as f64).round();
            fits(nanos, number).then(|| Duration::from_nanos(nanos as u64))
        }
    }
}

/// Whether `amount` fits into a `u64`, and is 0 only if `number` is 0.
fn fits(amount: f64, number: f64) -> bool {
    // The largest u64 becomes 2^64 as a float, so the comparison must be strict.
    amount < u64::MAX as f64 && (amount >= 1.0 || number == 0.0)
}

/// Formats a number of bytes for people, in the largest unit that gives a whole number.
pub fn show_size(bytes: u64) -> String {
    let fits = |(_, unit): &&(&[&str], u64)| bytes > 0 && bytes.is_multiple_of(*unit);
    match SIZES.iter().rev().find(fits) {
        Some((names, unit)) if *unit > 1 => {
            let name = names[0].to_ascii_uppercase();
            format!("{} {name}iB", bytes / unit)
        }
        _ => format!("{bytes} bytes"),
    }
}

enum Number {
    Whole(u64),
    Fraction(f64),
}

impl Number {
    /// Splits a text into its number and the factor of its unit.
    fn split(text: &str, units: &[(&[&str], u64)], plain: u64) -> Option<(Number, u64)> {
        let digits = text.trim_end_matches(char::is_alphabetic);
        let unit = match &text[digits.len()..] {
            "" => plain,
            name => units.iter().find(|(names, _)| names.contains(&name))?.1,
        };
        // The standard library would accept "+5" and "inf" as numbers, and this grammar does not.
        if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            return None;
        }
        if let Ok(number) = digits.parse() {
            return Some((Number::Whole(number), unit));
        }
        let number: f64 = digits.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some((Number::Fraction(number), unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_one_meaning_in_every_spelling() {
        for text in ["256M", "256m", "256MiB", "256mib", "0.25G", "262144K", "268435456B"] {
            assert_eq!(size(text, SizeUnit::B), Some(256 << 20), "{text}");
            assert_eq!(size(text, SizeUnit::MiB), Some(256 << 20), "{text}");
        }
        assert_eq!(size("256", SizeUnit::B), Some(256));
        assert_eq!(size("0.5", SizeUnit::MiB), Some(512 << 10));
        assert_eq!(size("0.1", SizeUnit::MiB), Some(104_857));
        assert_eq!(size("1e9", SizeUnit::MiB), Some(1_000_000_000 << 20));
        assert_eq!(size("3T", SizeUnit::B), Some(3 << 40));
        assert_eq!(size("0", SizeUnit::B), Some(0));
        assert_eq!(size("18446744073709551615", SizeUnit::B), Some(u64::MAX));
        assert_eq!(size(".5M", SizeUnit::B), Some(512 << 10), "digits may be a fraction alone");
    }

    #[test]
    fn a_time_has_one_meaning_in_every_spelling() {
        for text in ["90", "90s", "1.5m", "1.5min", "0.025h", "90000ms", "9e1", "90000000us"] {
            assert_eq!(time(text, TimeUnit::Seconds), Some(Duration::from_secs(90)), "{text}");
        }
        assert_eq!(time("50", TimeUnit::Microseconds), Some(Duration::from_micros(50)));
        assert_eq!(time("50µs", TimeUnit::Seconds), Some(Duration::from_micros(50)));
        assert_eq!(time("0.5", TimeUnit::Minutes), Some(Duration::from_secs(30)));
        assert_eq!(time("0.05", TimeUnit::Seconds), Some(Duration::from_millis(50)));
        assert_eq!(time("7ns", TimeUnit::Seconds), Some(Duration::from_nanos(7)));
        assert_eq!(time("1.6ns", TimeUnit::Seconds), Some(Duration::from_nanos(2)), "rounded");
        assert_eq!(time("1.4ns", TimeUnit::Seconds), Some(Duration::from_nanos(1)), "rounded");
        assert_eq!(time(".5s", TimeUnit::Seconds), Some(Duration::from_millis(500)));
        assert_eq!(time("0", TimeUnit::Seconds), Some(Duration::ZERO));
        assert_eq!(time("0.0", TimeUnit::Seconds), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_ambiguous_or_does_not_fit_is_refused() {
        for text in [
            "",
            "M",
            "-1",
            "-1M",
            "+1",
            "1 M",
            "1MB",
            "1KB",
            "1X",
            "1.2.3M",
            "nan",
            "inf",
            "1e400",
            "0.3B",
            "16777216T",
            "18446744073709551616",
            ".",
            ".M",
            "1e30",
            "0x10",
            "1M1",
            "١",
        ] {
            assert_eq!(size(text, SizeUnit::B), None, "{text}");
        }
        for text in [
            "",
            "s",
            "-1s",
            "+1s",
            "1 s",
            "1d",
            "1S",
            "nan",
            "inf",
            "infs",
            "1e400s",
            "0.1ns",
            "18446744074s",
            "18446744073709551616ns",
            ".s",
            "1e30",
            "1m30s",
        ] {
            assert_eq!(time(text, TimeUnit::Seconds), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1000, "1000 bytes"),
            (1024, "1 KiB"),
            (3 << 20, "3 MiB"),
            ((1 << 30) + 1024, "1048577 KiB"),
        ] {
            assert_eq!(show_size(bytes), text);
        }
    }
}
