//! Stock level (clause 2.8). The standard permits a lower isolation level for it. Here it is
//! serializable like the other transactions.

use std::ops::ControlFlow;

use latchwork_cluster::Worker;
use latchwork_partition::TransactionRows;
use latchwork_txn::Range;
use latchwork_workload::tpcc::key::{DistrictKey, OrderLineKey, StockKey};
use latchwork_workload::tpcc::row::{District, OrderLine, Stock};
use latchwork_workload::tpcc::{STOCK_LEVEL_ORDERS, StockLevelInput, TpccTable};

use super::{Ended, Failure, Work};

impl<T: TransactionRows<Worker>> Work<'_, T> {
    pub(super) async fn stock_level(&mut self, input: &StockLevelInput) -> Result<Ended, Failure> {
        let StockLevelInput { warehouse, district, threshold } = *input;
        self.read(TpccTable::District, &DistrictKey { warehouse, district }.to_bytes()).await?;
        let next = District::decode(&self.buffers.row)?.next_order;

        let line = |order| OrderLineKey { warehouse, district, order, line: 0 }.to_bytes();
        let (from, to) = (line(next.saturating_sub(STOCK_LEVEL_ORDERS)), line(next));
        let (items, mut bad) = (&mut self.buffers.items, None);
        items.clear();
        let visit = |_: &[u8], row: &[u8]| match OrderLine::decode(row) {
            Ok(line) => {
                items.push(line.item);
                ControlFlow::Continue(())
            }
            Err(error) => {
                bad = Some(error);
                ControlFlow::Break(())
            }
        };
        let rows = self.tables.of(TpccTable::OrderLine);
        self.tx.scan(rows, Range::between(&from, &to), visit).await?;
        if let Some(bad) = bad {
            return Err(bad.into());
        }
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for at in 0..self.buffers.items.len() {
            let item = self.buffers.items[at];
            self.read(TpccTable::Stock, &StockKey { warehouse, item }.to_bytes()).await?;
            low += i64::from(Stock::decode(&self.buffers.row)?.quantity < threshold);
        }
        Ok(Ended { shown: low, ..Ended::default() })
    }
}
