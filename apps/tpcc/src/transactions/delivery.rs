//! Delivery (clause 2.7), executed at once and not from a queue.

use std::ops::ControlFlow;

use latchwork_cluster::Worker;
use latchwork_partition::TransactionRows;
use latchwork_txn::Range;
use latchwork_workload::tpcc::key::{CustomerKey, OrderKey, OrderLineKey};
use latchwork_workload::tpcc::row::{BadRow, Customer, Order, OrderLine};
use latchwork_workload::tpcc::{DISTRICTS, DeliveryInput, TpccTable};

use super::{Ended, Failure, Work, missing};

impl<T: TransactionRows<Worker>> Work<'_, T> {
    pub(super) async fn delivery(&mut self, input: &DeliveryInput) -> Result<Ended, Failure> {
        let mut ended = Ended::default();
        for district in 1..=DISTRICTS {
            match self.deliver_oldest(input, district).await? {
                Some(amount_cents) => ended.shown += amount_cents,
                None => ended.skipped += 1,
            }
        }
        Ok(ended)
    }

    /// Delivers the oldest new order of a district, if it has any. Returns the amount.
    async fn deliver_oldest(
        &mut self,
        input: &DeliveryInput,
        district: u8,
    ) -> Result<Option<i64>, Failure> {
        let warehouse = input.warehouse;
        let first = |district| OrderKey { warehouse, district, order: 0 }.to_bytes();
        let (from, to) = (first(district), first(district + 1));
        let mut oldest = None;
        let visit = |key: &[u8], _: &[u8]| {
            oldest = Some(OrderKey::from_bytes(key).ok_or(key.len()));
            ControlFlow::Break(())
        };
        let new_orders = self.tables.of(TpccTable::NewOrder);
        self.tx.scan(new_orders, Range::between(&from, &to).limit(1), visit).await?;
        let bad = |len| BadRow { table: TpccTable::NewOrder.name(), len };
        let Some(oldest) = oldest else { return Ok(None) };
        let oldest: OrderKey = oldest.map_err(bad)?;
        let key = oldest.to_bytes();
        self.tx.delete(new_orders, &key).await?;

        self.read_to_write(TpccTable::Order, &key).await?;
        let row = Order { carrier: Some(input.carrier), ..Order::decode(&self.buffers.row)? };
        let (customer, line_count) = (row.customer, usize::from(row.lines));
        let mut updated = [0; Order::UPDATED_LEN];
        row.write_updated(&mut updated);
        self.write_updated(TpccTable::Order, &key, &updated).await?;

        let line = |order, line| OrderLineKey { warehouse, district, order, line }.to_bytes();
        let (from, to) = (line(oldest.order, 0), line(oldest.order + 1, 0));
        let (lines, mut amount_cents, mut bad) = (&mut self.buffers.lines, 0, None);
        lines.clear();
        let visit = |key: &[u8], row: &[u8]| {
            match (OrderLineKey::from_bytes(key), OrderLine::decode(row)) {
                (Some(key), Ok(row)) => {
                    lines.push(key.line);
                    amount_cents += i64::from(row.amount_cents);
                    return ControlFlow::Continue(());
                }
                (_, Err(error)) => bad = Some(error),
                (None, _) => {
                    bad = Some(BadRow { table: TpccTable::OrderLine.name(), len: key.len() })
                }
            }
            ControlFlow::Break(())
        };
        let rows = self.tables.of(TpccTable::OrderLine);
        self.tx.scan(rows, Range::between(&from, &to), visit).await?;
        if let Some(bad) = bad {
            return Err(bad.into());
        }
        if self.buffers.lines.len() != line_count {
            return Err(missing(TpccTable::OrderLine, &from));
        }
        // Delivery changes only the delivery time of an order line.
        let updated: [u8; OrderLine::UPDATED_LEN] = self.now_us.get().to_le_bytes();
        for at in 0..line_count {
            let key = line(oldest.order, self.buffers.lines[at]);
            self.write_updated(TpccTable::OrderLine, &key, &updated).await?;
        }

        let key = CustomerKey { warehouse, district, customer }.to_bytes();
        self.read_to_write(TpccTable::Customer, &key).await?;
        let mut row = Customer::decode(&self.buffers.row)?;
        row.balance_cents += amount_cents;
        row.deliveries += 1;
        let mut updated = [0; Customer::UPDATED_LEN];
        row.write_updated(&mut updated);
        self.write_updated(TpccTable::Customer, &key, &updated).await?;
        Ok(Some(amount_cents))
    }
}
