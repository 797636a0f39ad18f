//! Encoded keys and rows can be read again. Other bytes are refused, or equal the encoding of what
//! they are read as.

use super::*;
use crate::schema::SchemaError;

/// Bytes that are close to the given ones: cut, lengthened, or with one byte changed.
fn spoil(mut bytes: Vec<u8>, how: u8, at: &Pick, byte: u8) -> Vec<u8> {
    match (how, bytes.len()) {
        (0, _) => bytes.push(byte),
        (_, 0) => {}
        (1, len) => bytes.truncate(at.index(len)),
        (2, len) => drop(bytes.remove(at.index(len))),
        (3, len) => bytes.insert(at.index(len), byte),
        (_, len) => bytes[at.index(len)] = byte,
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn what_is_encoded_is_read_again(schema in any_schema(), seeds in any_row()) {
        let all = values(&schema, &seeds);
        let (key, row) = (key_of(&schema, &all), row_of(&schema, &all));
        prop_assert!(key.len() <= schema.key.len_max());
        prop_assert!(row.len() >= schema.row_len_min());
        prop_assert!(schema.row_len_max().is_none_or(|max| row.len() <= max));
        let (key, row) = (schema.key(&key).unwrap(), schema.row(&row).unwrap());
        prop_assert_eq!(key.values().collect::<Vec<_>>(), pick(&all, schema.key_columns()));
        let in_row = schema.row_columns();
        prop_assert_eq!(row.values().collect::<Vec<_>>(), pick(&all, in_row.iter().copied()));
        for (at, value) in all.iter().enumerate() {
            let id = ColumnId::new(at as u16);
            let (there, absent) = match in_row.contains(&id) {
                true => (row.get(id), key.get(id)),
                false => (key.get(id), row.get(id)),
            };
            prop_assert_eq!(there, Ok(value.clone()));
            let not_there = matches!(absent, Err(SchemaError::NotThere { .. }));
            prop_assert!(not_there);
        }
        for (number, index) in schema.indexes().iter().enumerate() {
            let bytes = index_key_of(&schema, number, &all);
            prop_assert!(bytes.len() <= index.key_len_max());
            let key = schema.index_key_ref(number, &bytes).unwrap();
            let columns = index.key_columns().map(|(id, _)| id);
            prop_assert_eq!(key.values().collect::<Vec<_>>(), pick(&all, columns));
        }
    }

    #[test]
    fn spoilt_bytes_are_refused_or_are_other_values(
        schema in any_schema(),
        seeds in any_row(),
        how in 0..6_u8,
        at in any::<Pick>(),
        byte in prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()],
    ) {
        let all = values(&schema, &seeds);
        let mut again = Vec::new();
        let key = spoil(key_of(&schema, &all), how, &at, byte);
        if let Ok(read) = schema.key(&key) {
            let values: Vec<_> = read.values().collect();
            prop_assert!(schema.encode_key(&values, &mut again).is_ok());
            prop_assert_eq!(&again, &key);
        }
        let row = spoil(row_of(&schema, &all), how, &at, byte);
        if let Ok(read) = schema.row(&row) {
            let values: Vec<_> = read.values().collect();
            prop_assert!(schema.encode_row(&values, &mut again).is_ok());
            prop_assert_eq!(&again, &row);
        }
        for number in 0..schema.indexes().len() {
            let whole = schema.key(&key).is_ok() && schema.row(&row).is_ok();
            prop_assert_eq!(schema.index_key(number, &key, &row, &mut again).is_ok(), whole);
            let spoilt = spoil(index_key_of(&schema, number, &all), how, &at, byte);
            if let Ok(read) = schema.index_key_ref(number, &spoilt) {
                let values: Vec<_> = read.values().collect();
                prop_assert!(schema.index_prefix(number, &values, &mut again).is_ok());
                prop_assert_eq!(&again, &spoilt);
            }
        }
    }
}

fn customer() -> Schema {
    Schema::builder("CUSTOMER")
        .column("id", ColumnType::U32)
        .column("balance", ColumnType::I64)
        .column("first", ColumnType::Text(4))
        .column("state", ColumnType::Bytes(2))
        .column("last", ColumnType::Text(4))
        .column("data", ColumnType::Blob)
        .primary_key(["id"])
        .build()
        .expect("good")
}

#[test]
fn rows_have_the_layout_that_is_documented() {
    let schema = customer();
    let mut row = vec![9; 3];
    let values = [(-2_i64).into(), "Al".into(), b"XY".into(), "Bor".into(), "data".into()];
    schema.encode_row(&values, &mut row).expect("good");
    assert_eq!(row, b"\xfe\xff\xff\xff\xff\xff\xff\xffXY\x02\x03AlBordata");
    let column = |name| schema.column(name).expect("there");
    let read = schema.row(&row).expect("a row");
    assert_eq!(read.i64(column("balance")), Ok(-2));
    assert_eq!(read.bytes(column("state")), Ok(&b"XY"[..]));
    assert_eq!(read.bytes(column("first")), Ok(&b"Al"[..]));
    assert_eq!(read.bytes(column("last")), Ok(&b"Bor"[..]));
    assert_eq!(read.bytes(column("data")), Ok(&b"data"[..]));
    assert_eq!(schema.offset_of(column("state")), Ok(8));
    assert_eq!((schema.row_len_min(), schema.row_len_max()), (12, None));
}

#[test]
fn a_text_that_is_longer_than_its_column_is_no_text_of_it() {
    let schema = customer();
    let good = b"\0\0\0\0\0\0\0\0XY\x04\x00Alexdata";
    assert!(schema.row(good).is_ok());
    // The remaining bytes are a blob, so only the limit of the column shows the error.
    let long = b"\0\0\0\0\0\0\0\0XY\x05\x00Alexdata";
    let refused = SchemaError::BadRow { table: "CUSTOMER".to_owned(), len: long.len() };
    assert_eq!(schema.row(long).err(), Some(refused));
    for len in 0..12 {
        assert!(schema.row(&good[..len]).is_err(), "{len} bytes");
    }

    let by_name = Schema::builder("names")
        .column("name", ColumnType::Text(2))
        .primary_key(["name"])
        .build()
        .expect("good");
    assert!(by_name.key(b"a\0\xff\0\0").is_ok());
    for bad in [&b"abc\0\0"[..], b"a\0", b"a", b"", b"a\0\x01\0\0", b"a\0\0\0"] {
        assert!(by_name.key(bad).is_err(), "{bad:?}");
    }
}
