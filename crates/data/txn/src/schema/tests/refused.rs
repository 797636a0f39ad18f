//! Invalid schemas and values are refused, with an error that names the cause.

use super::*;
use crate::TxnError;
use crate::schema::ordered::KEY_COLUMNS_MAX;
use crate::schema::{COLUMNS_MAX, INDEXES_MAX, NAME_MAX, SchemaBuilder, SchemaError};

const UP: Order = Order::Ascending;

/// Two columns, a text and a blob.
fn table() -> SchemaBuilder {
    Schema::builder("T")
        .column("id", ColumnType::U32)
        .column("n", ColumnType::I16)
        .column("name", ColumnType::Text(10))
        .column("rest", ColumnType::Blob)
        .primary_key(["id"])
}

fn refused(schema: SchemaBuilder) -> String {
    schema.build().expect_err("it cannot work").to_string()
}

#[track_caller]
fn says(schema: SchemaBuilder, expected: &str) {
    assert_eq!(refused(schema), expected);
}

#[test]
fn what_cannot_work_is_refused() {
    assert!(table().build().is_ok());
    let of = |kind| Schema::builder("T").column("c", kind).primary_key(["c"]);
    let long = "x".repeat(NAME_MAX + 1);

    says(Schema::builder("T").primary_key(["c"]), "table T has no columns: give it at least one");
    says(
        Schema::builder("T").column("c", ColumnType::U8),
        "the primary key of table T has no columns: give it at least one",
    );
    says(table().index("i", []), "index i of table T has no columns: give it at least one");
    says(
        Schema::builder("").column("c", ColumnType::U8),
        "a table has no name: give it 1 to 48 bytes",
    );
    says(table().index("", [("n", UP)]), "an index has no name: give it 1 to 48 bytes");
    says(
        Schema::builder("T").column(&long, ColumnType::U8),
        &format!("the name \"{long}\" of a column has 49 bytes: at most 48 are possible"),
    );
    says(
        Schema::builder("a\nb").column("c", ColumnType::U8),
        "the name \"a\\nb\" of a table has control characters: leave them out",
    );
    says(
        Schema::builder("T").column("c", ColumnType::U8).column("c", ColumnType::U16),
        "table T has two columns named c: give each its own name",
    );
    says(
        table().index("i", [("n", UP)]).unique_index("i", [("name", UP)]),
        "table T has two indexes named i: give each its own name",
    );
    says(of(ColumnType::Text(0)), "column c has length 0: give it at least 1");
    says(of(ColumnType::Bytes(0)), "column c has length 0: give it at least 1");
    says(
        of(ColumnType::Blob).column("d", ColumnType::U8),
        "column c is a blob but not the last: declare it last, and only one",
    );
    says(
        table().primary_key(["id", "nobody"]),
        "table T has no column nobody, which was asked for by the primary key of table T",
    );
    says(
        table().index("i", [("nobody", UP)]),
        "table T has no column nobody, which was asked for by index i",
    );
    says(table().primary_key(["id", "id"]), "the primary key of table T has column id twice");
    says(
        table().index("i", [("n", UP), ("n", Order::Descending)]),
        "index i of table T has column n twice",
    );
    says(
        table().primary_key(["rest"]),
        "the primary key of table T has column rest, a blob: only numbers, bytes and texts can be \
         in a key",
    );
    says(
        table().unique_index("i", [("rest", UP)]),
        "index i of table T has column rest, a blob: only numbers, bytes and texts can be in a key",
    );
    says(table().rows_per_line(0), "table T wants 0 rows in a line: give at least 1, or no limit");
    says(
        Schema::builder("T")
            .column("c", ColumnType::U8)
            .column("d", ColumnType::Bytes(65_504))
            .column("e", ColumnType::Text(9))
            .primary_key(["c"]),
        "a row of table T has at least 65505 bytes: at most 65504 fit any line",
    );
}

#[test]
fn keys_that_no_index_holds_are_refused() {
    let of = |kind| {
        let columns = Schema::builder("T").column("a", ColumnType::U8).column("b", kind);
        columns.primary_key(["a"])
    };
    let by_b = |kind| of(kind).unique_index("i", [("b", UP)]);
    // 512 bytes are the maximum.
    assert!(by_b(ColumnType::Bytes(512)).build().is_ok());
    assert!(by_b(ColumnType::Text(255)).build().is_ok());
    let text = of(ColumnType::Text(255)).index("i", [("b", UP)]);
    assert!(refused(text).starts_with("index i of table T can be 513 bytes long, but a key has"));
    assert!(refused(by_b(ColumnType::Bytes(513))).contains("can be 513 bytes long"));
    let primary = of(ColumnType::Bytes(512)).primary_key(["b", "a"]);
    assert!(refused(primary).starts_with("the primary key of table T can be 513 bytes long"));

    // Short lines have a lower limit.
    let schema = table().index("i", [("name", UP)]).build().expect("good");
    assert_eq!(schema.indexes()[0].key_len_max(), 26);
    assert_eq!(schema.check_keys(26), Ok(()));
    let (whose, len, max) = ("index i of table T".to_owned(), 26, 25);
    assert_eq!(schema.check_keys(25), Err(SchemaError::KeyTooLong { whose, len, max }));
}

