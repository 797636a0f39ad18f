//! New order (clause 2.4).
//!
//! The steps of clause 2.4.2.2, in the order in which they run:
//!
//! ```text
//!   items        the price of each ordered item; an unused item ends the list (2.4.2.3)
//!   stocks       each line takes its quantity out of the stock of its supplier
//!   customer     the discount
//!   warehouse    the tax
//!   district     the tax, and the number of the new order, which the district then increments
//!   order        a row of ORDER and a row of NEW-ORDER
//!   lines        a row of ORDER-LINE for each line
//! ```
//!
//! The district comes late, because other new orders of the district wait while this transaction
//! has its row locked.

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

use super::{Buffers, Ended, Failure, Work, missing};

/// The values of an order line that are known before the order has a number.
#[derive(Clone, Copy)]
struct Line {
    amount_cents: i32,
    district_info: [u8; 24],
}

impl<T: TransactionRows<Worker>> Work<'_, T> {
    pub(super) async fn new_order(&mut self, input: &NewOrderInput) -> Result<Ended, Failure> {
        let NewOrderInput { warehouse, district, .. } = *input;
        let customer = CustomerKey { warehouse, district, customer: input.customer }.to_bytes();
        let mut stocks = [[0; StockKey::LEN]; LINES_MAX];
        for (key, line) in stocks.iter_mut().zip(input.lines()) {
            *key = StockKey { warehouse: line.supply_warehouse, item: line.item }.to_bytes();
        }
        self.tx.expect_places(self.tables.of(TpccTable::Customer), &[customer]);
        let asked = &stocks[..input.lines().len()];
        self.tx.expect_places(self.tables.of(TpccTable::Stock), asked);

        let taken = self.read_items(input).await?;
        self.tx.expect(self.tables.of(TpccTable::Customer), &customer);
        let mut lines = [Line { amount_cents: 0, district_info: [b' '; 24] }; LINES_MAX];
        let lines = &mut lines[..taken];
        let branded = self.take_out_of_stock(input, &stocks[..taken], lines).await?;
        let discount_e4 = self.read_discount(&customer).await?;
        let warehouse_tax_e4 = self.read_warehouse_tax(warehouse).await?;
        let place = DistrictKey { warehouse, district };
        let (order, district_tax_e4) = self.take_order_number(place).await?;
        let order = OrderKey { warehouse, district, order };
        self.insert_order(order, input).await?;
        let sum_cents = self.insert_lines(order, input, lines).await?;

        let total = order_total_cents(sum_cents, discount_e4, warehouse_tax_e4, district_tax_e4);
        let rolled_back = taken < input.lines().len();
        Ok(Ended { rolled_back, shown: total + branded, ..Ended::default() })
    }

    /// Reads the items of all lines. Returns the number of lines before the first unused item.
    /// Later lines are not ordered. The other steps of the transaction run nevertheless (clause
    /// 2.4.2.3).
    async fn read_items(&mut self, input: &NewOrderInput) -> Result<usize, Failure> {
        let mut keys = [[0; ItemKey::LEN]; LINES_MAX];
        for (key, line) in keys.iter_mut().zip(input.lines()) {
            *key = ItemKey { item: line.item }.to_bytes();
        }
        let (keys, [items, _]) = (&keys[..input.lines().len()], &mut self.buffers.many);
        self.tx.get_many(self.tables.of(TpccTable::Item), keys, items).await?;
        Ok(items.iter().take_while(Option::is_some).count())
    }

    /// Takes the quantity of each line out of its stock, and fills `lines`. Returns the number of
    /// lines whose item data and stock data both have the mark "ORIGINAL".
    async fn take_out_of_stock(
        &mut self,
        input: &NewOrderInput,
        keys: &[[u8; StockKey::LEN]],
        lines: &mut [Line],
    ) -> Result<i64, Failure> {
        let [_, stocks] = &mut self.buffers.many;
        self.tx.get_many_for_update(self.tables.of(TpccTable::Stock), keys, stocks).await?;
        let mut branded = 0;
        // The set of the items so far, as bits. If the bit of an item is not set, the item is not
        // among them.
        let mut met = 0_u64;
        for (number, (asked, key)) in input.lines().iter().zip(keys).enumerate() {
            let bit = 1 << (asked.item % u64::BITS);
            let again = met & bit != 0 && keys[..number].contains(key);
            met |= bit;
            if again {
                // The first line with this item has changed the stock, so the row is read again.
                self.read_to_write(TpccTable::Stock, key).await?;
            }
            let Buffers { row, many: [items, stocks], .. } = &*self.buffers;
            let item = items.get(number).ok_or_else(|| missing(TpccTable::Item, key))?;
            let stock = match again {
                true => row,
                false => stocks.get(number).ok_or_else(|| missing(TpccTable::Stock, key))?,
            };
            let item = Item::decode(item)?;
            let mut stock = Stock::decode(stock)?;
            stock.take_out(asked.quantity, asked.supply_warehouse != input.warehouse);
            branded += i64::from(is_original(item.data) && is_original(stock.data));
            let line = &mut lines[number];
            line.amount_cents = i32::from(asked.quantity) * item.price_cents;
            if let Some(info) = stock.district_info(input.district) {
                line.district_info = *info;
            }
            let mut updated = [0; Stock::UPDATED_LEN];
            stock.write_updated(&mut updated);
            self.write_updated(TpccTable::Stock, key, &updated).await?;
        }
        Ok(branded)
    }

    /// The customer's discount.
    async fn read_discount(&mut self, customer: &[u8]) -> Result<u16, Failure> {
        self.read(TpccTable::Customer, customer).await?;
        Ok(Customer::decode(&self.buffers.row)?.discount_e4)
    }

    /// The warehouse's tax.
    async fn read_warehouse_tax(&mut self, warehouse: u32) -> Result<u16, Failure> {
        self.read(TpccTable::Warehouse, &WarehouseKey { warehouse }.to_bytes()).await?;
        Ok(Warehouse::decode(&self.buffers.row)?.tax_e4)
    }

    /// Takes the next order number of a district. Returns the number and the district's tax.
    async fn take_order_number(&mut self, district: DistrictKey) -> Result<(u32, u16), Failure> {
        let key = district.to_bytes();
        self.read_to_write(TpccTable::District, &key).await?;
        let mut row = District::decode(&self.buffers.row)?;
        let (order, tax_e4) = (row.next_order, row.tax_e4);
        row.next_order += 1;
        let mut updated = [0; District::UPDATED_LEN];
        row.write_updated(&mut updated);
        self.write_updated(TpccTable::District, &key, &updated).await?;
        Ok((order, tax_e4))
    }

    /// Adds the order to ORDER and to NEW-ORDER.
    async fn insert_order(
        &mut self,
        order: OrderKey,
        input: &NewOrderInput,
    ) -> Result<(), Failure> {
        let key = order.to_bytes();
        let row = Order {
            carrier: None,
            customer: input.customer,
            entered_us: self.now_us.get(),
            lines: input.lines().len() as u8,
            all_local: input.all_local(),
        };
        row.encode(&mut self.buffers.made);
        self.insert(TpccTable::Order, &key).await?;
        NewOrder {}.encode(&mut self.buffers.made);
        self.insert(TpccTable::NewOrder, &key).await
    }

    /// Adds the lines of an order. Returns the sum of their amounts.
    async fn insert_lines(
        &mut self,
        order: OrderKey,
        input: &NewOrderInput,
        lines: &[Line],
    ) -> Result<i64, Failure> {
        let OrderKey { warehouse, district, order } = order;
        let mut sum_cents = 0;
        for ((number, line), asked) in (1..).zip(lines).zip(input.lines()) {
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
            self.insert(TpccTable::OrderLine, &key).await?;
            sum_cents += i64::from(line.amount_cents);
        }
        Ok(sum_cents)
    }
}
