//! Each condition holds on a correct database, and fails on a database that breaks it.

use std::collections::BTreeMap;
use std::num::{NonZeroU8, NonZeroU64};

use super::*;
use crate::tpcc::Population;
use crate::tpcc::key::StockKey;
use crate::tpcc::row::{NewOrder, Stock};

const WAREHOUSES: u32 = 2;

fn scale() -> Scale {
    Scale::new(50, 20).unwrap()
}

/// All rows of a small population. Each district has 20 orders, of which the last 6 are new.
struct Database(BTreeMap<(TpccTable, Vec<u8>), Vec<u8>>);

impl Database {
    fn new() -> Database {
        let population = Population::new(scale(), WAREHOUSES, 3, 77).unwrap();
        let mut rows = BTreeMap::new();
        for part in (0..population.part_count()).map_while(|number| population.part(number)) {
            let mut loaded = population.rows(part);
            while let Some(loaded) = loaded.next() {
                rows.insert((loaded.table, loaded.key.to_vec()), loaded.row.to_vec());
            }
        }
        Database(rows)
    }

    fn row(&mut self, table: TpccTable, key: &[u8]) -> &mut Vec<u8> {
        self.0.get_mut(&(table, key.to_vec())).expect("the row is there")
    }

    fn remove(&mut self, table: TpccTable, key: &[u8]) -> Vec<u8> {
        self.0.remove(&(table, key.to_vec())).expect("the row is there")
    }

    fn insert(&mut self, table: TpccTable, key: &[u8], row: Vec<u8>) {
        assert_eq!(self.0.insert((table, key.to_vec()), row), None, "the row was not there");
    }

    fn check(&self) -> ConsistencyReport {
        let mut check = ConsistencyCheck::new(scale(), WAREHOUSES, 1..=WAREHOUSES);
        for ((table, key), row) in &self.0 {
            check.add(*table, key, row).unwrap();
        }
        check.finish()
    }

    /// Asserts that exactly these conditions are broken, and that the report contains the texts
    /// `named`.
    fn breaks(&self, conditions: &[usize], named: &[&str]) {
        let report = self.check();
        assert_eq!(report.broken(), conditions, "{report}");
        for named in named {
            assert!(report.to_string().contains(named), "{named:?} is not in\n{report}");
        }
    }
}

/// Reads a row, applies `change`, and writes the row back.
macro_rules! change {
    ($database:expr, $Row:ident, $key:expr, |$row:ident| $change:expr) => {{
        let bytes = $database.row(TpccTable::$Row, &$key.to_bytes());
        let before = bytes.clone();
        let mut $row = $Row::decode(&before).unwrap();
        $change;
        $row.encode(bytes);
    }};
}

const W: WarehouseKey = WarehouseKey { warehouse: 2 };
const D: DistrictKey = DistrictKey { warehouse: 2, district: 10 };
const C: CustomerKey = CustomerKey { warehouse: 2, district: 10, customer: 7 };

fn order(order: u32) -> OrderKey {
    OrderKey { warehouse: 2, district: 10, order }
}

fn line(order: u32, line: u8) -> OrderLineKey {
    OrderLineKey { warehouse: 2, district: 10, order, line }
}

fn payment(district: u8, customer: u32) -> HistoryKey {
    HistoryKey { warehouse: 2, district, number: customer.into() }
}

#[test]
fn the_population_is_consistent() {
    let report = Database::new().check();
    assert!(report.is_ok(), "{report}");
    let compared = |number| report.condition(number).unwrap().compared;
    assert_eq!([1, 8].map(compared), [2, 2]);
    assert_eq!([2, 3, 4, 9, 11].map(compared), [20; 5]);
    assert_eq!([5, 6, 7, 10, 12].map(compared), [400; 5]);
    assert!(report.outcomes().values().all(|o| *o == latchwork_report::result::CheckOutcome::Ok));
}

#[test]
fn condition_1_wants_warehouses_to_have_what_their_districts_have() {
    let mut database = Database::new();
    change!(database, Warehouse, W, |row| row.ytd_cents += 1);
    database.breaks(&[1, 8], &["warehouse 2: W_YTD is 2000.01, the sum of D_YTD 2000.00"]);
}

