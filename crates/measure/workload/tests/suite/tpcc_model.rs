//! Runs the five transactions on tables in memory. The twelve conditions hold after many
//! transactions. The check detects a transaction that is lost, torn or done twice.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use latchwork_workload::tpcc::check::{ConsistencyCheck, ConsistencyReport, StockCheck};
use latchwork_workload::tpcc::key::{
    CustomerKey, DistrictKey, HistoryKey, ItemKey, OrderKey, OrderLineKey, StockKey, WarehouseKey,
    customer_name_prefix, customer_of_name_key, history_number, order_by_customer_key,
    order_of_customer_key,
};
use latchwork_workload::tpcc::row::{
    Credit, Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse,
    note_payment, order_total_cents,
};
use latchwork_workload::tpcc::{
    CustomerChoice, DISTRICTS, DeliveryInput, Home, InputSettings, NewOrderInput, OrderStatusInput,
    PaymentInput, Population, STOCK_LEVEL_ORDERS, Scale, StockLevelInput, Terminal, TpccIndex,
    TpccTable, TpccTransaction, TransactionKind,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone)]
struct Model {
    scale: Scale,
    warehouses: u32,
    tables: Vec<Rows>,
    indexes: Vec<Rows>,
    clock_us: u64,
    payments: u32,
    delivered: u32,
    /// The error that every tenth transaction of one kind has, if any.
    fault: Option<Fault>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    /// A payment's update of the warehouse is overwritten.
    LostWarehouse,
    /// A payment's update of its customer is overwritten.
    LostCustomer,
    /// Two new orders see the same next number.
    SameOrder,
    /// The last line of a new order is missing.
    TornOrder,
    /// A delivery does not remove the row of NEW-ORDER.
    DeliveredTwice,
    /// A part of a new order exists although the order should have been rolled back.
    NotRolledBack,
    /// A new order's update of its first stock is overwritten.
    LostStock,
}

/// A rollback that the input requested.
struct RolledBack;

impl Model {
    fn new(scale: Scale, warehouses: u32) -> (Model, InputSettings) {
        let population = Population::new(scale, warehouses, 4, 100).unwrap();
        let tables = vec![Rows::new(); TpccTable::ALL.len()];
        let indexes = vec![Rows::new(); TpccIndex::ALL.len()];
        let (clock_us, payments, delivered, fault) = (1_000, 0, 0, None);
        let mut model =
            Model { scale, warehouses, tables, indexes, clock_us, payments, delivered, fault };
        for part in (0..population.part_count()).map_while(|number| population.part(number)) {
            let mut rows = population.rows(part);
            while let Some(loaded) = rows.next() {
                model.tables[loaded.table as usize]
                    .insert(loaded.key.to_vec(), loaded.row.to_vec());
                if let Some((index, key)) = loaded.index {
                    model.indexes[index as usize].insert(key.to_vec(), loaded.key.to_vec());
                }
            }
        }
        let settings = InputSettings::standard(scale, warehouses, population.constants(), 6);
        (model, settings)
    }

    fn get(&self, table: TpccTable, key: &[u8]) -> Vec<u8> {
        self.tables[table as usize].get(key).unwrap_or_else(|| panic!("no {table:?}")).clone()
    }

    fn insert(&mut self, table: TpccTable, key: &[u8], row: Vec<u8>) {
        let before = self.tables[table as usize].insert(key.to_vec(), row);
        assert!(before.is_none() || self.fault.is_some(), "{table:?} has the key already");
    }

    /// Updates the head of a row: the bytes that transactions change.
    fn head(&mut self, table: TpccTable, key: &[u8], write: impl FnOnce(&mut [u8])) {
        write(self.tables[table as usize].get_mut(key).expect("the row is there"));
    }

    fn customer(&self, at: DistrictKey, choice: &CustomerChoice) -> CustomerKey {
        let DistrictKey { warehouse, district } = at;
        let name = match choice {
            CustomerChoice::Number(customer) => {
                return CustomerKey { warehouse, district, customer: *customer };
            }
            CustomerChoice::LastName(name) => name,
        };
        let mut prefix = Vec::new();
        customer_name_prefix(at, name.as_bytes(), &mut prefix);
        let index = &self.indexes[TpccIndex::CustomerByName as usize];
        let named: Vec<&Vec<u8>> = index
            .range(prefix.clone()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(&prefix))
            .collect();
        assert!(!named.is_empty(), "every last name is someone's");
        let customer = customer_of_name_key(named[CustomerChoice::middle(named.len())]).unwrap();
        let row = self.get(TpccTable::Customer, &customer.to_bytes());
        assert_eq!(Customer::decode(&row).unwrap().last, name.as_bytes());
        customer
    }

