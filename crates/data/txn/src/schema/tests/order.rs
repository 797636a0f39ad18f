//! Keys have the order of their columns.

use std::cmp::Ordering;

use super::*;
use crate::Key;
use crate::schema::end_of_prefix;

/// The order of two values of one column.
fn compare(one: &ColumnValue<'_>, two: &ColumnValue<'_>) -> Ordering {
    match (one, two) {
        (ColumnValue::Unsigned(one), ColumnValue::Unsigned(two)) => one.cmp(two),
        (ColumnValue::Signed(one), ColumnValue::Signed(two)) => one.cmp(two),
        (ColumnValue::Bytes(one), ColumnValue::Bytes(two)) => one.cmp(two),
        _ => panic!("{one:?} and {two:?} are of different types"),
    }
}

/// The order of two rows by some of their columns.
fn compare_by(
    columns: impl Iterator<Item = (ColumnId, Order)>,
    one: &[ColumnValue<'_>],
    two: &[ColumnValue<'_>],
) -> Ordering {
    let by_column = columns.map(|(id, order)| {
        let ascending = compare(&one[id.index()], &two[id.index()]);
        if order == Order::Descending { ascending.reverse() } else { ascending }
    });
    by_column.fold(Ordering::Equal, Ordering::then)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn keys_order_like_their_columns(
        schema in any_schema(),
        one in any_row(),
        mut two in any_row(),
        same in vec(any::<bool>(), 7),
    ) {
        for (at, _) in same.iter().enumerate().filter(|(_, same)| **same) {
            two[at] = one[at].clone();
        }
        let (one, two) = (values(&schema, &one), values(&schema, &two));
        let in_key = || schema.key_columns().map(|id| (id, Order::Ascending));
        let primary = compare_by(in_key(), &one, &two);
        let keys = (key_of(&schema, &one), key_of(&schema, &two));
        prop_assert_eq!(keys.0.cmp(&keys.1), primary);
        prop_assert!(primary.is_eq() || !keys.0.starts_with(&keys.1));

        for (number, index) in schema.indexes().iter().enumerate() {
            let keys = (index_key_of(&schema, number, &one), index_key_of(&schema, number, &two));
            let by_columns = compare_by(index.columns().iter().copied(), &one, &two);
            // In an index that is not unique, the primary key decides between equal columns.
            let rest = in_key().filter(|(id, _)| index.columns().iter().all(|(has, _)| has != id));
            let rest = if index.is_unique() { Ordering::Equal } else { compare_by(rest, &one, &two) };
            prop_assert_eq!(keys.0.cmp(&keys.1), by_columns.then(rest));
            prop_assert!(keys.0 == keys.1 || !keys.0.starts_with(&keys.1));
            // Two rows of a table differ in their primary keys.
            prop_assert!(index.is_unique() || primary.is_eq() || keys.0 != keys.1);
        }
    }

    #[test]
    fn keys_that_begin_alike_are_a_range(
        schema in any_schema(),
        one in any_row(),
        two in any_row(),
        len in 0..5_usize,
    ) {
        let (one, two) = (values(&schema, &one), values(&schema, &two));
        for (number, index) in schema.indexes().iter().enumerate() {
            let columns: Vec<_> = index.key_columns().collect();
            let columns = &columns[..len.min(columns.len())];
            let mut prefix = Vec::new();
            let wanted = pick(&one, columns.iter().map(|&(id, _)| id));
            schema.index_prefix(number, &wanted, &mut prefix).expect("values of the columns");
            for row in [&one, &two] {
                let key = index_key_of(&schema, number, row);
                let begins = compare_by(columns.iter().copied(), &one, row).is_eq();
                prop_assert_eq!(key.starts_with(&prefix), begins);
                let mut end = Vec::new();
                let below = !end_of_prefix(&prefix, &mut end) || key < end;
                prop_assert_eq!(prefix <= key && below, begins);
            }
        }
    }
}

#[test]
fn keys_are_those_that_are_put_together_by_hand() {
    let schema = Schema::builder("t")
        .column("a", ColumnType::I64)
        .column("b", ColumnType::Text(9))
        .column("c", ColumnType::U32)
        .primary_key(["a", "b", "c"])
        .build()
        .expect("good");
    let mut key = Vec::new();
    schema
        .encode_key(&[(-7_i64).into(), (&b"x\0y"[..]).into(), 9_u32.into()], &mut key)
        .expect("good");
    assert_eq!(key, Key::new().i64(-7).bytes(b"x\0y").u32(9).done());
    schema.key_prefix(&[(-7_i64).into()], &mut key).expect("good");
    assert_eq!(key, Key::new().i64(-7).done());
}