#[test]
fn condition_2_wants_the_next_order_behind_the_last() {
    let mut database = Database::new();
    change!(database, District, D, |row| row.next_order += 1);
    let named = "warehouse 2, district 10: D_NEXT_O_ID - 1 is 21, the largest O_ID is 20, the largest \
                 NO_O_ID is 20";
    database.breaks(&[2], &[named]);

    let mut database = Database::new();
    database.remove(TpccTable::NewOrder, &order(20).to_bytes());
    database.breaks(&[2, 5, 11], &["the largest NO_O_ID is 19"]);
}

#[test]
fn condition_2_leaves_districts_without_new_orders_alone() {
    let mut database = Database::new();
    for number in 15..=20 {
        database.remove(TpccTable::NewOrder, &order(number).to_bytes());
    }
    database.breaks(&[5, 11], &[]);
}

#[test]
fn condition_3_wants_new_orders_without_a_gap() {
    let mut database = Database::new();
    database.remove(TpccTable::NewOrder, &order(17).to_bytes());
    database.breaks(
        &[3, 5, 11],
        &["warehouse 2, district 10: NEW-ORDER has 5 rows from NO_O_ID 15 to 20"],
    );
}

#[test]
fn condition_4_wants_as_many_lines_as_the_orders_promise() {
    let mut database = Database::new();
    database.remove(TpccTable::OrderLine, &line(17, 1).to_bytes());
    database.breaks(&[4, 6], &["warehouse 2, district 10: the sum of O_OL_CNT is "]);
}

#[test]
fn condition_5_wants_exactly_the_orders_without_carrier_to_be_new() {
    let mut database = Database::new();
    change!(database, Order, order(17), |row| row.carrier = NonZeroU8::new(3));
    database.breaks(&[5, 7], &["order 17: has O_CARRIER_ID and is in NEW-ORDER"]);

    // A row of NEW-ORDER without its row of ORDER, as after a half-done insert.
    let mut database = Database::new();
    let mut row = Vec::new();
    NewOrder {}.encode(&mut row);
    database.insert(TpccTable::NewOrder, &order(21).to_bytes(), row);
    database
        .breaks(&[2, 5, 11], &["order 21: has no O_CARRIER_ID and is in NEW-ORDER (there is no"]);
}

#[test]
fn condition_6_wants_as_many_lines_as_each_order_promises() {
    // One line more here and one less there: the sums of condition 4 stay equal.
    let mut database = Database::new();
    change!(database, Order, order(3), |row| row.lines += 1);
    change!(database, Order, order(4), |row| row.lines -= 1);
    database.breaks(
        &[6],
        &["district 10, order 3: O_OL_CNT is ", "district 10, order 4: O_OL_CNT is "],
    );
}

#[test]
fn condition_7_wants_exactly_the_lines_of_delivered_orders_delivered() {
    // The lines of delivered initial orders have an amount of 0, so the sums of condition 10 stay
    // equal.
    let mut database = Database::new();
    change!(database, OrderLine, line(3, 2), |row| row.delivered_us = None);
    database.breaks(&[7], &["order 3: has O_CARRIER_ID, and "]);

    let mut database = Database::new();
    change!(database, OrderLine, line(17, 2), |row| row.delivered_us = Some(NonZeroU64::MIN));
    database.breaks(&[7, 10, 12], &["order 17: has no O_CARRIER_ID, and 1 of "]);
}

#[test]
fn condition_8_wants_the_payments_of_a_warehouse_to_be_its_own() {
    let mut database = Database::new();
    let row = database.remove(TpccTable::History, &payment(10, 7).to_bytes());
    let elsewhere = HistoryKey { warehouse: 1, district: 10, number: 1 << 63 };
    database.insert(TpccTable::History, &elsewhere.to_bytes(), row);
    database.breaks(
        &[8, 9],
        &[
            "warehouse 1: W_YTD is 2000.00, the sum of H_AMOUNT 2010.00",
            "the sum of H_AMOUNT 1990.00",
        ],
    );
}

#[test]
fn condition_9_wants_the_payments_of_a_district_to_be_its_own() {
    let mut database = Database::new();
    let row = database.remove(TpccTable::History, &payment(10, 7).to_bytes());
    let elsewhere = HistoryKey { warehouse: 2, district: 9, number: 1 << 63 };
    database.insert(TpccTable::History, &elsewhere.to_bytes(), row);
    database
        .breaks(&[9], &["warehouse 2, district 10: D_YTD is 200.00, the sum of H_AMOUNT 190.00"]);
}

