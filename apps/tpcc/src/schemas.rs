//! The nine tables of TPC-C (clause 1.3) and their two secondary indexes as schemas.

#[cfg(test)]
mod tests;

use latchwork_txn::schema::{ColumnType, Order, Schema, SchemaError};
use latchwork_workload::tpcc::{TpccColumnType, TpccIndex, TpccTable};

/// The schema of a table. The columns are those of `latchwork_workload::tpcc`, so rows and keys
/// have the same bytes in that crate and here. The columns that transactions change come first in a
/// row. `hot_rows` is the most rows that a line of WAREHOUSE or DISTRICT has, if there is a limit.
pub(crate) fn schema(table: TpccTable, hot_rows: Option<u16>) -> Result<Schema, SchemaError> {
    let columns = table.key_columns().chain(table.row_columns());
    let schema = columns
        .fold(Schema::builder(table.name()), |schema, column| {
            schema.column(column.name, column_type(column.kind))
        })
        .primary_key(table.key_columns().map(|column| column.name));
    let schema = match table {
        // Every payment writes such a row, and locks the other rows of the row's line.
        TpccTable::Warehouse | TpccTable::District => match hot_rows {
            Some(rows) => schema.rows_per_line(rows),
            None => schema,
        },
        TpccTable::Customer => schema.index(
            TpccIndex::CustomerByName.name(),
            ["C_W_ID", "C_D_ID", "C_LAST", "C_FIRST"].map(|name| (name, Order::Ascending)),
        ),
        TpccTable::Order => schema.index(
            TpccIndex::OrderByCustomer.name(),
            [
                ("O_W_ID", Order::Ascending),
                ("O_D_ID", Order::Ascending),
                ("O_C_ID", Order::Ascending),
                ("O_ID", Order::Descending),
            ],
        ),
        TpccTable::History
        | TpccTable::NewOrder
        | TpccTable::OrderLine
        | TpccTable::Item
        | TpccTable::Stock => schema,
    };
    schema.build()
}

fn column_type(kind: TpccColumnType) -> ColumnType {
    match kind {
        TpccColumnType::U8 => ColumnType::U8,
        TpccColumnType::U16 => ColumnType::U16,
        TpccColumnType::U32 => ColumnType::U32,
        TpccColumnType::U64 => ColumnType::U64,
        TpccColumnType::I16 => ColumnType::I16,
        TpccColumnType::I32 => ColumnType::I32,
        TpccColumnType::I64 => ColumnType::I64,
        TpccColumnType::Bytes(len) => ColumnType::Bytes(len),
        TpccColumnType::Text(len_max) => ColumnType::Text(len_max),
        TpccColumnType::Rest(_) => ColumnType::Blob,
    }
}
