//! The description of a database: its size, its origin, and the number of its runs.
//!
//! The description is one row of a table of its own. The program makes this table first, so that
//! its id is known, and the row can be found in a log before a database exists.

use latchwork_txn::schema::{ColumnType, ColumnValue, Schema, SchemaError};
use latchwork_txn::{TableId, TxnError};
use latchwork_wal::Replayed;
use latchwork_workload::WorkloadError;
use latchwork_workload::tpcc::key::RUN_MAX;
use latchwork_workload::tpcc::{Population, Scale, TpccTable};

use crate::tables::{Rows, Store};

/// The name of the table, and its id as the first table.
const NAME: &str = "TPC-C";
const ID: TableId = TableId(1);

/// The ids of the following tables, in the order of [`TpccTable::ALL`].
pub(crate) fn table_id(table: TpccTable) -> TableId {
    TableId(ID.0 + 1 + table as u32)
}

/// The constant column that distinguishes this table from others.
const MAGIC: u64 = 0x4c57_5450_4343_0001;

/// The description of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    pub(crate) warehouses: u32,
    pub(crate) items: u32,
    pub(crate) customers: u32,
    /// The seed of its population.
    pub(crate) seed: u64,
    /// Number of runs that have begun on it.
    pub(crate) runs: u16,
}

/// The key of the only row.
const KEY: [u8; 1] = [0];

fn schema() -> Result<Schema, SchemaError> {
    Schema::builder(NAME)
        .column("NUMBER", ColumnType::U8)
        .column("MAGIC", ColumnType::U64)
        .column("WAREHOUSES", ColumnType::U32)
        .column("ITEMS", ColumnType::U32)
        .column("CUSTOMERS", ColumnType::U32)
        .column("SEED", ColumnType::U64)
        .column("RUNS", ColumnType::U16)
        .primary_key(["NUMBER"])
        .build()
}

impl About {
    /// The description of a new database.
    pub(crate) fn new(population: &Population, seed: u64) -> About {
        let (scale, warehouses) = (population.scale(), population.warehouses());
        let (items, customers) = (scale.items(), scale.customers());
        About { warehouses, items, customers, seed, runs: 0 }
    }

    /// The database's population.
    pub(crate) fn population(&self) -> Result<Population, WorkloadError> {
        let scale = Scale::new(self.items, self.customers)?;
        Population::new(scale, self.warehouses, self.seed, 1)
    }

    /// Makes the table.
    pub(crate) async fn create(&self, store: &Store) -> Result<(), TxnError> {
        let rows = store.create_table(schema()?).await?;
        store.load(&rows, &KEY, &self.encode()?).await
    }

    /// The description after one more run. `None` if the database has had all numbers of runs.
    fn with_one_more_run(self) -> Option<About> {
        let runs = self.runs.checked_add(1).filter(|run| *run <= RUN_MAX)?;
        Some(About { runs, ..self })
    }

    /// Counts another run, and returns the run's number, from 1. `None` if the database has had all
    /// numbers of runs: rows of HISTORY of a further run would have the keys of earlier rows.
    pub(crate) async fn begin_run(store: &Store) -> Result<Option<u16>, TxnError> {
        let rows: Rows = store.table(NAME).await?;
        let run = async |tx: &mut latchwork_txn::Transaction<_>| {
            let mut row = Vec::new();
            tx.get_for_update(&rows, &KEY, &mut row).await?;
            let before = About::decode(&row)?.ok_or(TxnError::NotFound)?;
            let Some(after) = before.with_one_more_run() else { return Ok(None) };
            tx.update(&rows, &KEY, &after.encode()?).await?;
            Ok(Some(after.runs))
        };
        store.run(run).await
    }

    /// The description in a log; `None` if the log is of another program.
    pub(crate) fn find(replayed: &Replayed) -> Option<About> {
        let (_, latest) = replayed.keys().find(|(table, _)| *table == ID)?;
        let row = latest.value.as_deref().filter(|_| *latest.key == KEY)?;
        About::decode(row).ok().flatten()
    }

    fn encode(&self) -> Result<Vec<u8>, SchemaError> {
        let mut row = Vec::new();
        let values: [ColumnValue<'_>; 6] = [
            MAGIC.into(),
            self.warehouses.into(),
            self.items.into(),
            self.customers.into(),
            self.seed.into(),
            self.runs.into(),
        ];
        schema()?.encode_row(&values, &mut row)?;
        Ok(row)
    }

    fn decode(row: &[u8]) -> Result<Option<About>, SchemaError> {
        let schema = schema()?;
        let row = schema.row(row)?;
        let column = |name| schema.column(name);
        if row.u64(column("MAGIC")?)? != MAGIC {
            return Ok(None);
        }
        Ok(Some(About {
            warehouses: row.u32(column("WAREHOUSES")?)?,
            items: row.u32(column("ITEMS")?)?,
            customers: row.u32(column("CUSTOMERS")?)?,
            seed: row.u64(column("SEED")?)?,
            runs: row.u16(column("RUNS")?)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_read_again_and_other_rows_are_not() {
        let about = About { warehouses: 3, items: 50, customers: 20, seed: 7, runs: 65_535 };
        let mut row = about.encode().expect("a row");
        assert_eq!(About::decode(&row), Ok(Some(about)));
        row[0] ^= 1;
        assert_eq!(About::decode(&row), Ok(None));
        assert!(About::decode(&row[1..]).is_err());
        assert_eq!(about.population().expect("a population").warehouses(), 3);
    }

    #[test]
    fn a_database_has_no_run_without_a_number_of_its_own() {
        let runs = |runs| About { warehouses: 3, items: 50, customers: 20, seed: 7, runs };
        assert_eq!(runs(0).with_one_more_run(), Some(runs(1)));
        assert_eq!(runs(RUN_MAX - 1).with_one_more_run(), Some(runs(RUN_MAX)));
        assert_eq!(runs(RUN_MAX).with_one_more_run(), None);
        assert_eq!(runs(u16::MAX).with_one_more_run(), None);
    }
}
