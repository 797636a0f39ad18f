//! Properties of the five transactions that the consistency conditions do not cover.

use std::num::NonZeroU8;

use latchwork_harness::AppError;
use latchwork_workload::tpcc::key::{ItemKey, OrderKey, OrderLineKey, StockKey, WarehouseKey};
use latchwork_workload::tpcc::row::{
    Credit, Customer, District, Item, Order, OrderLine, Stock, Warehouse,
};
use latchwork_workload::tpcc::{
    DeliveryInput, LastName, OrderStatusInput, PaymentInput, StockLevelInput,
};

use super::*;
use crate::tables::Store;
use crate::testing::{loaded, row, with};

const NOW: NonZeroU64 = NonZeroU64::new(777).unwrap();
const HERE: DistrictKey = DistrictKey { warehouse: 1, district: 2 };

/// Runs one transaction.
async fn carry_out(
    store: &Store,
    tables: &Tables,
    input: TpccTransaction,
    number: u64,
) -> Result<Ended, AppError> {
    loop {
        let tx = store.begin().await.map_err(|error| AppError::Failed(error.to_string()))?;
        match attempt(tx, tables, &input, &mut Buffers::default(), (NOW, number)).await {
            // A split of an index page made this conflict, which is not the subject of this test.
            Err(Failure::Txn(TxnError::Conflict(_))) => {}
            ended => return ended.map_err(|failure| AppError::Failed(failure.to_string())),
        }
    }
}

fn customer(number: u32) -> CustomerKey {
    CustomerKey { warehouse: HERE.warehouse, district: HERE.district, customer: number }
}

fn payment(customer: CustomerChoice) -> TpccTransaction {
    let DistrictKey { warehouse, district } = HERE;
    TpccTransaction::Payment(PaymentInput {
        warehouse,
        district,
        customer_warehouse: warehouse,
        customer_district: district,
        customer,
        amount_cents: 12_345,
    })
}

#[test]
fn a_payment_by_name_is_that_of_the_one_in_the_middle() {
    let driver = loaded();
    with(&driver, |store, tables| async move {
        // Customers 2 to 5 get the last name of the first customer, and these first names. In the
        // order of first names, customer 4 is the second.
        let name = LastName::of_number(0);
        for (number, first) in [(2, "Z"), (3, "Y"), (4, "AB"), (5, "AA")] {
            let key = customer(number).to_bytes();
            let before = row(&store, &tables, TpccTable::Customer, &key).await?;
            let row = Customer::decode(&before).expect("a row");
            let row = Customer { last: name.as_bytes(), first: first.as_bytes(), ..row };
            let mut bytes = Vec::new();
            row.encode(&mut bytes);
            let rows = tables.of(TpccTable::Customer);
            crate::testing::change(&store, async |tx| tx.update(rows, &key, &bytes).await).await?;
        }
        // The first names of the population have at least eight letters and digits, so the order of
        // customer 1 is found at run time.
        let mut names = vec![("Z".into(), 2), ("Y".into(), 3), ("AB".into(), 4), ("AA".into(), 5)];
        let bytes = row(&store, &tables, TpccTable::Customer, &customer(1).to_bytes()).await?;
        let first = Customer::decode(&bytes).expect("a row").first.to_vec();
        names.push((String::from_utf8(first).expect("letters"), 1));
        names.sort();
        let middle = customer(names[2].1);
        let before = row(&store, &tables, TpccTable::Customer, &middle.to_bytes()).await?;
        carry_out(&store, &tables, payment(CustomerChoice::LastName(name)), 5_000).await?;
        let after = row(&store, &tables, TpccTable::Customer, &middle.to_bytes()).await?;
        let (before, after) = (Customer::decode(&before), Customer::decode(&after));
        let (before, after) = (before.expect("a row"), after.expect("a row"));
        assert_eq!(after.balance_cents, before.balance_cents - 12_345);
        assert_eq!(after.ytd_payment_cents, before.ytd_payment_cents + 12_345);
        assert_eq!(after.payments, before.payments + 1);
        Ok(())
    });
}

