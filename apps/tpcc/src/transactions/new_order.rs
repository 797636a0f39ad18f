//! New order (clause 2.4).

use super::{Ended, Failure, Work};
use latchwork_partition::Rows;
use latchwork_selcc::Worker;
use latchwork_workload::tpcc::key::{
    CustomerKey, DistrictKey, ItemKey, OrderKey, OrderLineKey, StockKey, WarehouseKey,
};
use latchwork_workload::tpcc::row::{
    Customer, District, Item, NewOrder, Order, OrderLine, Stock, Warehouse, order_total_cents,
};
use latchwork_workload::tpcc::values::is_original;
use latchwork_workload::tpcc::{LINES_MAX, NewOrderInput, Table};

/// What is known of a line before the order has a number.
#[derive(Clone, Copy)]
struct Line {
    amount_cents: i32,
    district_info: [u8; 24],
}

impl<T: Rows<Worker>> Work<'_, T> {
    pub(super) async fn new_order(&mut self, input: &NewOrderInput) -> Result<Ended, Failure> {
        let NewOrderInput { warehouse, district, .. } = *input;
        let mut lines = [Line { amount_cents: 0, district_info: [0; 24] }; LINES_MAX];
        let mut taken = 0;
        let mut branded = 0;
        for (line, asked) in lines.iter_mut().zip(input.lines()) {
            let key = ItemKey { item: asked.item }.to_bytes();
            let rows = self.tables.of(Table::Item);
            if !self.tx.get(rows, &key, &mut self.buffers.row).await? {
                // Nobody sells it. The rest is done nevertheless (clause 2.4.2.3).
                break;
            }
            let item = Item::decode(&self.buffers.row)?;
            let (price, original) = (item.price_cents, is_original(item.data));
            let supply = asked.supply_warehouse;
            let key = StockKey { warehouse: supply, item: asked.item }.to_bytes();
            self.read_to_write(Table::Stock, &key).await?;
            let mut stock = Stock::decode(&self.buffers.row)?;
            stock.take_out(asked.quantity, supply != warehouse);
            branded += i64::from(original && is_original(stock.data));
            let mut updated = [0; Stock::UPDATED_LEN];
            stock.write_updated(&mut updated);
            *line = Line {
                amount_cents: i32::from(asked.quantity) * price,
                district_info: *stock.district_info(district).unwrap_or(&[b' '; 24]),
            };
            self.write_updated(Table::Stock, &key, &updated).await?;
            taken += 1;
        }
        let customer = CustomerKey { warehouse, district, customer: input.customer };
        self.read(Table::Customer, &customer.to_bytes()).await?;
        let discount_e4 = Customer::decode(&self.buffers.row)?.discount_e4;
        self.read(Table::Warehouse, &WarehouseKey { warehouse }.to_bytes()).await?;
        let warehouse_tax_e4 = Warehouse::decode(&self.buffers.row)?.tax_e4;

        let key = DistrictKey { warehouse, district }.to_bytes();
        self.read_to_write(Table::District, &key).await?;
        let mut row = District::decode(&self.buffers.row)?;
        let (order, district_tax_e4) = (row.next_order, row.tax_e4);
        row.next_order += 1;
        let mut updated = [0; District::UPDATED_LEN];
        row.write_updated(&mut updated);
        self.write_updated(Table::District, &key, &updated).await?;

        let key = OrderKey { warehouse, district, order }.to_bytes();
        let row = Order {
            carrier: None,
            customer: input.customer,
            entered_us: self.now_us.get(),
            lines: input.lines().len() as u8,
            all_local: input.all_local(),
        };
        row.encode(&mut self.buffers.made);
        self.insert(Table::Order, &key).await?;
        NewOrder {}.encode(&mut self.buffers.made);
        self.insert(Table::NewOrder, &key).await?;
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
            self.insert(Table::OrderLine, &key).await?;
            sum_cents += i64::from(line.amount_cents);
        }
        let total = order_total_cents(sum_cents, discount_e4, warehouse_tax_e4, district_tax_e4);
        let rolled_back = taken < input.lines().len();
        Ok(Ended { rolled_back, shown: total + branded, ..Ended::default() })
    }
}
