//! The encoding of schemas.

use super::*;
use crate::schema::SchemaError;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn a_stored_schema_is_the_same_again(schema in any_schema(), other in any_schema()) {
        let bytes = schema.encode();
        prop_assert_eq!(Schema::decode(&bytes), Ok(schema.clone()));
        for len in 0..bytes.len() {
            prop_assert!(Schema::decode(&bytes[..len]).is_err());
        }
        prop_assert_eq!(schema.fingerprint() == other.fingerprint(), schema == other);
    }

    #[test]
    fn spoilt_bytes_are_refused_or_another_schema(
        schema in any_schema(),
        changes in vec((0..4_u8, any::<Pick>(), prop_oneof![0..12_u8, any::<u8>()]), 1..4),
    ) {
        let whole = schema.encode();
        let mut bytes = whole.clone();
        for (how, at, byte) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes.insert(at, byte),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                2 => bytes.push(byte),
                _ => bytes[at] = byte,
            }
        }
        if let Ok(decoded) = Schema::decode(&bytes) {
            // Accepted bytes are the only encoding of their schema, and the schema works.
            prop_assert_eq!(decoded.encode(), &bytes[..]);
            prop_assert_eq!(decoded == schema, bytes == whole);
            prop_assert!(decoded.row(&[]).is_ok() == (decoded.row_len_min() == 0));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_schema(bytes in vec(0..12_u8, 0..60)) {
        let mut bytes = bytes;
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        if let Ok(decoded) = Schema::decode(&bytes) {
            prop_assert_eq!(decoded.encode(), bytes);
        }
    }
}

fn small() -> Schema {
    Schema::builder("T")
        .column("id", ColumnType::U32)
        .column("at", ColumnType::I64)
        .column("tag", ColumnType::Bytes(300))
        .column("name", ColumnType::Text(16))
        .column("rest", ColumnType::Blob)
        .primary_key(["id"])
        .rows_per_line(2)
        .index("i", [("at", Order::Descending), ("name", Order::Ascending)])
        .unique_index("u", [("name", Order::Ascending)])
        .build()
        .expect("good")
}

/// Schemas in logs must stay readable. If this test fails, the change needs a new version.
#[test]
fn version_1_has_these_bytes() {
    let expected: &[&[u8]] = &[
        b"\x01\x01T\x05\x00",
        b"\x03\x00\x00\x02id\x07\x00\x00\x02at\x08\x2c\x01\x03tag\x09\x10\x00\x04name\x0a\x00\x00\x04rest",
        b"\x01\x00\x00\x02\x00\x02",
        b"\x01i\x00\x02\x01\x00\x01\x03\x00\x00",
        b"\x01u\x01\x01\x03\x00\x00",
    ];
    assert_eq!(small().encode(), expected.concat());
    assert_eq!(small().fingerprint(), FINGERPRINT);
}

/// 64-bit FNV-1a of these bytes, computed by another program.
const FINGERPRINT: u64 = 0xC8DE_72E6_EACB_004B;

#[test]
fn bytes_of_another_version_or_with_more_behind_them_say_so() {
    let mut bytes = small().encode();
    bytes[0] = 2;
    let refused = SchemaError::Version { found: 2, known: 1 };
    assert_eq!(Schema::decode(&bytes), Err(refused));
    bytes[0] = 1;
    bytes.push(0);
    let at = bytes.len() - 1;
    let refused = SchemaError::BadDefinition { what: "more bytes than a schema has", at };
    assert_eq!(Schema::decode(&bytes), Err(refused));
}