#[test]
fn payments_of_bad_credit_are_noted_and_all_are_in_the_history() {
    let driver = loaded();
    with(&driver, |store, tables| async move {
        let mut seen = [false; 2];
        for number in 1..=30 {
            let key = customer(number).to_bytes();
            let before = row(&store, &tables, TpccTable::Customer, &key).await?;
            let before = Customer::decode(&before).expect("a row");
            let choice = CustomerChoice::Number(number);
            carry_out(&store, &tables, payment(choice), 5_000 + u64::from(number)).await?;
            let after = row(&store, &tables, TpccTable::Customer, &key).await?;
            let after = Customer::decode(&after).expect("a row");
            let bad = after.credit == Credit::Bad;
            seen[usize::from(bad)] = true;
            let note = format!("{number} 2 1 2 1 123.45 ");
            assert_eq!(after.data.starts_with(note.as_bytes()), bad);
            assert_eq!(after.data == before.data, !bad);
        }
        assert_eq!(seen, [true; 2]);
        let key = WarehouseKey { warehouse: 1 }.to_bytes();
        let warehouse = row(&store, &tables, TpccTable::Warehouse, &key).await?;
        let district = row(&store, &tables, TpccTable::District, &HERE.to_bytes()).await?;
        let (warehouse, district) = (Warehouse::decode(&warehouse), District::decode(&district));
        let (warehouse, district) = (warehouse.expect("a row"), district.expect("a row"));
        let key = latchwork_workload::tpcc::key::HistoryKey {
            warehouse: HERE.warehouse,
            district: HERE.district,
            number: 5_007,
        };
        let bytes = row(&store, &tables, TpccTable::History, &key.to_bytes()).await?;
        let history = latchwork_workload::tpcc::row::History::decode(&bytes).expect("a row");
        let expected = [warehouse.name, b"    ", district.name].concat();
        assert_eq!((history.data, history.amount_cents), (&expected[..], 12_345));
        assert_eq!((history.customer, history.at_us), (7, NOW.get()));
        Ok(())
    });
}

/// The first new order of a terminal with, or without, a rollback.
fn new_order(rolls_back: bool, seed: u64) -> latchwork_workload::tpcc::NewOrderInput {
    let driver_settings = crate::testing::inputs();
    let home = latchwork_workload::tpcc::Home::District { warehouse: 1, district: 2 };
    let mut terminal = latchwork_workload::tpcc::Terminal::new(driver_settings, home, seed, 0)
        .expect("a terminal");
    loop {
        if let TpccTransaction::NewOrder(input) = terminal.next_transaction()
            && input.rolls_back == rolls_back
        {
            return input;
        }
    }
}

#[test]
fn a_new_order_takes_out_of_stock_and_one_that_is_rolled_back_leaves_nothing() {
    let driver = loaded();
    with(&driver, |store, tables| async move {
        let input = new_order(true, 1);
        let (warehouse, district) = (input.warehouse, input.district);
        let place = DistrictKey { warehouse, district }.to_bytes();
        let before = row(&store, &tables, TpccTable::District, &place).await?;
        let first =
            StockKey { warehouse: input.lines()[0].supply_warehouse, item: input.lines()[0].item };
        let stock = row(&store, &tables, TpccTable::Stock, &first.to_bytes()).await?;
        let ended = carry_out(&store, &tables, TpccTransaction::NewOrder(input), 1).await?;
        assert!(ended.rolled_back);
        assert_eq!(row(&store, &tables, TpccTable::District, &place).await?, before);
        assert_eq!(row(&store, &tables, TpccTable::Stock, &first.to_bytes()).await?, stock);

        let input = new_order(false, 2);
        let (warehouse, district) = (input.warehouse, input.district);
        let mut expected = Vec::new();
        let mut stocks = std::collections::BTreeMap::new();
        for line in input.lines() {
            let key = StockKey { warehouse: line.supply_warehouse, item: line.item };
            let bytes = row(&store, &tables, TpccTable::Stock, &key.to_bytes()).await?;
            let stock = Stock::decode(&bytes).expect("a row");
            let left: &mut (i16, u32) =
                stocks.entry((key.warehouse, key.item)).or_insert((stock.quantity, stock.ytd));
            let mut after = Stock { quantity: left.0, ytd: left.1, ..stock };
            after.take_out(line.quantity, false);
            *left = (after.quantity, after.ytd);
            let key = ItemKey { item: line.item }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::Item, &key).await?;
            let price = Item::decode(&bytes).expect("a row").price_cents;
            let info = *stock.district_info(district).expect("a district");
            expected.push((line.item, price * i32::from(line.quantity), info));
        }
        let next = {
            let place = DistrictKey { warehouse, district }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::District, &place).await?;
            District::decode(&bytes).expect("a row").next_order
        };
        let asked = input.clone();
        let ended = carry_out(&store, &tables, TpccTransaction::NewOrder(input), 1).await?;
        assert!(!ended.rolled_back && ended.shown > 0);
        let key = OrderKey { warehouse, district, order: next }.to_bytes();
        let bytes = row(&store, &tables, TpccTable::Order, &key).await?;
        let order = Order::decode(&bytes).expect("a row");
        assert_eq!((order.customer, order.carrier), (asked.customer, None));
        assert_eq!(usize::from(order.lines), expected.len());
        row(&store, &tables, TpccTable::NewOrder, &key).await?;
        for (number, (item, amount_cents, info)) in (1..).zip(&expected) {
            let key = OrderLineKey { warehouse, district, order: next, line: number }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::OrderLine, &key).await?;
            let line = OrderLine::decode(&bytes).expect("a row");
            assert_eq!((line.item, line.amount_cents), (*item, *amount_cents));
            assert_eq!((line.district_info, line.delivered_us), (info, None));
        }
        for ((warehouse, item), (quantity, ytd)) in stocks {
            let key = StockKey { warehouse, item }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::Stock, &key).await?;
            let stock = Stock::decode(&bytes).expect("a row");
            assert_eq!((stock.quantity, stock.ytd), (quantity, ytd), "item {item}");
        }
        Ok(())
    });
}

