//! Deserializers for values of a scenario, which check their ranges.

use std::fmt;

use latchwork_memnode::Geometry;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A whole number from `LEAST` to `MOST`.
pub(super) fn within<'de, D, T, const LEAST: u64, const MOST: u64>(
    deserializer: D,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    struct Whole<const LEAST: u64, const MOST: u64>;
    impl<const LEAST: u64, const MOST: u64> Visitor<'_> for Whole<LEAST, MOST> {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from {LEAST} to {MOST}")
        }

        fn visit_u64<E: Error>(self, given: u64) -> Result<u64, E> {
            if (LEAST..=MOST).contains(&given) {
                return Ok(given);
            }
            Err(E::custom(format!("{given} is out of range: {LEAST} to {MOST} would do")))
        }

        fn visit_i64<E: Error>(self, given: i64) -> Result<u64, E> {
            match u64::try_from(given) {
                Ok(given) => self.visit_u64(given),
                Err(_) => {
                    Err(E::custom(format!("{given} is out of range: {LEAST} to {MOST} would do")))
                }
            }
        }
    }
    let whole = deserializer.deserialize_u64(Whole::<LEAST, MOST>)?;
    T::try_from(whole).map_err(|_| D::Error::custom(format!("{whole} is too large")))
}

/// A line size that a memory pool offers, in bytes.
pub(super) fn line_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let given = u32::deserialize(deserializer)?;
    let (least, most) = (Geometry::MIN_LINE, Geometry::MAX_LINE);
    if given.is_power_of_two() && (least..=most).contains(&given) {
        return Ok(given);
    }
    Err(D::Error::custom(format!(
        "{given} bytes are no size of a line here: a power of two from {least} to {most} would do"
    )))
}

macro_rules! by_name {
    ($module:ident, $type:ty, $what:literal) => {
        #[doc = $what]
        pub(super) mod $module {
            use serde::de::Error;
            use serde::{Deserialize, Deserializer, Serializer};

            pub(in crate::scenario) fn serialize<S: Serializer>(
                value: &$type,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(value.name())
            }

            pub(in crate::scenario) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

by_name!(protocol, latchwork_cluster::Protocol, "A protocol, by its name.");
by_name!(scheme, latchwork_txn::Scheme, "A concurrency control, by its name.");
