//! The schemas read rows that `latchwork_workload` writes, and write the same bytes.

use std::collections::BTreeMap;

use latchwork_blink::TreeLimits;
use latchwork_txn::schema::{ColumnValue, Schema, end_of_prefix};
use latchwork_workload::tpcc::key::{
    self, CustomerKey, DistrictKey, HistoryKey, ItemKey, OrderKey, OrderLineKey, StockKey,
    WarehouseKey,
};
use latchwork_workload::tpcc::row::{
    BadRow, Credit, Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse,
};
use latchwork_workload::tpcc::{Population, Scale, TpccIndex, TpccTable};

use super::schema;

fn schemas() -> BTreeMap<TpccTable, Schema> {
    let of = |table| (table, schema(table, Some(1)).expect("a good schema"));
    TpccTable::ALL.into_iter().map(of).collect()
}

/// Calls `each` for every row of a small database of two warehouses: its table, key and row, and
/// its key in the table's index.
fn rows(mut each: impl FnMut(TpccTable, &[u8], &[u8], Option<(TpccIndex, &[u8])>)) {
    let scale = Scale::new(50, 60).expect("a small scale");
    let population = Population::new(scale, 2, 7, 1_234_567).expect("warehouses");
    for part in (0..population.part_count()).filter_map(|number| population.part(number)) {
        let mut rows = population.rows(part);
        while let Some(loaded) = rows.next() {
            each(loaded.table, loaded.key, loaded.row, loaded.index);
        }
    }
}

/// The columns of a row in the order of the schema, as the workload crate reads them.
fn by_hand<'a>(
    table: TpccTable,
    key: &[u8],
    row: &'a [u8],
) -> Result<Vec<ColumnValue<'a>>, BadRow> {
    let key = match table {
        TpccTable::Warehouse => WarehouseKey::from_bytes(key).map(|key| vec![key.warehouse.into()]),
        TpccTable::District => {
            DistrictKey::from_bytes(key).map(|key| vec![key.warehouse.into(), key.district.into()])
        }
        TpccTable::Customer => CustomerKey::from_bytes(key)
            .map(|key| vec![key.warehouse.into(), key.district.into(), key.customer.into()]),
        TpccTable::History => HistoryKey::from_bytes(key)
            .map(|key| vec![key.warehouse.into(), key.district.into(), key.number.into()]),
        TpccTable::NewOrder | TpccTable::Order => OrderKey::from_bytes(key)
            .map(|key| vec![key.warehouse.into(), key.district.into(), key.order.into()]),
        TpccTable::OrderLine => OrderLineKey::from_bytes(key).map(|key| {
            vec![key.warehouse.into(), key.district.into(), key.order.into(), key.line.into()]
        }),
        TpccTable::Item => ItemKey::from_bytes(key).map(|key| vec![key.item.into()]),
        TpccTable::Stock => {
            StockKey::from_bytes(key).map(|key| vec![key.warehouse.into(), key.item.into()])
        }
    };
    let mut values: Vec<ColumnValue<'a>> = key.expect("a key of the table");
    values.extend(match table {
        TpccTable::Warehouse => {
            let row = Warehouse::decode(row)?;
            let texts = [row.name, row.street_1, row.street_2, row.city].map(ColumnValue::from);
            let fixed = [row.ytd_cents.into(), row.tax_e4.into(), row.state.into(), row.zip.into()];
            fixed.into_iter().chain(texts).collect::<Vec<_>>()
        }
        TpccTable::District => {
            let row = District::decode(row)?;
            let texts = [row.name, row.street_1, row.street_2, row.city].map(ColumnValue::from);
            let fixed: [ColumnValue<'_>; 5] = [
                row.ytd_cents.into(),
                row.next_order.into(),
                row.tax_e4.into(),
                row.state.into(),
                row.zip.into(),
            ];
            fixed.into_iter().chain(texts).collect()
        }
        TpccTable::Customer => {
            let row = Customer::decode(row)?;
            vec![
                row.balance_cents.into(),
                row.ytd_payment_cents.into(),
                row.payments.into(),
                row.deliveries.into(),
                u8::from(row.credit == Credit::Bad).into(),
                row.discount_e4.into(),
                row.credit_limit_cents.into(),
                row.since_us.into(),
                row.middle.into(),
                row.state.into(),
                row.zip.into(),
                row.phone.into(),
                row.first.into(),
                row.last.into(),
                row.street_1.into(),
                row.street_2.into(),
                row.city.into(),
                row.data.into(),
            ]
        }
        TpccTable::History => {
            let row = History::decode(row)?;
            vec![
                row.customer_warehouse.into(),
                row.customer_district.into(),
                row.customer.into(),
                row.at_us.into(),
                row.amount_cents.into(),
                row.data.into(),
            ]
        }
        TpccTable::NewOrder => {
            NewOrder::decode(row)?;
            vec![]
        }
        TpccTable::Order => {
            let row = Order::decode(row)?;
            vec![
                row.carrier.map_or(0, |carrier| carrier.get()).into(),
                row.customer.into(),
                row.entered_us.into(),
                row.lines.into(),
                u8::from(row.all_local).into(),
            ]
        }
        TpccTable::OrderLine => {
            let row = OrderLine::decode(row)?;
            vec![
                row.delivered_us.map_or(0, |at_us| at_us.get()).into(),
                row.item.into(),
                row.supply_warehouse.into(),
                row.quantity.into(),
                row.amount_cents.into(),
                row.district_info.into(),
            ]
        }
        TpccTable::Item => {
            let row = Item::decode(row)?;
            vec![row.image.into(), row.price_cents.into(), row.name.into(), row.data.into()]
        }
        TpccTable::Stock => {
            let row = Stock::decode(row)?;
            let mut values =
                vec![row.quantity.into(), row.ytd.into(), row.orders.into(), row.remotes.into()];
            values.extend(
                (1..=10).filter_map(|number| row.district_info(number)).map(ColumnValue::from),
            );
            values.push(row.data.into());
            values
        }
    });
    Ok(values)
}

