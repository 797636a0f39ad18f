//! New order (clause 2.4).

use super::{Buffers, Ended, Failure, Work, missing, step};
use latchwork_cluster::Worker;
use latchwork_partition::TransactionRows;
use latchwork_workload::tpcc::key::{
    CustomerKey, DistrictKey, ItemKey, OrderKey, OrderLineKey, StockKey, WarehouseKey,
};
use latchwork_workload::tpcc::row::{
    Customer, District, Item, NewOrder, Order, OrderLine, Stock, Warehouse, order_total_cents,
};
use latchwork_workload::tpcc::values::is_original;
use latchwork_workload::tpcc::{LINES_MAX, NewOrderInput, TpccTable};

/// The values of a line that are known before the order has a number.
#[derive(Clone, Copy)]
struct Line {
    amount_cents: i32,
    district_info: [u8; 24],
}

impl<T: TransactionRows<Worker>> Work<'_, T> {
    pub(super) async fn new_order(&mut self, input: &NewOrderInput) -> Result<Ended, Failure> {
        let NewOrderInput { warehouse, district, .. } = *input;
        let customer = CustomerKey { warehouse, district, customer: input.customer }.to_bytes();
        self.tx.expect_places(self.tables.of(TpccTable::Customer), &[customer]);
        let mut lines = [Line { amount_cents: 0, district_info: [0; 24] }; LINES_MAX];
        let mut branded = 0;
        let (asked, items) = (input.lines(), &mut [[0; ItemKey::LEN]; LINES_MAX]);
        for (key, asked) in items.iter_mut().zip(asked) {
            *key = ItemKey { item: asked.item }.to_bytes();
        }
        let keys = &mut [[0; StockKey::LEN]; LINES_MAX];
        for (key, asked) in keys.iter_mut().zip(asked) {
            *key = StockKey { warehouse: asked.supply_warehouse, item: asked.item }.to_bytes();
        }
        self.tx.expect_places(self.tables.of(TpccTable::Stock), &keys[..asked.len()]);
        let [rows, stocks] = &mut self.buffers.many;
        self.tx.get_many(self.tables.of(TpccTable::Item), &items[..asked.len()], rows).await?;
        self.tx.expect(self.tables.of(TpccTable::Customer), &customer);
        // Lines behind an unused item are not ordered. The rest is done nevertheless (clause
        // 2.4.2.3).
        let taken = rows.iter().take_while(Option::is_some).count();
        let keys = &keys[..taken];
        self.tx.get_many_for_update(self.tables.of(TpccTable::Stock), keys, stocks).await?;
        // The bits of the items so far. An item with a bit outside of this set is not among them.
        let mut met = 0_u64;
        for (number, (asked, key)) in asked.iter().zip(keys).enumerate() {
            let bit = 1 << (asked.item % u64::BITS);
            let again = met & bit != 0 && keys[..number].contains(key);
            met |= bit;
            if again {
                // If the item is in the order twice, its row has changed since the first read.
                step!(self.read_to_write_now or read_to_write(TpccTable::Stock, key));
            }
            let Buffers { row, many: [items, stocks], .. } = &*self.buffers;
            let item = items.get(number).ok_or_else(|| missing(TpccTable::Item, key))?;
            let stock = match again {
                true => row,
                false => stocks.get(number).ok_or_else(|| missing(TpccTable::Stock, key))?,
            };
            let item = Item::decode(item)?;
            let mut stock = Stock::decode(stock)?;
            let (original, supply) = (is_original(item.data), asked.supply_warehouse);
            stock.take_out(asked.quantity, supply != warehouse);
            branded += i64::from(original && is_original(stock.data));
            let mut updated = [0; Stock::UPDATED_LEN];
            stock.write_updated(&mut updated);
            lines[number] = Line {
                amount_cents: i32::from(asked.quantity) * item.price_cents,
                district_info: *stock.district_info(district).unwrap_or(&[b' '; 24]),
            };
            step!(self.write_updated_now or write_updated(TpccTable::Stock, key, &updated));
        }
        step!(self.read_now or read(TpccTable::Customer, &customer));
        let discount_e4 = Customer::decode(&self.buffers.row)?.discount_e4;
        step!(self.read_now or read(TpccTable::Warehouse, &WarehouseKey { warehouse }.to_bytes()));
        let warehouse_tax_e4 = Warehouse::decode(&self.buffers.row)?.tax_e4;

        let key = DistrictKey { warehouse, district }.to_bytes();
        step!(self.read_to_write_now or read_to_write(TpccTable::District, &key));
        let mut row = District::decode(&self.buffers.row)?;
        let (order, district_tax_e4) = (row.next_order, row.tax_e4);
        row.next_order += 1;
        let mut updated = [0; District::UPDATED_LEN];
        row.write_updated(&mut updated);
        step!(self.write_updated_now or write_updated(TpccTable::District, &key, &updated));

        let key = OrderKey { warehouse, district, order }.to_bytes();
        let row = Order {
            carrier: None,
            customer: input.customer,
            entered_us: self.now_us.get(),
            lines: input.lines().len() as u8,
            all_local: input.all_local(),
        };
        row.encode(&mut self.buffers.made);
        step!(self.insert_now or insert(TpccTable::Order, &key));
        NewOrder {}.encode(&mut self.buffers.made);
        step!(self.insert_now or insert(TpccTable::NewOrder, &key));
        let mut sum_cents = 0;
        for ((number, line), asked) in (1..).zip(&lines[..taken]).zip(input.lines()) {
            let row = OrderLine {
                delivered_us: None,
                item: asked.item,
                supply_warehouse: asked.supply_warehouse,
                quantity: asked.quantity,
                amount_cents: line.amount_cents,
                district_info: &line.district_info,
            };
            row.encode(&mut self.buffers.made);
            let key = OrderLineKey { warehouse, district, order, line: number }.to_bytes();
            step!(self.insert_now or insert(TpccTable::OrderLine, &key));
            sum_cents += i64::from(line.amount_cents);
        }
        let total = order_total_cents(sum_cents, discount_e4, warehouse_tax_e4, district_tax_e4);
        let rolled_back = taken < input.lines().len();
        Ok(Ended { rolled_back, shown: total + branded, ..Ended::default() })
    }
}