#[test]
fn a_delivery_takes_the_oldest_of_each_district_until_there_is_none() {
    let driver = loaded();
    with(&driver, |store, tables| async move {
        let carrier = NonZeroU8::new(7).expect("a carrier");
        let delivery = || TpccTransaction::Delivery(DeliveryInput { warehouse: 1, carrier });
        // Of 30 orders the last nine are new.
        for order in 22..=30 {
            let ended = carry_out(&store, &tables, delivery(), 1).await?;
            assert_eq!(ended.skipped, 0);
            let key = OrderKey { warehouse: 1, district: 10, order }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::Order, &key).await?;
            assert_eq!(Order::decode(&bytes).expect("a row").carrier, Some(carrier));
            let key = OrderLineKey { warehouse: 1, district: 10, order, line: 5 }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::OrderLine, &key).await?;
            assert_eq!(OrderLine::decode(&bytes).expect("a row").delivered_us, Some(NOW));
        }
        assert_eq!(carry_out(&store, &tables, delivery(), 1).await?.skipped, 10);
        Ok(())
    });
}

#[test]
fn a_stock_level_counts_each_item_of_the_last_orders_once() {
    let driver = loaded();
    with(&driver, |store, tables| async move {
        let DistrictKey { warehouse, district } = HERE;
        let mut items = std::collections::BTreeSet::new();
        for order in 11..=30 {
            let key = OrderKey { warehouse, district, order }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::Order, &key).await?;
            for line in 1..=Order::decode(&bytes).expect("a row").lines {
                let key = OrderLineKey { warehouse, district, order, line }.to_bytes();
                let bytes = row(&store, &tables, TpccTable::OrderLine, &key).await?;
                items.insert(OrderLine::decode(&bytes).expect("a row").item);
            }
        }
        let (mut low, threshold) = (0, 40);
        for item in &items {
            let key = StockKey { warehouse, item: *item }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::Stock, &key).await?;
            low += i64::from(Stock::decode(&bytes).expect("a row").quantity < threshold);
        }
        let input = StockLevelInput { warehouse, district, threshold };
        let ended = carry_out(&store, &tables, TpccTransaction::StockLevel(input), 1).await?;
        assert_eq!(ended.shown, low);
        assert!(low > 0 && low < items.len() as i64, "{low} of {}", items.len());
        Ok(())
    });
}

#[test]
fn an_order_status_shows_the_newest_order() {
    let driver = loaded();
    with(&driver, |store, tables| async move {
        let input = new_order(false, 3);
        let (warehouse, district, number) = (input.warehouse, input.district, input.customer);
        let customer = CustomerChoice::Number(number);
        carry_out(&store, &tables, TpccTransaction::NewOrder(input), 1).await?;
        let key = CustomerKey { warehouse, district, customer: number }.to_bytes();
        let bytes = row(&store, &tables, TpccTable::Customer, &key).await?;
        let mut expected = Customer::decode(&bytes).expect("a row").balance_cents;
        let key = OrderKey { warehouse, district, order: 31 }.to_bytes();
        let bytes = row(&store, &tables, TpccTable::Order, &key);
        for line in 1..=Order::decode(&bytes.await?).expect("a row").lines {
            let key = OrderLineKey { warehouse, district, order: 31, line }.to_bytes();
            let bytes = row(&store, &tables, TpccTable::OrderLine, &key).await?;
            expected += i64::from(OrderLine::decode(&bytes).expect("a row").amount_cents);
        }
        let input = OrderStatusInput { warehouse, district, customer };
        let ended = carry_out(&store, &tables, TpccTransaction::OrderStatus(input), 1).await?;
        assert_eq!(ended.shown, expected);
        Ok(())
    });
}

#[test]
fn a_row_that_is_missing_is_an_error_that_names_it() {
    let driver = loaded();
    let said = with(&driver, |store, tables| async move {
        let input = payment(CustomerChoice::Number(31));
        Ok(carry_out(&store, &tables, input, 1).await.expect_err("no such customer").to_string())
    });
    assert!(said.starts_with("a row of CUSTOMER is missing: ["), "{said}");
    let said = with(&driver, |store, tables| async move {
        let input = payment(CustomerChoice::LastName(LastName::of_number(999)));
        Ok(carry_out(&store, &tables, input, 1).await.expect_err("nobody").to_string())
    });
    assert_eq!(said, "a row of CUSTOMER is missing: warehouse 1, district 2, EINGEINGEING");
}