#[test]
fn rows_and_keys_are_read_and_written_byte_for_byte() {
    let schemas = schemas();
    let mut count = BTreeMap::new();
    let (mut key_again, mut row_again) = (Vec::new(), Vec::new());
    rows(|table, key, row, _| {
        let schema = &schemas[&table];
        let key_values: Vec<_> = schema.key(key).expect("a key").values().collect();
        let row_values: Vec<_> = schema.row(row).expect("a row").values().collect();
        schema.encode_key(&key_values, &mut key_again).expect("its values");
        schema.encode_row(&row_values, &mut row_again).expect("its values");
        assert_eq!((&key_again[..], &row_again[..]), (key, row), "{}", schema.name());
        let all: Vec<_> = key_values.into_iter().chain(row_values).collect();
        assert_eq!(Ok(all), by_hand(table, key, row), "{}", schema.name());
        *count.entry(table).or_insert(0) += 1;
    });
    // All tables are covered.
    assert_eq!(count.len(), 9);
    assert_eq!((count[&TpccTable::Warehouse], count[&TpccTable::Customer]), (2, 1200));
}

#[test]
fn what_transactions_change_stands_where_they_write_it() {
    let schemas = schemas();
    let updated = [
        (TpccTable::Warehouse, "W_TAX", Warehouse::UPDATED_LEN),
        (TpccTable::District, "D_TAX", District::UPDATED_LEN),
        (TpccTable::Customer, "C_CREDIT", Customer::UPDATED_LEN),
        (TpccTable::Order, "O_C_ID", Order::UPDATED_LEN),
        (TpccTable::OrderLine, "OL_I_ID", OrderLine::UPDATED_LEN),
        (TpccTable::Stock, "S_DIST_01", Stock::UPDATED_LEN),
    ];
    for (table, behind, len) in updated {
        let schema = &schemas[&table];
        let column = schema.column(behind).expect("there");
        assert_eq!(schema.offset_of(column), Ok(len), "{behind}");
        // No secondary index has a column that transactions change, so an update changes no index.
        assert!(schema.indexes().iter().all(|index| !index.may_change(0, len)), "{behind}");
    }
    for (table, schema) in &schemas {
        if let Some(len) = schema.row_len_max() {
            assert_eq!(len, table.row_len_max(), "{}", schema.name());
        }
        // The longest key needs lines of 1 KiB.
        assert_eq!(
            schema.check_keys(TreeLimits::for_payload(1024 - 32).expect("lines").key_max),
            Ok(())
        );
    }
}

