//! The number of rows and bytes of a population.

use super::populate::{Loaded, Population};
use super::scale::DISTRICTS;
use super::{TpccIndex, TpccTable};

/// Rows of a table or entries of an index, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableSize {
    /// Rows, or entries.
    pub rows: u64,
    /// Bytes of their keys.
    pub key_bytes: u64,
    /// Bytes of the rows; 0 for an index.
    pub row_bytes: u64,
}

impl TableSize {
    fn add(&mut self, key: &[u8], row: &[u8]) {
        self.rows += 1;
        self.key_bytes += key.len() as u64;
        self.row_bytes += row.len() as u64;
    }

    fn times(self, factor: u64, divisor: u64) -> TableSize {
        let scaled =
            |n: u64| (u128::from(n) * u128::from(factor) / u128::from(divisor.max(1))) as u64;
        TableSize {
            rows: scaled(self.rows),
            key_bytes: scaled(self.key_bytes),
            row_bytes: scaled(self.row_bytes),
        }
    }
}

/// Sizes of all tables and indexes. The sizes do not include a store's overhead per row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Census {
    tables: [TableSize; TpccTable::ALL.len()],
    indexes: [TableSize; TpccIndex::ALL.len()],
}

impl Census {
    /// Counts a row.
    pub fn add(&mut self, loaded: &Loaded<'_>) {
        self.tables[loaded.table as usize].add(loaded.key, loaded.row);
        if let Some((index, key)) = loaded.index {
            self.indexes[index as usize].add(key, &[]);
        }
    }

    /// A table's size.
    pub fn table(&self, table: TpccTable) -> TableSize {
        self.tables[table as usize]
    }

    /// An index's size.
    pub fn index(&self, index: TpccIndex) -> TableSize {
        self.indexes[index as usize]
    }

    /// Bytes of all rows and keys.
    pub fn bytes(&self) -> u64 {
        let sizes = self.tables.iter().chain(&self.indexes);
        sizes.map(|size| size.key_bytes + size.row_bytes).sum()
    }
}

impl Population {
    /// The approximate size of the whole population, from a sample: one part of each table. A
    /// program can check before a load whether the data fits.
    pub fn estimate(&self) -> Census {
        let mut census = Census::default();
        // The tables that have been sampled.
        let mut seen = [false; TpccTable::ALL.len()];
        for part in (0..self.part_count()).map_while(|number| self.part(number)) {
            if seen.iter().all(|seen| *seen) {
                break;
            }
            let table = part.table;
            if std::mem::replace(&mut seen[table as usize], true) {
                continue;
            }
            let mut rows = self.rows(part);
            let mut partial = Census::default();
            while let Some(loaded) = rows.next() {
                partial.add(&loaded);
            }
            let warehouses = u64::from(self.warehouses());
            let sampled = partial.table(table).rows;
            let (factor, divisor) = match table {
                TpccTable::Item => (u64::from(self.scale().items()), sampled),
                TpccTable::Stock => (u64::from(self.scale().items()) * warehouses, sampled),
                TpccTable::Warehouse | TpccTable::District => (warehouses, 1),
                _ => (warehouses * u64::from(DISTRICTS), 1),
            };
            census.tables[table as usize] = partial.table(table).times(factor, divisor);
            if let Some(index) = table.index() {
                census.indexes[index as usize] = partial.index(index).times(factor, divisor);
            }
        }
        census
    }
}
