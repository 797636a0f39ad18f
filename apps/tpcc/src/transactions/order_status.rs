//! Order status (clause 2.6).

use std::ops::ControlFlow;

use latchwork_cluster::Worker;
use latchwork_partition::TransactionRows;
use latchwork_txn::Range;
use latchwork_workload::tpcc::key::{CustomerKey, DistrictKey, OrderKey, OrderLineKey};
use latchwork_workload::tpcc::row::{BadRow, Customer, Order, OrderLine};
use latchwork_workload::tpcc::{OrderStatusInput, TpccTable};

use super::{Ended, Failure, Work, missing};
use crate::tables::INDEX;

impl<T: TransactionRows<Worker>> Work<'_, T> {
    pub(super) async fn order_status(
        &mut self,
        input: &OrderStatusInput,
    ) -> Result<Ended, Failure> {
        let OrderStatusInput { warehouse, district, .. } = *input;
        let district_key = DistrictKey { warehouse, district };
        let customer = self.customer(district_key, &input.customer).await?;
        let key = customer.to_bytes();
        self.read(TpccTable::Customer, &key).await?;
        let mut shown = Customer::decode(&self.buffers.row)?.balance_cents;

        // The index has the newest order of a customer first.
        let next = CustomerKey { customer: customer.customer + 1, ..customer }.to_bytes();
        let mut newest = None;
        let visit = |key: &[u8], row: &[u8]| {
            newest = Some((OrderKey::from_bytes(key), Order::decode(row)));
            ControlFlow::Break(())
        };
        let range = Range::between(&key, &next).limit(1);
        self.tx.scan_index(self.tables.of(TpccTable::Order), INDEX, range, visit).await?;
        let Some((order, row)) = newest else { return Err(missing(TpccTable::Order, &key)) };
        let bad = BadRow { table: TpccTable::Order.name(), len: 0 };
        let (OrderKey { order, .. }, row) = (order.ok_or(bad)?, row?);
        shown += i64::from(row.carrier.map_or(0, |carrier| carrier.get()));

        let line = |order| OrderLineKey { warehouse, district, order, line: 0 }.to_bytes();
        let (from, to) = (line(order), line(order + 1));
        let mut lines = Ok(0);
        let visit = |_: &[u8], row: &[u8]| match OrderLine::decode(row) {
            Ok(line) => {
                shown += i64::from(line.amount_cents);
                lines = lines.map(|count| count + 1);
                ControlFlow::Continue(())
            }
            Err(bad) => {
                lines = Err(bad);
                ControlFlow::Break(())
            }
        };
        let rows = self.tables.of(TpccTable::OrderLine);
        self.tx.scan(rows, Range::between(&from, &to), visit).await?;
        if lines? != row.lines {
            return Err(missing(TpccTable::OrderLine, &from));
        }
        Ok(Ended { shown, ..Ended::default() })
    }
}