/// The keys of an index, as the workload and as the schema makes them. They belong to the rows of a
/// table, and to the variant that `more` makes of each row.
fn index_keys(
    schema: &Schema,
    wanted: TpccIndex,
    more: impl Fn(&[u8], &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>),
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    rows(|table, key, row, index| {
        if table == wanted.table() {
            let (_, by_hand) = index.expect("the table has an index");
            let first = (key.to_vec(), row.to_vec(), by_hand.to_vec());
            for (key, row, by_hand) in [first, more(key, row)] {
                let mut out = Vec::new();
                schema.index_key(0, &key, &row, &mut out).expect("a key and a row");
                assert!(pairs.insert(by_hand, out).is_none(), "a key twice");
            }
        }
    });
    assert_eq!(pairs.len(), 2400);
    pairs
}

/// Another customer with the same last name, and the same first name or a prefix of it.
fn namesake(key: &[u8], row: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut id = CustomerKey::from_bytes(key).expect("a key");
    let mut customer = Customer::decode(row).expect("a row");
    if id.customer.is_multiple_of(2) {
        customer.first = &customer.first[..4];
    }
    id.customer += 1000;
    let (mut row, mut by_hand) = (Vec::new(), Vec::new());
    customer.encode(&mut row);
    key::customer_name_key(id, customer.last, customer.first, &mut by_hand);
    (id.to_bytes().to_vec(), row, by_hand)
}

/// Another order of the same customer.
fn next_order(key: &[u8], row: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut id = OrderKey::from_bytes(key).expect("a key");
    id.order += 1000;
    let OrderKey { warehouse, district, order } = id;
    let customer = Order::decode(row).expect("a row").customer;
    let by_hand = key::order_by_customer_key(CustomerKey { warehouse, district, customer }, order);
    (id.to_bytes().to_vec(), row.to_vec(), by_hand.to_vec())
}

/// The schema ends a text in a key with two zero bytes, and the workload with one zero byte. So the
/// bytes differ, but the order of the keys is the same.
#[test]
fn customers_are_in_the_order_of_their_names() {
    let schema = &schemas()[&TpccTable::Customer];
    let pairs = index_keys(schema, TpccIndex::CustomerByName, namesake);
    assert!(pairs.values().is_sorted_by(|one, two| one < two));
    for (by_hand, indexed) in &pairs {
        assert_eq!(indexed.len(), by_hand.len() + 2);
        let id = key::customer_of_name_key(by_hand).expect("a key of the index");
        let read = schema.index_key_ref(0, indexed).expect("a key of the index");
        let number = read.get(schema.column("C_ID").expect("there"));
        assert_eq!(number, Ok(id.customer.into()));

        // All customers of a district with one last name are a range, and the workload finds the
        // same customers.
        let last = read.get(schema.column("C_LAST").expect("there")).expect("in the index");
        let ColumnValue::Bytes(name) = &last else { panic!("a text is bytes") };
        let (mut from, mut to, mut prefix) = (Vec::new(), Vec::new(), Vec::new());
        let values = [id.warehouse.into(), id.district.into(), last.clone()];
        schema.index_prefix(0, &values, &mut from).expect("values of the columns");
        assert!(end_of_prefix(&from, &mut to));
        key::customer_name_prefix(id.district_key(), name, &mut prefix);
        let in_range = |indexed: &Vec<u8>| from <= *indexed && *indexed < to;
        let found: Vec<_> = pairs.values().filter(|indexed| in_range(indexed)).collect();
        let begin = |(by_hand, _): &(&Vec<u8>, &Vec<u8>)| by_hand.starts_with(&prefix);
        let expected: Vec<_> = pairs.iter().filter(begin).map(|(_, indexed)| indexed).collect();
        assert_eq!(found, expected);
        assert_eq!(found.len(), 2, "a customer and the namesake");
    }
}

