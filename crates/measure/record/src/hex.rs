//! Keys and hashes as hexadecimal text, for serde.

use std::borrow::Cow;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn encode(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn decoded<E: Error>(text: &str) -> Result<Box<[u8]>, E> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map(Vec::into_boxed_slice).map_err(|_| {
        E::custom(format!("a key is an even number of hexadecimal digits, not {text:?}"))
    })
}

fn number_of<E: Error>(text: &str) -> Result<u64, E> {
    u64::from_str_radix(text, 16)
        .map_err(|_| E::custom(format!("a hash is up to 16 hexadecimal digits, not {text:?}")))
}

pub(crate) fn serialize<S: Serializer>(key: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(key))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u8]>, D::Error> {
    decoded(&Cow::<str>::deserialize(from)?)
}

/// An optional key.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        key: &Option<Box<[u8]>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match key {
            Some(key) => serializer.serialize_str(&encode(key)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Box<[u8]>>, D::Error> {
        Option::<Cow<'de, str>>::deserialize(from)?.map(|text| decoded(&text)).transpose()
    }
}

/// A hash as text, because some readers of JSON cannot represent integers of 64 bits.
pub(crate) mod number {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{hash:x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        number_of(&Cow::<str>::deserialize(from)?)
    }
}

/// An optional hash.
pub(crate) mod optional_number {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        hash: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match hash {
            Some(hash) => number::serialize(hash, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        Option::<Cow<'de, str>>::deserialize(from)?.map(|text| number_of(&text)).transpose()
    }
}

/// A bound of a range: `"all"`, `{"included": KEY}` or `{"excluded": KEY}`.
pub(crate) mod bound {
    use std::ops::Bound;

    use serde::Serialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Text<'a> {
        All,
        Included(#[serde(borrow)] Cow<'a, str>),
        Excluded(#[serde(borrow)] Cow<'a, str>),
    }

    pub(crate) fn serialize<S: Serializer>(
        bound: &Bound<Box<[u8]>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = match bound {
            Bound::Unbounded => Text::All,
            Bound::Included(key) => Text::Included(encode(key).into()),
            Bound::Excluded(key) => Text::Excluded(encode(key).into()),
        };
        text.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Bound<Box<[u8]>>, D::Error> {
        Ok(match Text::deserialize(from)? {
            Text::All => Bound::Unbounded,
            Text::Included(text) => Bound::Included(decoded(&text)?),
            Text::Excluded(text) => Bound::Excluded(decoded(&text)?),
        })
    }
}
