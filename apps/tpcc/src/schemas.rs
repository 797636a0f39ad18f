//! The nine tables of TPC-C (clause 1.3) and their two secondary indexes as schemas.

#[cfg(test)]
mod tests;

use latchwork_txn::schema::{ColumnType, Order, Schema, SchemaBuilder, SchemaError};
use latchwork_workload::tpcc::{TpccIndex, TpccTable};

use ColumnType::{Blob, Bytes, I16, I32, I64, Text, U8, U16, U32, U64};

/// The schema of a table. Its rows and keys are those of `latchwork_workload::tpcc`, byte for byte.
/// The columns that transactions change stand first.
pub(crate) fn schema(table: TpccTable) -> Result<Schema, SchemaError> {
    let new = Schema::builder(table.name());
    let schema = match table {
        TpccTable::Warehouse => address(
            columns(new, &[("W_ID", U32), ("W_YTD", I64), ("W_TAX", U16)]),
            ["W_STATE", "W_ZIP", "W_NAME", "W_STREET_1", "W_STREET_2", "W_CITY"],
        )
        .primary_key(["W_ID"])
        // Every payment writes the row, and would lock the other rows of its line.
        .rows_per_line(1),
        TpccTable::District => address(
            columns(
                new,
                &[
                    ("D_W_ID", U32),
                    ("D_ID", U8),
                    ("D_YTD", I64),
                    ("D_NEXT_O_ID", U32),
                    ("D_TAX", U16),
                ],
            ),
            ["D_STATE", "D_ZIP", "D_NAME", "D_STREET_1", "D_STREET_2", "D_CITY"],
        )
        .primary_key(["D_W_ID", "D_ID"])
        .rows_per_line(1),
        TpccTable::Customer => columns(
            new,
            &[
                ("C_W_ID", U32),
                ("C_D_ID", U8),
                ("C_ID", U32),
                ("C_BALANCE", I64),
                ("C_YTD_PAYMENT", I64),
                ("C_PAYMENT_CNT", U32),
                ("C_DELIVERY_CNT", U32),
                ("C_CREDIT", U8),
                ("C_DISCOUNT", U16),
                ("C_CREDIT_LIM", I64),
                ("C_SINCE", U64),
                ("C_MIDDLE", Bytes(2)),
                ("C_STATE", Bytes(2)),
                ("C_ZIP", Bytes(9)),
                ("C_PHONE", Bytes(16)),
                ("C_FIRST", Text(16)),
                ("C_LAST", Text(16)),
                ("C_STREET_1", Text(20)),
                ("C_STREET_2", Text(20)),
                ("C_CITY", Text(20)),
                ("C_DATA", Blob),
            ],
        )
        .primary_key(["C_W_ID", "C_D_ID", "C_ID"])
        .index(
            TpccIndex::CustomerByName.name(),
            ["C_W_ID", "C_D_ID", "C_LAST", "C_FIRST"].map(|name| (name, Order::Ascending)),
        ),
        TpccTable::History => columns(
            new,
            &[
                ("H_W_ID", U32),
                ("H_D_ID", U8),
                // The standard defines no key; this number is one.
                ("H_NUMBER", U64),
                ("H_C_W_ID", U32),
                ("H_C_D_ID", U8),
                ("H_C_ID", U32),
                ("H_DATE", U64),
                ("H_AMOUNT", I32),
                ("H_DATA", Blob),
            ],
        )
        .primary_key(["H_W_ID", "H_D_ID", "H_NUMBER"]),
        TpccTable::NewOrder => columns(new, &[("NO_W_ID", U32), ("NO_D_ID", U8), ("NO_O_ID", U32)])
            .primary_key(["NO_W_ID", "NO_D_ID", "NO_O_ID"]),
        TpccTable::Order => columns(
            new,
            &[
                ("O_W_ID", U32),
                ("O_D_ID", U8),
                ("O_ID", U32),
                ("O_CARRIER_ID", U8),
                ("O_C_ID", U32),
                ("O_ENTRY_D", U64),
                ("O_OL_CNT", U8),
                ("O_ALL_LOCAL", U8),
            ],
        )
        .primary_key(["O_W_ID", "O_D_ID", "O_ID"])
        .index(
            TpccIndex::OrderByCustomer.name(),
            [
                ("O_W_ID", Order::Ascending),
                ("O_D_ID", Order::Ascending),
                ("O_C_ID", Order::Ascending),
                ("O_ID", Order::Descending),
            ],
        ),
        TpccTable::OrderLine => columns(
            new,
            &[
                ("OL_W_ID", U32),
                ("OL_D_ID", U8),
                ("OL_O_ID", U32),
                ("OL_NUMBER", U8),
                ("OL_DELIVERY_D", U64),
                ("OL_I_ID", U32),
                ("OL_SUPPLY_W_ID", U32),
                ("OL_QUANTITY", U8),
                ("OL_AMOUNT", I32),
                ("OL_DIST_INFO", Bytes(24)),
            ],
        )
        .primary_key(["OL_W_ID", "OL_D_ID", "OL_O_ID", "OL_NUMBER"]),
        TpccTable::Item => columns(
            new,
            &[
                ("I_ID", U32),
                ("I_IM_ID", U32),
                ("I_PRICE", I32),
                ("I_NAME", Text(24)),
                ("I_DATA", Blob),
            ],
        )
        .primary_key(["I_ID"]),
        TpccTable::Stock => {
            let updated =
                [("S_QUANTITY", I16), ("S_YTD", U32), ("S_ORDER_CNT", U32), ("S_REMOTE_CNT", U32)];
            let mut stock = columns(columns(new, &[("S_W_ID", U32), ("S_I_ID", U32)]), &updated);
            for district in 1..=10 {
                stock = stock.column(format!("S_DIST_{district:02}"), Bytes(24));
            }
            stock.column("S_DATA", Blob).primary_key(["S_W_ID", "S_I_ID"])
        }
    };
    schema.build()
}

fn columns(schema: SchemaBuilder, columns: &[(&str, ColumnType)]) -> SchemaBuilder {
    columns.iter().fold(schema, |schema, &(name, kind)| schema.column(name, kind))
}

/// The common columns of WAREHOUSE and DISTRICT: state and zip, then name, streets and city.
fn address(schema: SchemaBuilder, names: [&str; 6]) -> SchemaBuilder {
    let kinds = [Bytes(2), Bytes(9), Text(10), Text(20), Text(20), Text(20)];
    names.iter().zip(kinds).fold(schema, |schema, (name, kind)| schema.column(*name, kind))
}