    fn run(&mut self, transaction: &TpccTransaction, faulty: bool) {
        self.clock_us += 1;
        let fault = self.fault.filter(|_| faulty);
        match transaction {
            TpccTransaction::NewOrder(input) => {
                let before = self.clone_if(input.rolls_back && fault != Some(Fault::NotRolledBack));
                let ended = self.new_order(input, fault);
                assert_eq!(ended.is_err(), input.rolls_back);
                if let (Err(RolledBack), Some(before)) = (ended, before) {
                    *self = before;
                }
            }
            TpccTransaction::Payment(input) => self.payment(input, fault),
            TpccTransaction::OrderStatus(input) => self.order_status(input),
            TpccTransaction::Delivery(input) => self.delivery(input, fault),
            TpccTransaction::StockLevel(input) => {
                assert!(self.stock_level(input) <= self.scale.items());
            }
        }
    }

    fn clone_if(&self, needed: bool) -> Option<Model> {
        needed.then(|| self.clone())
    }

    /// Clause 2.4.2.2.
    fn new_order(&mut self, input: &NewOrderInput, fault: Option<Fault>) -> Result<(), RolledBack> {
        let NewOrderInput { warehouse, district, customer, .. } = *input;
        let warehouse_row = self.get(TpccTable::Warehouse, &WarehouseKey { warehouse }.to_bytes());
        let warehouse_tax = Warehouse::decode(&warehouse_row).unwrap().tax_e4;
        let district_key = DistrictKey { warehouse, district };
        let district_row = self.get(TpccTable::District, &district_key.to_bytes());
        let mut district_row = District::decode(&district_row).unwrap();
        let order = district_row.next_order;
        if fault != Some(Fault::SameOrder) {
            district_row.next_order += 1;
        }
        let customer_key = CustomerKey { warehouse, district, customer };
        let customer_row = self.get(TpccTable::Customer, &customer_key.to_bytes());
        let discount = Customer::decode(&customer_row).unwrap().discount_e4;
        self.head(TpccTable::District, &district_key.to_bytes(), |row| {
            district_row.write_updated(row)
        });

        let key = OrderKey { warehouse, district, order };
        let mut bytes = Vec::new();
        let order_row = Order {
            carrier: None,
            customer,
            entered_us: self.clock_us,
            lines: input.lines().len() as u8,
            all_local: input.all_local(),
        };
        order_row.encode(&mut bytes);
        self.insert(TpccTable::Order, &key.to_bytes(), bytes.clone());
        let index = order_by_customer_key(customer_key, order).to_vec();
        self.indexes[TpccIndex::OrderByCustomer as usize].insert(index, key.to_bytes().to_vec());
        NewOrder {}.encode(&mut bytes);
        self.insert(TpccTable::NewOrder, &key.to_bytes(), bytes.clone());

        let mut sum_cents = 0;
        for (line, ordered) in (1..).zip(input.lines()) {
            let Some(item) = self.tables[TpccTable::Item as usize]
                .get(&ItemKey { item: ordered.item }.to_bytes()[..])
            else {
                return Err(RolledBack);
            };
            let price_cents = Item::decode(item).unwrap().price_cents;
            let stock_key = StockKey { warehouse: ordered.supply_warehouse, item: ordered.item };
            let stock_row = self.get(TpccTable::Stock, &stock_key.to_bytes());
            let mut stock = Stock::decode(&stock_row).unwrap();
            stock.take_out(ordered.quantity, ordered.supply_warehouse != warehouse);
            assert!((10..=100).contains(&stock.quantity), "{}", stock.quantity);
            if fault != Some(Fault::LostStock) || line > 1 {
                self.head(TpccTable::Stock, &stock_key.to_bytes(), |row| stock.write_updated(row));
            }
            let amount_cents = i32::from(ordered.quantity) * price_cents;
            sum_cents += i64::from(amount_cents);
            let line_row = OrderLine {
                delivered_us: None,
                item: ordered.item,
                supply_warehouse: ordered.supply_warehouse,
                quantity: ordered.quantity,
                amount_cents,
                district_info: stock.district_info(district).unwrap(),
            };
            line_row.encode(&mut bytes);
            if fault != Some(Fault::TornOrder) || line < order_row.lines {
                let key = OrderLineKey { warehouse, district, order, line };
                self.insert(TpccTable::OrderLine, &key.to_bytes(), bytes.clone());
            }
        }
        let total = order_total_cents(sum_cents, discount, warehouse_tax, district_row.tax_e4);
        assert!((sum_cents / 2..=sum_cents * 14 / 10).contains(&total), "{sum_cents} {total}");
        Ok(())
    }

