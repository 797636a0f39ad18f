//! One worker's handles on the nine tables.

use latchwork_cluster::Worker;
use latchwork_txn::{Database, TxnError};
use latchwork_workload::tpcc::TpccTable;

use crate::schemas;

/// A worker's handle on the database.
pub(crate) type Store = Database<Worker>;

/// A worker's handle on a table.
pub(crate) type Rows = latchwork_txn::Table<Worker>;

/// The number of the only secondary index of CUSTOMER, and of ORDER.
pub(crate) const INDEX: usize = 0;

/// The nine tables.
pub(crate) struct Tables(Vec<Rows>);

impl Tables {
    /// Makes all tables, empty, with so many rows in a line of the hot ones at most.
    pub(crate) async fn create(store: &Store, hot_rows: Option<u16>) -> Result<Tables, TxnError> {
        let mut tables = Vec::new();
        for table in TpccTable::ALL {
            tables.push(store.create_table(schemas::schema(table, hot_rows)?).await?);
        }
        Ok(Tables(tables))
    }

    /// Opens all tables.
    pub(crate) async fn open(store: &Store) -> Result<Tables, TxnError> {
        let mut tables = Vec::new();
        for table in TpccTable::ALL {
            tables.push(store.table(table.name()).await?);
        }
        Ok(Tables(tables))
    }

    /// All tables.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Rows> {
        self.0.iter()
    }

    /// One table.
    #[inline]
    pub(crate) fn of(&self, table: TpccTable) -> &Rows {
        // The handles are in the order of `TpccTable::ALL`, which is the order of the tables'
        // numbers.
        &self.0[table as usize]
    }
}