#[test]
fn condition_10_wants_a_balance_to_be_what_was_delivered_less_what_was_paid() {
    let mut database = Database::new();
    change!(database, History, payment(10, 7), |row| row.customer = 8);
    database.breaks(
        &[10],
        &["customer 7: C_BALANCE is -10.00, the sums of OL_AMOUNT 0.00 and of H_AMOUNT 0.00"],
    );
}

#[test]
fn condition_11_wants_every_order_new_or_delivered() {
    let mut database = Database::new();
    change!(database, Customer, C, |row| row.deliveries += 1);
    database.breaks(&[11], &["20 rows of ORDER less 6 of NEW-ORDER are not 14 + 1"]);
}

#[test]
fn condition_12_wants_a_customer_to_have_had_what_was_paid_or_is_owed() {
    let mut database = Database::new();
    change!(database, Customer, C, |row| row.ytd_payment_cents -= 1);
    database.breaks(&[12], &["customer 7: C_BALANCE is -10.00, C_YTD_PAYMENT 9.99"]);
}

#[test]
fn rows_that_are_lost_count_as_zero() {
    let mut database = Database::new();
    database.remove(TpccTable::Warehouse, &W.to_bytes());
    database.breaks(&[1, 8], &["warehouse 2: W_YTD is 0.00"]);

    let mut database = Database::new();
    database.remove(TpccTable::District, &D.to_bytes());
    database.breaks(&[1, 2, 9], &["district 10: D_NEXT_O_ID - 1 is -1"]);

    let mut database = Database::new();
    database.remove(TpccTable::Customer, &C.to_bytes());
    database.breaks(&[10], &["customer 7: C_BALANCE is 0.00"]);

    let mut database = Database::new();
    database.remove(TpccTable::Order, &order(3).to_bytes());
    database.breaks(&[4, 6, 7, 11], &["order 3: O_OL_CNT is 0, rows"]);

    let mut database = Database::new();
    database.remove(TpccTable::Order, &order(17).to_bytes());
    database.breaks(&[4, 5, 6, 11], &["order 17"]);

    let mut database = Database::new();
    database.remove(TpccTable::History, &payment(10, 7).to_bytes());
    database.breaks(&[8, 9, 10], &["customer 7"]);

    let empty = Database(BTreeMap::new()).check();
    assert!(empty.broken().contains(&11) && !empty.is_ok(), "{empty}");
    let nothing = ConsistencyCheck::new(scale(), 0, 1..=1).finish();
    assert!(nothing.to_string().contains("the database is empty") && !nothing.is_ok());
}

#[test]
fn rows_without_a_place_are_named_and_break_nothing_off() {
    type Spoil = fn(&mut Database);
    let strays: [(Spoil, &str); 4] = [
        (
            |database| {
                let row = database.row(TpccTable::Warehouse, &W.to_bytes()).clone();
                let key = WarehouseKey { warehouse: 3 };
                database.insert(TpccTable::Warehouse, &key.to_bytes(), row);
            },
            "WarehouseKey { warehouse: 3 }",
        ),
        (
            |database| {
                let row = database.row(TpccTable::Order, &order(1).to_bytes()).clone();
                let key = OrderKey { warehouse: 1, district: 11, order: 1 };
                database.insert(TpccTable::Order, &key.to_bytes(), row);
            },
            "district: 11",
        ),
        (
            |database| {
                let row = database.row(TpccTable::Customer, &C.to_bytes()).clone();
                let key = CustomerKey { customer: u32::MAX, ..C };
                database.insert(TpccTable::Customer, &key.to_bytes(), row);
            },
            "customer: 4294967295",
        ),
        (
            |database| {
                let row = database.row(TpccTable::NewOrder, &order(20).to_bytes()).clone();
                let key = OrderKey { district: 0, ..order(20) };
                database.insert(TpccTable::NewOrder, &key.to_bytes(), row);
            },
            "district: 0",
        ),
    ];
    for (spoil, named) in strays {
        let mut database = Database::new();
        spoil(&mut database);
        database.breaks(&[0], &[named]);
    }
    // The named customer does not exist, and the payment is missing at the paying customer.
    let mut database = Database::new();
    change!(database, History, payment(10, 7), |row| row.customer = 21);
    database.breaks(&[0, 10], &["customer: 21"]);
}