    /// Clause 2.5.2.2.
    fn payment(&mut self, input: &PaymentInput, fault: Option<Fault>) {
        let amount = i64::from(input.amount_cents);
        let warehouse = WarehouseKey { warehouse: input.warehouse };
        let row = self.get(TpccTable::Warehouse, &warehouse.to_bytes());
        let mut warehouse_row = Warehouse::decode(&row).unwrap();
        if fault != Some(Fault::LostWarehouse) {
            warehouse_row.ytd_cents += amount;
        }
        self.head(TpccTable::Warehouse, &warehouse.to_bytes(), |row| {
            warehouse_row.write_updated(row)
        });
        let district = DistrictKey { warehouse: input.warehouse, district: input.district };
        let row = self.get(TpccTable::District, &district.to_bytes());
        let mut district_row = District::decode(&row).unwrap();
        district_row.ytd_cents += amount;
        self.head(TpccTable::District, &district.to_bytes(), |row| district_row.write_updated(row));

        let home =
            DistrictKey { warehouse: input.customer_warehouse, district: input.customer_district };
        let customer = self.customer(home, &input.customer);
        let row = self.get(TpccTable::Customer, &customer.to_bytes());
        let mut customer_row = Customer::decode(&row).unwrap();
        if fault != Some(Fault::LostCustomer) {
            customer_row.balance_cents -= amount;
            customer_row.ytd_payment_cents += amount;
        }
        customer_row.payments += 1;
        if customer_row.credit == Credit::Bad {
            let mut data = Vec::new();
            note_payment(customer, district, amount, customer_row.data, &mut data);
            assert!(data.len() <= 500 && data.len() >= customer_row.data.len());
            let mut bytes = Vec::new();
            Customer { data: &data, ..customer_row }.encode(&mut bytes);
            self.tables[TpccTable::Customer as usize].insert(customer.to_bytes().to_vec(), bytes);
        } else {
            self.head(TpccTable::Customer, &customer.to_bytes(), |row| {
                customer_row.write_updated(row)
            });
        }

        self.payments += 1;
        let number = history_number(0, 0, self.payments);
        let key = HistoryKey { warehouse: input.warehouse, district: input.district, number };
        let mut data = warehouse_row.name.to_vec();
        data.extend_from_slice(b"    ");
        data.extend_from_slice(district_row.name);
        let history = History {
            customer_warehouse: customer.warehouse,
            customer_district: customer.district,
            customer: customer.customer,
            at_us: self.clock_us,
            amount_cents: input.amount_cents,
            data: &data,
        };
        let mut bytes = Vec::new();
        history.encode(&mut bytes);
        self.insert(TpccTable::History, &key.to_bytes(), bytes);
    }

    /// The rows of a table whose keys begin with `prefix`.
    fn below(&self, table: TpccTable, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let rows = self.tables[table as usize].range(prefix.to_vec()..);
        let rows = rows.take_while(|(key, _)| key.starts_with(prefix));
        rows.map(|(key, row)| (key.clone(), row.clone())).collect()
    }

    /// Clause 2.6.2.2.
    fn order_status(&mut self, input: &OrderStatusInput) {
        let district = DistrictKey { warehouse: input.warehouse, district: input.district };
        let customer = self.customer(district, &input.customer);
        let index = &self.indexes[TpccIndex::OrderByCustomer as usize];
        let first = index.range(customer.to_bytes().to_vec()..).next().unwrap();
        let (owner, newest) = order_of_customer_key(first.0).unwrap();
        if self.fault.is_some() {
            return;
        }
        assert_eq!(owner, customer, "every customer has an order");
        let orders = self.below(TpccTable::Order, &district.to_bytes());
        let of_customer = orders.iter().filter_map(|(key, row)| {
            let mine = Order::decode(row).unwrap().customer == customer.customer;
            mine.then(|| OrderKey::from_bytes(key).unwrap())
        });
        assert_eq!(of_customer.max(), Some(newest));
        let row = self.get(TpccTable::Order, &newest.to_bytes());
        let lines = self.below(TpccTable::OrderLine, &newest.to_bytes());
        assert_eq!(lines.len(), usize::from(Order::decode(&row).unwrap().lines));
    }

