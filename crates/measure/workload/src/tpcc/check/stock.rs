//! A check beyond the standard: each line of a new order has reduced a stock. The twelve conditions
//! do not cover STOCK, so they would not detect a lost update of STOCK.

use super::findings::{ConsistencyReport, STOCK};
use crate::tpcc::TpccTable;
use crate::tpcc::key::{OrderLineKey, StockKey};
use crate::tpcc::row::{BadRow, OrderLine, Stock};
use crate::tpcc::scale::Scale;

/// For each warehouse, compares three sums over STOCK with the order lines that the warehouse
/// supplied. S_YTD must equal the sum of their quantities, S_ORDER_CNT their number, and
/// S_REMOTE_CNT the number of remote lines.
///
/// The check needs all rows of STOCK and ORDER-LINE of the whole database, in any order. Several
/// workers can each take a part of the rows, and [`merge`](StockCheck::merge) adds their sums. The
/// check ignores lines of the initial population, because these lines reduced no stock.
///
/// Memory: 64 bytes for each warehouse.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct StockCheck {
    scale: Scale,
    warehouses: Vec<Sums>,
    /// Number of rows of warehouses that do not exist.
    strays: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Taken {
    quantity: u128,
    lines: u64,
    remote: u64,
}

#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Sums {
    by_stock: Taken,
    by_lines: Taken,
}

impl StockCheck {
    /// A check of a database of this scale with `warehouses` warehouses.
    pub fn new(scale: Scale, warehouses: u32) -> StockCheck {
        StockCheck { scale, warehouses: vec![Sums::default(); warehouses as usize], strays: 0 }
    }

    /// Adds a row. Rows of tables other than STOCK and ORDER-LINE are ignored.
    ///
    /// # Errors
    ///
    /// Fails when `key` or `row` does not belong to the table.
    pub fn add(&mut self, table: TpccTable, key: &[u8], row: &[u8]) -> Result<(), BadRow> {
        let bad = BadRow { table: table.name(), len: key.len() };
        match table {
            TpccTable::Stock => {
                let key = StockKey::from_bytes(key).ok_or(bad)?;
                self.stock(key, &Stock::decode(row)?);
            }
            TpccTable::OrderLine => {
                let key = OrderLineKey::from_bytes(key).ok_or(bad)?;
                self.order_line(key, &OrderLine::decode(row)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// A row of STOCK.
    pub fn stock(&mut self, key: StockKey, row: &Stock<'_>) {
        let Some(sums) = self.place(key.warehouse) else { return };
        sums.by_stock.quantity += u128::from(row.ytd);
        sums.by_stock.lines += u64::from(row.orders);
        sums.by_stock.remote += u64::from(row.remotes);
    }

    /// A row of ORDER-LINE.
    pub(crate) fn order_line(&mut self, key: OrderLineKey, row: &OrderLine<'_>) {
        if key.order <= self.scale.orders() {
            return;
        }
        let Some(sums) = self.place(row.supply_warehouse) else { return };
        sums.by_lines.quantity += u128::from(row.quantity);
        sums.by_lines.lines += 1;
        sums.by_lines.remote += u64::from(row.supply_warehouse != key.warehouse);
    }

    /// Adds the sums of another worker.
    pub fn merge(&mut self, other: &StockCheck) {
        for (mine, theirs) in self.warehouses.iter_mut().zip(&other.warehouses) {
            mine.by_stock.add(theirs.by_stock);
            mine.by_lines.add(theirs.by_lines);
        }
        self.strays += other.strays;
    }

    /// Compares the sums, and adds the findings to the report.
    pub fn finish_into(self, report: &mut ConsistencyReport) {
        for (warehouse, sums) in (1u32..).zip(&self.warehouses) {
            let Sums { by_stock, by_lines } = sums;
            report.findings().compare(STOCK, by_stock == by_lines, || {
                format!(
                    "warehouse {warehouse}: sums of S_YTD, S_ORDER_CNT and S_REMOTE_CNT are {}, {} and \
                     {}, of the lines that it supplied {}, {} and {}",
                    by_stock.quantity,
                    by_stock.lines,
                    by_stock.remote,
                    by_lines.quantity,
                    by_lines.lines,
                    by_lines.remote
                )
            });
        }
        if self.strays > 0 {
            report.findings().compare(STOCK, false, || {
                format!("{} rows name a warehouse that the database does not have", self.strays)
            });
        }
    }

    fn place(&mut self, warehouse: u32) -> Option<&mut Sums> {
        let sums = self.warehouses.get_mut((warehouse as usize).wrapping_sub(1));
        if sums.is_none() {
            self.strays += 1;
        }
        sums
    }
}

impl Taken {
    fn add(&mut self, other: Taken) {
        self.quantity += other.quantity;
        self.lines += other.lines;
        self.remote += other.remote;
    }
}