#[test]
fn too_many_of_anything_are_refused() {
    let columns = |count| {
        let names = (0..count).map(|at| format!("c{at}"));
        names.fold(Schema::builder("T"), |table, name| table.column(name, ColumnType::U8))
    };
    assert!(columns(COLUMNS_MAX).primary_key(["c0"]).build().is_ok());
    says(
        columns(COLUMNS_MAX + 1).primary_key(["c0"]),
        "table T has 1025 columns: at most 1024 are possible",
    );

    let names: Vec<String> = (0..=KEY_COLUMNS_MAX).map(|at| format!("c{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(columns(20).primary_key(names[1..].to_vec()).build().is_ok());
    says(
        columns(20).primary_key(names.clone()),
        "the primary key of table T has 17 columns: at most 16 are possible",
    );
    let all = |names: &[&'static str]| names.iter().map(|&name| (name, UP)).collect::<Vec<_>>();
    let most = [
        "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13",
        "c14", "c15",
    ];
    assert!(columns(20).primary_key(["c0"]).index("i", all(&most)).build().is_ok());
    assert!(columns(20).primary_key(["c19"]).unique_index("i", all(&most)).build().is_ok());
    says(
        columns(20).primary_key(["c19"]).index("i", all(&most)),
        "index i of table T has 17 columns, those of the primary key included: at most 16 are \
         possible",
    );

    let indexes = |count| {
        let names = (0..count).map(|at| format!("i{at}"));
        names.fold(table(), |table, name| table.index(name, [("n", UP)]))
    };
    assert!(indexes(INDEXES_MAX).build().is_ok());
    says(indexes(17), "table T has 17 secondary indexes: at most 16 are possible");
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let schema = table().index("i", [("name", UP)]).build().expect("good");
    let mut out = Vec::new();
    let mut row = |values: &[ColumnValue<'_>]| schema.encode_row(values, &mut out).unwrap_err();
    let says = |error: SchemaError, expected: &str| assert_eq!(error.to_string(), expected);
    says(row(&[1_u8.into()]), "1 values for the 3 columns of a row of table T");
    let (n, text, blob) = (ColumnValue::from(1_u8), ColumnValue::from("x"), ColumnValue::from("y"));
    says(
        row(&[ColumnValue::from(-32_769_i32), text.clone(), blob.clone()]),
        "column n is i16 and cannot hold -32769",
    );
    says(row(&[text.clone(), text.clone(), blob.clone()]), "column n is i16 and cannot hold bytes");
    says(
        row(&[n.clone(), "elevenbytes".into(), blob.clone()]),
        "column name is text(10) and cannot hold 11 bytes",
    );
    says(row(&[n.clone(), text, 7_u8.into()]), "column rest is blob and cannot hold the number 7");

    let key = |values: &[ColumnValue<'_>]| schema.encode_key(values, &mut Vec::new()).unwrap_err();
    says(key(&[]), "0 values for the 1 columns of the primary key of table T");
    says(key(&[n.clone(), n.clone()]), "2 values for the 1 columns of the primary key of table T");
    says(key(&[(-1_i64).into()]), "column id is u32 and cannot hold -1");
    let many = [blob.clone(), n.clone(), n];
    let prefix = schema.index_prefix(0, &many, &mut Vec::new()).unwrap_err();
    says(prefix, "3 values for the 2 columns of index i of table T");
    let unknown = "table T has 1 secondary indexes, counted from 0: none has number 1";
    says(schema.index_prefix(1, &[], &mut Vec::new()).unwrap_err(), unknown);
    says(schema.index_key(1, &[0; 4], &[0; 3], &mut Vec::new()).unwrap_err(), unknown);
    says(schema.index_key_ref(1, &[]).unwrap_err(), unknown);
    says(
        schema.column("nobody").unwrap_err(),
        "table T has no column nobody, which was asked for by its name",
    );

    let error = TxnError::from(schema.key(&[1, 2]).unwrap_err());
    let expected = "2 bytes are no key of the primary key of table T: the database is damaged or of another layout";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_number_fits_if_its_type_has_it() {
    let types = [
        (ColumnType::U8, 0, i128::from(u8::MAX)),
        (ColumnType::U16, 0, i128::from(u16::MAX)),
        (ColumnType::U32, 0, i128::from(u32::MAX)),
        (ColumnType::U64, 0, i128::from(u64::MAX)),
        (ColumnType::I16, i128::from(i16::MIN), i128::from(i16::MAX)),
        (ColumnType::I32, i128::from(i32::MIN), i128::from(i32::MAX)),
        (ColumnType::I64, i128::from(i64::MIN), i128::from(i64::MAX)),
    ];
    for (kind, min, max) in types {
        let schema = Schema::builder("T").column("c", kind).primary_key(["c"]).build();
        let schema = schema.expect("good");
        for number in [min - 1, min, min + 1, -1, 0, 1, max - 1, max, max + 1] {
            let unsigned = u64::try_from(number).map(ColumnValue::Unsigned);
            let signed = i64::try_from(number).map(ColumnValue::Signed);
            for value in [unsigned, signed].into_iter().flatten() {
                let mut key = Vec::new();
                let encoded = schema.encode_key(&[value], &mut key);
                assert_eq!(encoded.is_ok(), (min..=max).contains(&number), "{number} as {kind}");
                if encoded.is_ok() {
                    let read = schema.key(&key).expect("a key").get(ColumnId::new(0));
                    let read = match read.expect("its column") {
                        ColumnValue::Unsigned(read) => i128::from(read),
                        ColumnValue::Signed(read) => i128::from(read),
                        ColumnValue::Bytes(_) => panic!("{kind} is a number"),
                    };
                    assert_eq!(read, number);
                }
            }
        }
    }
}