#[test]
fn orders_of_a_customer_are_the_newest_first_and_byte_for_byte() {
    let schema = &schemas()[&TpccTable::Order];
    let pairs = index_keys(schema, TpccIndex::OrderByCustomer, next_order);
    for (by_hand, indexed) in &pairs {
        assert_eq!(by_hand, indexed);
    }
    let (customer, order) = (schema.column("O_C_ID"), schema.column("O_ID"));
    let (customer, order) = (customer.expect("there"), order.expect("there"));
    let keys: Vec<_> = pairs.keys().collect();
    let mut of_one = 0;
    for pair in keys.windows(2) {
        let read = |at: usize| schema.index_key_ref(0, pair[at]).expect("a key of the index");
        let number = |at| match read(at).get(order) {
            Ok(ColumnValue::Unsigned(number)) => number,
            other => panic!("{other:?} is no number of an order"),
        };
        if pair[0][..5] == pair[1][..5] && read(0).get(customer) == read(1).get(customer) {
            assert!(number(0) > number(1), "the newest first");
            of_one += 1;
        }
    }
    assert_eq!(of_one, 1200, "each customer has two orders");
}

#[test]
fn rows_of_one_table_are_none_of_most_others() {
    let schemas = schemas();
    let mut refused = 0;
    rows(|table, _, row, _| {
        for (other, schema) in &schemas {
            // If the length fits by chance, the row is read as a row of another table. No check can
            // detect that.
            let read = schema.row(row).is_ok();
            assert!(read || *other != table);
            refused += usize::from(!read);
        }
    });
    assert!(refused > 10_000, "{refused}");
}

/// The fingerprints are part of the catalogue. If they stay equal, a later build finds the tables
/// of a database on disk.
#[test]
fn the_fingerprints_of_the_schemas_never_change() {
    let found = TpccTable::ALL
        .map(|table| (table.name(), schema(table, Some(1)).expect("a good schema").fingerprint()));
    let kept = [
        ("WAREHOUSE", 635_245_429_342_404_250),
        ("DISTRICT", 10_960_759_771_500_713_148),
        ("CUSTOMER", 7_816_505_785_378_961_076),
        ("HISTORY", 8_659_334_958_453_157_526),
        ("NEW-ORDER", 15_846_410_692_988_645_549),
        ("ORDER", 6_096_777_097_837_649_183),
        ("ORDER-LINE", 468_860_007_090_599_628),
        ("ITEM", 16_054_578_077_166_086_473),
        ("STOCK", 3_676_355_171_402_807_743),
    ];
    assert_eq!(found, kept);
}

#[test]
fn what_is_stored_is_read_again() {
    let schemas = schemas();
    let mut fingerprints: Vec<u64> = Vec::new();
    for schema in schemas.values() {
        let stored = schema.encode();
        assert_eq!(Schema::decode(&stored).as_ref(), Ok(schema));
        println!("{}: {} bytes", schema.name(), stored.len());
        fingerprints.push(schema.fingerprint());
    }
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 9);
    let hot: Vec<&str> = schemas
        .values()
        .filter(|schema| schema.rows_per_line() == Some(1))
        .map(Schema::name)
        .collect();
    assert_eq!(hot, ["WAREHOUSE", "DISTRICT"]);
}
