//! Parsing a profile. Every error is one line that names the file, the line, and an accepted value.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use latchwork_verbs::BATCH_MAX;
use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::{Measure, NicProfile, Published, Unit};

/// The reason why a profile cannot be used. Each error text is one line that names an accepted
/// value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is neither the name of a profile nor a file.
    #[error(
        "no NIC profile is called `{name}`: give one of {known}, or the path of a profile file"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the crate's profiles.
        known: String,
    },
    /// The file cannot be read.
    #[error("{path}: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: latchwork_files::InputError,
    },
    /// A line of the file is wrong.
    #[error("{file}:{line}: {problem}")]
    Bad {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The text of the line, and an accepted value.
        problem: String,
    },
}

pub(super) fn profile(text: &str, file: &str) -> Result<NicProfile, ProfileError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let span = error.span().unwrap_or(0..0);
        let line = 1 + text[..span.start].matches('\n').count();
        let what = problem(error.message());
        let problem = match statement(text, &span) {
            Some(statement) => format!("{statement}: {what}"),
            None => what,
        };
        ProfileError::Bad { file: file.to_owned(), line, problem }
    })
}

/// The message of the TOML reader, as one line in this crate's words.
fn problem(message: &str) -> String {
    match message.split_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid type") => {
            format!("must be {expected}")
        }
        _ => message.replace('\n', ", "),
    }
}

/// The line on which `span` starts, without its comment. `None` when the span covers several lines.
fn statement<'a>(text: &'a str, span: &Range<usize>) -> Option<&'a str> {
    let start = text[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
    let before = text.get(start..span.end)?;
    if before.trim().is_empty() || before.contains('\n') {
        return None;
    }
    let rest = text[span.end..].lines().next().unwrap_or_default();
    let end = span.end + rest.find('#').unwrap_or(rest.len());
    Some(text[start..end].trim())
}

/// A number of one kind.
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

/// A whole number of one kind.
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

fn value<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_f64(Number { range: 0.0..=1e9, open: true, what: "a positive number" })
}

fn tolerance<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let what = "a part of the value, above 0 and at most 0.5";
    from.deserialize_f64(Number { range: 0.0..=0.5, open: true, what })
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let what = "a number of bytes, a multiple of 8, 8 to 4194304";
    let bytes = small(from, 8..=4 << 20, what)?;
    let fits = bytes.is_multiple_of(8);
    fits.then_some(Some(bytes)).ok_or_else(|| de::Error::custom(format_args!("must be {what}")))
}

/// A figure as a profile file has it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPublished {
    measure: Measure,
    #[serde(default, deserialize_with = "bytes")]
    bytes: Option<u32>,
    #[serde(deserialize_with = "value")]
    value: f64,
    unit: Unit,
    #[serde(deserialize_with = "tolerance")]
    tolerance: f64,
    #[serde(deserialize_with = "text")]
    source: String,
}

impl TryFrom<RawPublished> for Published {
    type Error = String;

    fn try_from(raw: RawPublished) -> Result<Published, String> {
        let RawPublished { measure, bytes, value, unit, tolerance, source } = raw;
        if unit != measure.unit() {
            return Err(format!("{measure}: the unit must be {:?}", measure.unit().to_string()));
        }
        let bytes = match (measure.fixed_bytes(), bytes) {
            (Some(fixed), None) => fixed,
            (None, Some(bytes)) => bytes,
            (Some(_), Some(_)) => return Err(format!("{measure}: this measure has no `bytes`")),
            (None, None) => return Err(format!("{measure}: this measure needs `bytes`")),
        };
        Ok(Published { measure, bytes, value, unit, tolerance, source })
    }
}
