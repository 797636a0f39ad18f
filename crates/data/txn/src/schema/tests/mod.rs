//! Tests of schemas, mostly on random tables: [`any_schema`].

mod bytes;
mod changes;
mod order;
mod refused;
mod stored;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index as Pick;

use super::column::number;
use super::{ColumnId, ColumnType, ColumnValue, Order, Schema};

/// Types with short values, so that two rows often agree in some of them.
fn any_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        Just(ColumnType::U8),
        Just(ColumnType::U16),
        Just(ColumnType::U32),
        Just(ColumnType::U64),
        Just(ColumnType::I16),
        Just(ColumnType::I32),
        Just(ColumnType::I64),
        (1..4_u16).prop_map(ColumnType::Bytes),
        (1..5_u8).prop_map(ColumnType::Text),
        (1..5_u8).prop_map(ColumnType::Text),
    ]
}

/// A table of up to seven columns, sometimes with a blob, and with up to two secondary indexes.
fn any_schema() -> impl Strategy<Value = Schema> {
    let index = (any::<bool>(), vec((any::<Pick>(), any::<bool>()), 1..4));
    let parts = (vec(any_type(), 1..7), any::<bool>(), vec(any::<Pick>(), 1..4));
    (parts, vec(index, 0..3), 0..3_u16).prop_map(|((kinds, blob, key), indexes, rows)| {
        let names: Vec<String> = (0..kinds.len()).map(|at| format!("c{at}")).collect();
        let name = |pick: &Pick| names[pick.index(names.len())].as_str();
        let mut schema = Schema::builder("any");
        for (name, kind) in names.iter().zip(&kinds) {
            schema = schema.column(name, *kind);
        }
        if blob {
            schema = schema.column("blob", ColumnType::Blob);
        }
        let mut columns: Vec<&str> = Vec::new();
        for column in key.iter().map(name) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        schema = schema.primary_key(columns);
        for (at, (unique, parts)) in indexes.iter().enumerate() {
            let mut columns: Vec<(&str, Order)> = Vec::new();
            for (pick, descending) in parts {
                if !columns.iter().any(|&(column, _)| column == name(pick)) {
                    columns.push((name(pick), order(*descending)));
                }
            }
            schema = match unique {
                true => schema.unique_index(format!("i{at}"), columns),
                false => schema.index(format!("i{at}"), columns),
            };
        }
        let schema = if rows > 0 { schema.rows_per_line(rows) } else { schema };
        schema.build().expect("nothing is wrong with it")
    })
}

fn order(descending: bool) -> Order {
    if descending { Order::Descending } else { Order::Ascending }
}

/// The seed of a column's value, for any type.
type Seed = (u8, u64, Vec<u8>);

fn any_seed() -> impl Strategy<Value = Seed> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(97), Just(254), Just(255)];
    (0..8_u8, any::<u64>(), vec(byte, 0..5))
}

/// A seed for each column that a table of [`any_schema`] may have.
fn any_row() -> impl Strategy<Value = Vec<Seed>> {
    vec(any_seed(), 7)
}

/// A value of a type. The minimum, the maximum and their neighbours are more frequent than other
/// numbers.
fn value(kind: ColumnType, (choice, random, bytes): &Seed) -> ColumnValue<'static> {
    let sized = |len: usize| {
        let mut bytes = bytes.clone();
        bytes.resize(len, 0);
        ColumnValue::Bytes(bytes.into())
    };
    match kind {
        ColumnType::Bytes(len) => sized(len.into()),
        ColumnType::Text(max) => sized(bytes.len().min(max.into())),
        ColumnType::Blob => sized(bytes.len()),
        kind => {
            let len = kind.fixed_len().expect("a number");
            let low_first = match choice {
                0 => 0,
                1 => 1,
                2 => u64::MAX,
                3 => u64::MAX - 1,
                4 => 1 << (8 * len - 1),
                5 => (1 << (8 * len - 1)) - 1,
                6 => 256_u64 & (u64::MAX >> (64 - 8 * len)),
                _ => *random,
            };
            number(kind, &low_first.to_le_bytes()[..len])
        }
    }
}

/// A row of a table: the value of each column.
fn values(schema: &Schema, seeds: &[Seed]) -> Vec<ColumnValue<'static>> {
    let columns = schema.columns().iter().zip(seeds);
    columns.map(|(column, seed)| value(column.column_type(), seed)).collect()
}

fn pick<'v>(
    all: &[ColumnValue<'v>],
    columns: impl IntoIterator<Item = ColumnId>,
) -> Vec<ColumnValue<'v>> {
    columns.into_iter().map(|id| all[id.index()].clone()).collect()
}

fn key_of(schema: &Schema, all: &[ColumnValue<'_>]) -> Vec<u8> {
    let mut key = Vec::new();
    schema.encode_key(&pick(all, schema.key_columns()), &mut key).expect("values of the columns");
    key
}

fn row_of(schema: &Schema, all: &[ColumnValue<'_>]) -> Vec<u8> {
    let mut row = Vec::new();
    let values = pick(all, schema.row_columns().iter().copied());
    schema.encode_row(&values, &mut row).expect("values of the columns");
    row
}

fn index_key_of(schema: &Schema, index: usize, all: &[ColumnValue<'_>]) -> Vec<u8> {
    let mut out = vec![77];
    schema
        .index_key(index, &key_of(schema, all), &row_of(schema, all), &mut out)
        .expect("a key and a row");
    out
}
