//! Parts of rows that are overwritten in place.

use super::*;
use crate::schema::SchemaError;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn a_column_that_is_written_in_place_is_as_if_the_row_were_written_anew(
        schema in any_schema(),
        seeds in any_row(),
        other in any_seed(),
    ) {
        let all = values(&schema, &seeds);
        let before = row_of(&schema, &all);
        for &id in schema.row_columns() {
            let kind = schema.columns()[id.index()].column_type();
            let (mut row, mut all) = (before.clone(), all.clone());
            all[id.index()] = value(kind, &other);
            let written = schema.write(&mut row, id, &all[id.index()]);
            prop_assert_eq!(written.is_ok(), kind.fixed_len().is_some());
            if let (Ok(()), Some(len)) = (written, kind.fixed_len()) {
                prop_assert_eq!(&row, &row_of(&schema, &all));
                let at = schema.offset_of(id).unwrap();
                row[at..at + len].copy_from_slice(&before[at..at + len]);
                prop_assert_eq!(&row, &before);
                prop_assert!(schema.write(&mut row[..at + len - 1], id, &all[id.index()]).is_err());
            }
        }
    }

    #[test]
    fn a_key_that_changes_was_said_to_change(
        schema in any_schema(),
        seeds in any_row(),
        at in any::<Pick>(),
        bytes in vec(0..4_u8, 1..4),
    ) {
        let all = values(&schema, &seeds);
        let (key, before) = (key_of(&schema, &all), row_of(&schema, &all));
        let bytes = &bytes[..bytes.len().min(before.len())];
        let at = at.index(before.len() - bytes.len() + 1);
        let mut row = before.clone();
        row[at..at + bytes.len()].copy_from_slice(bytes);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (number, index) in schema.indexes().iter().enumerate() {
            schema.index_key(number, &key, &before, &mut old).unwrap();
            let is_row = schema.index_key(number, &key, &row, &mut new).is_ok();
            if is_row && old != new {
                prop_assert!(index.may_change(at, bytes.len()));
            }
            if !is_row || old != new {
                prop_assert!(schema.may_move(number, &before, &row));
                prop_assert!(schema.may_move(number, &row, &before));
            }
        }
    }

    #[test]
    fn a_row_that_becomes_another_moves_where_its_key_is_another(
        schema in any_schema(),
        seeds in any_row(),
        at in any::<Pick>(),
        other in any_seed(),
    ) {
        let all = values(&schema, &seeds);
        let mut changed = all.clone();
        let id = schema.row_columns().get(at.index(schema.row_columns().len().max(1)));
        if let Some(id) = id {
            let kind = schema.columns()[id.index()].column_type();
            changed[id.index()] = value(kind, &other);
        }
        let (key, before, after) =
            (key_of(&schema, &all), row_of(&schema, &all), row_of(&schema, &changed));
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (number, index) in schema.indexes().iter().enumerate() {
            schema.index_key(number, &key, &before, &mut old).unwrap();
            schema.index_key(number, &key, &after, &mut new).unwrap();
            let texts = index.key_columns().any(|(id, _)| {
                matches!(schema.columns()[id.index()].column_type(), ColumnType::Text(_))
            });
            let may = schema.may_move(number, &before, &after);
            prop_assert!(may || old == new);
            // If the index reads a text, `may_move` may be true although the key is the same.
            prop_assert!(texts || may == (old != new));
        }
        prop_assert!(schema.may_move(schema.indexes().len(), &before, &before));
    }
}

#[test]
fn changes_beside_an_index_leave_it_alone() {
    let schema = Schema::builder("t")
        .column("id", ColumnType::U32)
        .column("sum", ColumnType::I64)
        .column("owner", ColumnType::U32)
        .column("count", ColumnType::U16)
        .column("name", ColumnType::Text(9))
        .primary_key(["id"])
        .index("by owner", [("owner", Order::Ascending)])
        .index("by name", [("name", Order::Descending)])
        .index("by id", [("id", Order::Descending)])
        .build()
        .expect("good");
    let touched = |offset, len| -> Vec<bool> {
        schema.indexes().iter().map(|index| index.may_change(offset, len)).collect()
    };
    assert_eq!(touched(0, 8), [false, false, false]);
    assert_eq!(touched(7, 2), [true, false, false]);
    assert_eq!(touched(11, 1), [true, false, false]);
    assert_eq!(touched(12, 2), [false, false, false]);
    // The length of the name, and the name.
    assert_eq!(touched(14, 1), [false, true, false]);
    assert_eq!(touched(20, 1), [false, true, false]);
    assert_eq!(touched(0, usize::MAX), [true, true, false]);
}

#[test]
fn a_column_is_read_and_written_as_its_type_only() {
    let schema = Schema::builder("t")
        .column("id", ColumnType::U32)
        .column("level", ColumnType::I16)
        .column("tag", ColumnType::Bytes(2))
        .primary_key(["id"])
        .build()
        .expect("good");
    let (level, tag) = (ColumnId::new(1), ColumnId::new(2));
    let mut row = vec![0; 4];
    schema.write(&mut row, level, &(-1_i16).into()).expect("fits");
    // Any number that fits.
    schema.write(&mut row, level, &7_u64.into()).expect("fits");
    for wrong in [ColumnValue::from(40_000_u32), (-40_000_i32).into(), u64::MAX.into(), "ab".into()]
    {
        let refused = schema.write(&mut row, level, &wrong);
        assert!(matches!(refused, Err(SchemaError::WrongValue { .. })), "{wrong:?}");
    }
    for wrong in [ColumnValue::from("abc"), "a".into(), 7_u8.into()] {
        let refused = schema.write(&mut row, tag, &wrong);
        assert!(matches!(refused, Err(SchemaError::WrongValue { .. })), "{wrong:?}");
    }
    assert_eq!(row, [7, 0, 0, 0]);
    let read = schema.row(&row).expect("a row");
    assert_eq!(read.i16(level), Ok(7));
    assert!(matches!(read.u16(level), Err(SchemaError::WrongType { .. })));
    assert!(matches!(read.bytes(level), Err(SchemaError::WrongType { .. })));
    assert!(matches!(read.i16(tag), Err(SchemaError::WrongType { .. })));
    assert!(matches!(read.u16(ColumnId::new(3)), Err(SchemaError::UnknownColumn { .. })));
    assert!(matches!(schema.offset_of(ColumnId::new(3)), Err(SchemaError::UnknownColumn { .. })));
    assert!(matches!(schema.offset_of(ColumnId::new(0)), Err(SchemaError::NotThere { .. })));
}