#[test]
fn values_that_no_transaction_writes_do_not_break_the_check_off() {
    let mut database = Database::new();
    change!(database, Warehouse, W, |row| row.ytd_cents = i64::MIN);
    change!(database, District, D, |row| (row.ytd_cents, row.next_order) = (i64::MIN, 0));
    change!(database, Customer, C, |row| row.balance_cents = i64::MIN);
    change!(database, Customer, C, |row| row.ytd_payment_cents = i64::MIN);
    database.breaks(&[1, 2, 8, 9, 10, 12], &["-92233720368547758.08"]);
    let mut check = ConsistencyCheck::new(scale(), WAREHOUSES, 1..=WAREHOUSES);
    let error = check.add(TpccTable::Order, &order(1).to_bytes(), b"short").unwrap_err();
    assert!(error.to_string().contains("5 bytes are no row of ORDER"), "{error}");
    let error = check.add(TpccTable::Order, b"short", b"short").unwrap_err();
    assert!(error.to_string().contains("no row of ORDER"), "{error}");
}

#[test]
fn parts_of_a_database_add_up_to_the_whole() {
    let mut database = Database::new();
    change!(database, Customer, C, |row| row.balance_cents += 1);
    change!(database, District, DistrictKey { warehouse: 1, district: 1 }, |row| row.next_order +=
        1);
    let whole = database.check();
    let part = |checked: RangeInclusive<u32>| {
        let mut check = ConsistencyCheck::new(scale(), WAREHOUSES, checked);
        // The rows come sorted by table. The check settles one district in two steps.
        let mut last = None;
        for ((table, key), row) in &database.0 {
            check.add(*table, key, row).unwrap();
            last = DistrictKey::from_bytes(&key[..DistrictKey::LEN.min(key.len())]).or(last);
        }
        check.settle(last.unwrap(), 10);
        check.settle(last.unwrap(), u32::MAX);
        check.finish()
    };
    let mut merged = part(1..=1);
    assert_eq!(merged.broken(), [2]);
    merged.merge(part(2..=2));
    assert_eq!(merged, whole);
    assert_eq!(merged.broken(), [2, 10, 12]);
}

#[test]
fn of_many_offenders_some_are_named_and_all_are_counted() {
    let mut database = Database::new();
    for customer in 1..=20 {
        change!(database, Customer, CustomerKey { customer, ..C }, |row| row.balance_cents += 1);
    }
    let report = database.check();
    let condition = report.condition(10).unwrap();
    assert_eq!((condition.violations, condition.named.len()), (20, 10));
    assert!(report.to_string().contains("  and 10 more\n"), "{report}");
}

#[test]
fn stocks_that_no_order_took_anything_out_of_are_as_they_were() {
    let judge = |database: &Database| {
        let mut report = database.check();
        let mut halves = [0, 1].map(|_| StockCheck::new(scale(), WAREHOUSES));
        for (at, ((table, key), row)) in database.0.iter().enumerate() {
            halves[at % 2].add(*table, key, row).unwrap();
        }
        let [mut all, other] = halves;
        all.merge(&other);
        all.finish_into(&mut report);
        report
    };
    let report = judge(&Database::new());
    assert!(
        report.is_ok() && report.to_string().contains("tpcc-stock: ok, 2 compared"),
        "{report}"
    );
    assert!(report.outcomes().contains_key("tpcc-stock"));
    assert!(!Database::new().check().outcomes().contains_key("tpcc-stock"));

    let mut database = Database::new();
    let stock = StockKey { warehouse: 2, item: 9 };
    change!(database, Stock, stock, |row| row.take_out(3, true));
    let report = judge(&database);
    assert_eq!(report.broken(), [13]);
    assert!(report.to_string().contains("warehouse 2: sums of"), "{report}");
    assert!(
        report.to_string().contains("are 3, 1 and 1, of the lines that it supplied 0, 0 and 0")
    );

    let mut database = Database::new();
    let row = database.remove(TpccTable::Stock, &stock.to_bytes());
    database.insert(TpccTable::Stock, &StockKey { warehouse: 0, item: 9 }.to_bytes(), row);
    assert!(judge(&database).to_string().contains("1 rows name a warehouse"));
}