    /// Clause 2.7.4.2.
    fn delivery(&mut self, input: &DeliveryInput, fault: Option<Fault>) {
        let warehouse = input.warehouse;
        for district in 1..=DISTRICTS {
            let place = DistrictKey { warehouse, district };
            let oldest = self.tables[TpccTable::NewOrder as usize]
                .range(place.to_bytes().to_vec()..)
                .next()
                .map(|(key, _)| OrderKey::from_bytes(key).unwrap())
                .filter(|key| key.district_key() == place);
            let Some(key) = oldest else { continue };
            if fault != Some(Fault::DeliveredTwice) {
                self.tables[TpccTable::NewOrder as usize].remove(&key.to_bytes()[..]);
            }
            let row = self.get(TpccTable::Order, &key.to_bytes());
            let order = Order { carrier: Some(input.carrier), ..Order::decode(&row).unwrap() };
            self.head(TpccTable::Order, &key.to_bytes(), |row| order.write_updated(row));
            let mut sum_cents = 0;
            for (line_key, row) in self.below(TpccTable::OrderLine, &key.to_bytes()) {
                let mut line = OrderLine::decode(&row).unwrap();
                sum_cents += i64::from(line.amount_cents);
                line.delivered_us = NonZeroU64::new(self.clock_us);
                self.head(TpccTable::OrderLine, &line_key, |row| line.write_updated(row));
            }
            let customer = CustomerKey { warehouse, district, customer: order.customer };
            let row = self.get(TpccTable::Customer, &customer.to_bytes());
            let mut customer_row = Customer::decode(&row).unwrap();
            customer_row.balance_cents += sum_cents;
            customer_row.deliveries += 1;
            self.head(TpccTable::Customer, &customer.to_bytes(), |row| {
                customer_row.write_updated(row)
            });
            self.delivered += 1;
        }
    }

    /// Clause 2.8.2.2.
    fn stock_level(&self, input: &StockLevelInput) -> u32 {
        let StockLevelInput { warehouse, district, threshold } = *input;
        let row = self.get(TpccTable::District, &DistrictKey { warehouse, district }.to_bytes());
        let next = District::decode(&row).unwrap().next_order;
        let mut items = BTreeSet::new();
        for order in next.saturating_sub(STOCK_LEVEL_ORDERS)..next {
            let key = OrderKey { warehouse, district, order };
            for (_, row) in self.below(TpccTable::OrderLine, &key.to_bytes()) {
                items.insert(OrderLine::decode(&row).unwrap().item);
            }
        }
        let low = items.iter().filter(|item| {
            let row = self.get(TpccTable::Stock, &StockKey { warehouse, item: **item }.to_bytes());
            Stock::decode(&row).unwrap().quantity < threshold
        });
        low.count() as u32
    }

    fn check(&self) -> ConsistencyReport {
        let mut check = ConsistencyCheck::new(self.scale, self.warehouses, 1..=self.warehouses);
        let mut stock = StockCheck::new(self.scale, self.warehouses);
        for (table, rows) in TpccTable::ALL.into_iter().zip(&self.tables) {
            for (key, row) in rows {
                check.add(table, key, row).unwrap();
                stock.add(table, key, row).unwrap();
            }
        }
        let mut report = check.finish();
        stock.finish_into(&mut report);
        report
    }
}

const WAREHOUSES: u32 = 3;

/// Runs `count` transactions from ten terminals. Every tenth transaction of the fault's kind has
/// the fault.
fn run(fault: Option<Fault>, count: u32) -> (Model, BTreeMap<TransactionKind, u32>) {
    let scale = Scale::new(200, 40).unwrap();
    let (mut model, settings) = Model::new(scale, WAREHOUSES);
    model.fault = fault;
    let terminal = |number| {
        let home = Home::of_terminal(number, 10, 1..=WAREHOUSES);
        Terminal::new(settings, home, 6, number).unwrap()
    };
    let mut terminals: Vec<Terminal> = (0..10).map(terminal).collect();
    let mut kinds: BTreeMap<TransactionKind, u32> = BTreeMap::new();
    for number in 0..count {
        let transaction = terminals[number as usize % 10].next_transaction();
        let seen = kinds.entry(transaction.kind()).or_default();
        *seen += 1;
        model.run(&transaction, fault == Some(Fault::NotRolledBack) || seen.is_multiple_of(10));
    }
    (model, kinds)
}

#[test]
fn the_conditions_hold_after_every_kind_of_transaction() {
    let (model, kinds) = run(None, 4_000);
    assert_eq!(kinds.len(), 5);
    assert!(model.delivered > 1_000, "{} orders were delivered", model.delivered);
    let report = model.check();
    assert!(report.is_ok(), "{report}");
}

#[test]
fn transactions_that_are_lost_torn_or_done_twice_break_conditions() {
    for (fault, broken) in [
        (Fault::LostWarehouse, &[1, 8][..]),
        (Fault::LostCustomer, &[10]),
        (Fault::SameOrder, &[2]),
        (Fault::TornOrder, &[4, 6]),
        (Fault::DeliveredTwice, &[5, 11]),
        (Fault::NotRolledBack, &[4, 6]),
        (Fault::LostStock, &[13]),
    ] {
        let (model, _) = run(Some(fault), 1_500);
        let report = model.check();
        assert!(
            broken.iter().all(|number| report.broken().contains(number)),
            "{fault:?}: {report}"
        );
    }
}
