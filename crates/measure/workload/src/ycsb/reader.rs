//! Reads typed values from properties. An error names the position of the value, and states the
//! valid values.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use latchwork_units::{SizeUnit, TimeUnit};

use super::known::{KNOWN, has_effect};
use crate::WorkloadError;
use crate::error::printable;
use crate::properties::{Duplicate, Properties, Property};

/// Reads the values of one workload.
pub(super) struct Reader<'a> {
    properties: &'a Properties,
}

impl<'a> Reader<'a> {
    /// A reader, with a warning for all ignored keys, and one for each key that one file assigns
    /// twice. Fails at an unknown key.
    pub(super) fn new(
        properties: &'a Properties,
    ) -> Result<(Reader<'a>, Vec<String>), WorkloadError> {
        let mut warnings: Vec<String> =
            properties.duplicates().iter().map(Duplicate::to_string).collect();
        let (mut seen, mut ignored) = (BTreeSet::new(), Vec::new());
        for Property { key, at, .. } in properties.iter() {
            let unknown =
                |near| WorkloadError::UnknownKey { at: at.clone(), key: key.clone(), near };
            if !has_effect(key).map_err(unknown)? && seen.insert(key) {
                ignored.push(format!("`{}` ({at})", printable(key)));
            }
        }
        if !ignored.is_empty() {
            let ignored = ignored.join(", ");
            warnings
                .push(format!("settings of other drivers and stores change nothing: {ignored}"));
        }
        Ok((Reader { properties }, warnings))
    }

    fn property(&self, key: &'static str) -> Option<&'a Property> {
        debug_assert!(KNOWN.contains(&key));
        self.properties.get(key)
    }

    /// Whether the key was given.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.property(key).is_some()
    }

    /// The value as text, with white space around it removed.
    pub(super) fn text(&self, key: &'static str) -> Option<&'a str> {
        self.property(key).map(|property| property.value.trim())
    }

    /// The error for the value of a key that was given.
    pub(super) fn refuse(&self, key: &'static str, expected: impl Into<String>) -> WorkloadError {
        match self.property(key) {
            Some(property) => WorkloadError::BadValue {
                at: property.at.clone(),
                key,
                value: property.value.trim().to_owned(),
                expected: expected.into(),
            },
            None => WorkloadError::Conflict(format!("`{key}` is missing: {}", expected.into())),
        }
    }

    fn parse<T: FromStr>(
        &self,
        key: &'static str,
        good: impl FnOnce(&T) -> bool,
        expected: impl FnOnce() -> String,
    ) -> Result<Option<T>, WorkloadError> {
        match self.text(key).map(T::from_str) {
            None => Ok(None),
            Some(Ok(value)) if good(&value) => Ok(Some(value)),
            Some(_) => Err(self.refuse(key, expected())),
        }
    }

    /// A whole number in `range`, if given.
    pub(super) fn number<T>(
        &self,
        key: &'static str,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, WorkloadError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let expected =
            || format!("must be a whole number from {} to {}", range.start(), range.end());
        self.parse(key, |value| range.contains(value), expected)
    }

    /// A size in bytes in `range`, if given.
    pub(super) fn bytes(
        &self,
        key: &'static str,
        range: RangeInclusive<u16>,
    ) -> Result<Option<u16>, WorkloadError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let size = latchwork_units::size(text, SizeUnit::B).and_then(|size| size.try_into().ok());
        match size.filter(|size| range.contains(size)) {
            Some(size) => Ok(Some(size)),
            None => {
                let (least, most) = (range.start(), range.end());
                let would_do =
                    format!("must be a whole number from {least} to {most}, or a size as 1K");
                Err(self.refuse(key, would_do))
            }
        }
    }

    /// A time, if given; a plain number is in seconds.
    pub(super) fn time(&self, key: &'static str) -> Result<Option<Duration>, WorkloadError> {
        let most = Duration::from_secs(u64::from(u32::MAX));
        let Some(text) = self.text(key) else { return Ok(None) };
        match latchwork_units::time(text, TimeUnit::Seconds).filter(|time| *time <= most) {
            Some(time) => Ok(Some(time)),
            None => {
                let would_do = format!(
                    "must be a number of seconds up to {}, or a time as 500ms or 2m",
                    u32::MAX
                );
                Err(self.refuse(key, would_do))
            }
        }
    }

    /// A number of at least zero, if given.
    pub(super) fn weight(&self, key: &'static str) -> Result<Option<f64>, WorkloadError> {
        let good = |value: &f64| *value >= 0.0 && value.is_finite();
        self.parse(key, good, || "must be a number of at least 0".to_owned())
    }

    /// A number above `above` and below `below`, or `default` if the key is not given.
    pub(super) fn between(
        &self,
        key: &'static str,
        default: f64,
        above: f64,
        below: f64,
    ) -> Result<f64, WorkloadError> {
        let good = |value: &f64| *value > above && *value < below;
        let expected = || format!("must be a number above {above} and below {below}");
        Ok(self.parse(key, good, expected)?.unwrap_or(default))
    }

    /// A fraction from 0 to 1, or `default`.
    pub(super) fn fraction(&self, key: &'static str, default: f64) -> Result<f64, WorkloadError> {
        let good = |value: &f64| (0.0..=1.0).contains(value);
        Ok(self.parse(key, good, || "must be a number from 0 to 1".to_owned())?.unwrap_or(default))
    }

    /// `true` or `false`, or `default`.
    pub(super) fn flag(&self, key: &'static str, default: bool) -> Result<bool, WorkloadError> {
        match self.text(key).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(self.refuse(key, "must be true or false")),
        }
    }

    /// One of `choices`, if given.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, WorkloadError> {
        let Some(written) = self.text(key) else { return Ok(None) };
        match choices.iter().find(|(name, _)| *name == written) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                Err(self.refuse(key, format!("must be one of {}", names.join(", "))))
            }
        }
    }
}
