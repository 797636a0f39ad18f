//! The initial population has the rows and the contents of clause 4.3.3.1.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use latchwork_workload::tpcc::check::ConsistencyCheck;
use latchwork_workload::tpcc::key::{
    CustomerKey, OrderKey, OrderLineKey, customer_of_name_key, order_of_customer_key,
};
use latchwork_workload::tpcc::row::{
    Credit, Customer, District, History, Item, Order, OrderLine, Stock, Warehouse,
};
use latchwork_workload::tpcc::values::{is_original, push_last_name};
use latchwork_workload::tpcc::{Census, Loaded, Population, Scale, TpccIndex, TpccTable};

fn each(population: &Population, mut visit: impl FnMut(&Loaded<'_>)) {
    for part in (0..population.part_count()).map_while(|number| population.part(number)) {
        let mut rows = population.rows(part);
        while let Some(loaded) = rows.next() {
            visit(&loaded);
        }
    }
}

/// The values seen in a field, for a comparison with the field's bounds.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, (i64, i64, i64, i64)>);

impl Seen {
    fn add(&mut self, field: &'static str, value: impl Into<i64>) {
        let value = value.into();
        let seen = self.0.entry(field).or_insert((value, value, 0, 0));
        *seen = (seen.0.min(value), seen.1.max(value), seen.2 + 1, seen.3 + value);
    }

    /// Checks that a field is within its range, and that its mean is within `tolerance` of the
    /// range's middle. With `whole`, both ends of the range must occur.
    fn uniform(&self, field: &str, range: RangeInclusive<i64>, whole: bool, tolerance: f64) {
        let (min, max, count, sum) = self.0[field];
        assert!(range.contains(&min) && range.contains(&max), "{field}: {min} to {max}");
        if whole {
            assert_eq!((min, max), (*range.start(), *range.end()), "{field}");
        }
        let width = (range.end() - range.start()) as f64;
        let off = sum as f64 / count as f64 - (range.start() + range.end()) as f64 / 2.0;
        assert!(off.abs() <= tolerance * width, "{field}: the mean is {off} off the middle");
    }
}

fn length(text: &[u8]) -> i64 {
    assert!(text.iter().all(u8::is_ascii_alphanumeric), "{}", text.escape_ascii());
    text.len() as i64
}

#[test]
fn a_warehouse_of_the_standard_has_its_rows_and_is_consistent() {
    let scale = Scale::default();
    let population = Population::new(scale, 1, 20_261_121, 5).unwrap();
    let mut check = ConsistencyCheck::new(scale, 1, 1..=1);
    let (mut census, mut seen) = (Census::default(), Seen::default());
    let mut last = None;
    let (mut original, mut bad_credit, mut in_place) = ([0; 2], 0, 0);
    let mut names: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut customers_of_orders: BTreeSet<CustomerKey> = BTreeSet::new();
    each(&population, |loaded| {
        census.add(loaded);
        check.add(loaded.table, loaded.key, loaded.row).unwrap();
        let place = (loaded.table, loaded.key.to_vec());
        if let Some((table, key)) = &last
            && *table == loaded.table
        {
            assert!(*key < place.1, "{place:?} comes behind {key:?}");
        }
        last = Some(place);
        match loaded.table {
            TpccTable::Warehouse => {
                let row = Warehouse::decode(loaded.row).unwrap();
                assert_eq!(row.ytd_cents, 30_000_000);
                assert!(row.tax_e4 <= 2_000 && row.zip.ends_with(b"11111"));
                assert!((6..=10).contains(&length(row.name)));
            }
            TpccTable::District => {
                let row = District::decode(loaded.row).unwrap();
                assert_eq!((row.ytd_cents, row.next_order), (3_000_000, 3_001));
                assert!((10..=20).contains(&length(row.city)) && row.tax_e4 <= 2_000);
            }
            TpccTable::Customer => {
                let row = Customer::decode(loaded.row).unwrap();
                bad_credit += u32::from(row.credit == Credit::Bad);
                seen.add("C_DISCOUNT", row.discount_e4);
                seen.add("C_FIRST", length(row.first));
                seen.add("C_DATA", length(row.data));
                assert_eq!((row.balance_cents, row.ytd_payment_cents), (-1_000, 1_000));
                assert_eq!((row.payments, row.deliveries, row.middle), (1, 0, b"OE"));
                assert_eq!((row.credit_limit_cents, row.since_us), (5_000_000, 5));
                assert!(row.phone.iter().all(u8::is_ascii_digit));
                let key = CustomerKey::from_bytes(loaded.key).unwrap();
                if key.customer <= 1_000 {
                    let mut name = Vec::new();
                    push_last_name(key.customer - 1, &mut name);
                    assert_eq!(row.last, name, "{key:?}");
                }
                if key.district == 4 {
                    *names.entry(row.last.to_vec()).or_default() += 1;
                }
                let (index, name_key) = loaded.index.unwrap();
                assert_eq!(index, TpccIndex::CustomerByName);
                assert_eq!(customer_of_name_key(name_key), Some(key));
            }
            TpccTable::History => {
                let row = History::decode(loaded.row).unwrap();
                assert_eq!(row.amount_cents, 1_000);
                seen.add("H_DATA", length(row.data));
            }
            TpccTable::NewOrder => {
                let key = OrderKey::from_bytes(loaded.key).unwrap();
                assert!((2_101..=3_000).contains(&key.order) && loaded.row.is_empty());
            }
            TpccTable::Order => {
                let row = Order::decode(loaded.row).unwrap();
                let key = OrderKey::from_bytes(loaded.key).unwrap();
                seen.add("O_OL_CNT", row.lines);
                assert_eq!(row.carrier.is_some(), key.order <= 2_100);
                row.carrier.inspect(|carrier| seen.add("O_CARRIER_ID", carrier.get()));
                let (_, index) = loaded.index.unwrap();
                let (customer, order) = order_of_customer_key(index).unwrap();
                assert_eq!((customer.customer, order), (row.customer, key));
                in_place += u32::from(row.customer == key.order);
                assert!(customers_of_orders.insert(customer), "{customer:?} has two orders");
            }
            TpccTable::OrderLine => {
                let row = OrderLine::decode(loaded.row).unwrap();
                let key = OrderLineKey::from_bytes(loaded.key).unwrap();
                seen.add("OL_I_ID", row.item);
                assert_eq!((row.quantity, row.supply_warehouse), (5, 1));
                assert_eq!(row.delivered_us.is_some(), key.order <= 2_100);
                match key.order {
                    ..=2_100 => assert_eq!(row.amount_cents, 0),
                    _ => seen.add("OL_AMOUNT", row.amount_cents),
                }
            }
            TpccTable::Item => {
                let row = Item::decode(loaded.row).unwrap();
                original[0] += u32::from(is_original(row.data));
                seen.add("I_PRICE", row.price_cents);
                seen.add("I_IM_ID", row.image);
                seen.add("I_NAME", length(row.name));
                seen.add("I_DATA", length(row.data));
            }
            TpccTable::Stock => {
                let row = Stock::decode(loaded.row).unwrap();
                original[1] += u32::from(is_original(row.data));
                seen.add("S_QUANTITY", row.quantity);
                assert_eq!((row.ytd, row.orders, row.remotes), (0, 0, 0));
                assert_eq!(length(row.district_info(10).unwrap()), 24);
                assert_eq!((row.district_info(0), row.district_info(11)), (None, None));
            }
        }
    });

    // Clause 1.2.1.
    let rows = |table| census.table(table).rows;
    assert_eq!(rows(TpccTable::Item), 100_000);
    assert_eq!(rows(TpccTable::Warehouse), 1);
    assert_eq!(rows(TpccTable::Stock), 100_000);
    assert_eq!(rows(TpccTable::District), 10);
    assert_eq!(rows(TpccTable::Customer), 30_000);
    assert_eq!(rows(TpccTable::Order), 30_000);
    assert_eq!(rows(TpccTable::History), 30_000);
    assert_eq!(rows(TpccTable::NewOrder), 9_000);
    // Five standard deviations of the sum of 30000 numbers from 5 to 15 are 2740.
    assert!(rows(TpccTable::OrderLine).abs_diff(300_000) < 2_740, "{}", rows(TpccTable::OrderLine));
    assert_eq!(census.index(TpccIndex::CustomerByName).rows, 30_000);
    assert_eq!(census.index(TpccIndex::OrderByCustomer).rows, 30_000);

    // Exactly 10 % are chosen.
    assert_eq!((original, bad_credit), ([10_000, 10_000], 3_000));
    // Every customer has one order, and every last name has a customer.
    assert_eq!(customers_of_orders.len(), 30_000);
    // A random permutation leaves one number in its place on average, and there are ten
    // permutations.
    assert!(in_place < 30, "{in_place} orders have the number of their customer");
    assert_eq!((names.len(), names.values().sum::<u32>()), (1_000, 3_000));
    assert!(names.values().any(|count| *count >= 10), "last names are not uniform");

    seen.uniform("C_DISCOUNT", 0..=5_000, false, 0.01);
    seen.uniform("C_FIRST", 8..=16, true, 0.01);
    seen.uniform("C_DATA", 300..=500, true, 0.01);
    seen.uniform("H_DATA", 12..=24, true, 0.01);
    seen.uniform("O_OL_CNT", 5..=15, true, 0.01);
    seen.uniform("O_CARRIER_ID", 1..=10, true, 0.01);
    seen.uniform("OL_I_ID", 1..=100_000, false, 0.005);
    seen.uniform("OL_AMOUNT", 1..=999_999, false, 0.005);
    seen.uniform("I_PRICE", 100..=10_000, true, 0.005);
    seen.uniform("I_IM_ID", 1..=10_000, true, 0.005);
    seen.uniform("I_NAME", 14..=24, true, 0.005);
    seen.uniform("I_DATA", 26..=50, true, 0.005);
    seen.uniform("S_QUANTITY", 10..=100, true, 0.005);

    let report = check.finish();
    assert!(report.is_ok(), "{report}");

    let estimate = population.estimate();
    let (real, guess) = (census.bytes() as f64, estimate.bytes() as f64);
    assert!((guess / real - 1.0).abs() < 0.01, "{guess} for {real}");
    assert_eq!(estimate.table(TpccTable::Stock).rows, 100_000);
}

/// The number of rows and a sum of their hashes. The order of the rows does not change the sum.
fn fingerprint(population: &Population, parts: impl Iterator<Item = u64>) -> (u64, u64) {
    let (mut rows, mut sum) = (0, 0u64);
    for part in parts.filter_map(|number| population.part(number)) {
        let mut loaded = population.rows(part);
        while let Some(loaded) = loaded.next() {
            rows += 1;
            let (_, index) = loaded.index.unwrap_or((TpccIndex::CustomerByName, &[]));
            let mut hash = 0xCBF2_9CE4_8422_2325 ^ loaded.table as u64;
            for octet in loaded.key.iter().chain(loaded.row).chain(index) {
                hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01B3);
            }
            sum = sum.wrapping_add(hash);
        }
    }
    (rows, sum)
}

#[test]
fn the_same_seed_gives_the_same_database_with_any_number_of_loaders() {
    let scale = Scale::new(1_000, 100).unwrap();
    let population = |seed| Population::new(scale, 3, seed, 9).unwrap();
    let first = population(1);
    let alone = fingerprint(&first, 0..first.part_count());
    for loaders in [2, 7] {
        let workers: Vec<_> = (0..loaders)
            .map(|worker| {
                let population = population(1);
                let mine = (worker..population.part_count()).step_by(loaders as usize);
                std::thread::spawn(move || fingerprint(&population, mine))
            })
            .collect();
        let together = workers.into_iter().map(|worker| worker.join().unwrap());
        let together =
            together.fold((0, 0u64), |sum, part| (sum.0 + part.0, sum.1.wrapping_add(part.1)));
        assert_eq!(together, alone);
    }
    // The sum is pinned, so that every build makes the same database from the same seed.
    assert_eq!(alone, (PINNED_ROWS, PINNED_SUM));
    let other = population(2);
    assert_ne!(fingerprint(&other, 0..other.part_count()), alone);
}

const PINNED_ROWS: u64 = 44_147;
const PINNED_SUM: u64 = 5_613_558_023_090_142_495;

#[test]
fn warehouses_districts_and_tables_do_not_repeat_each_other() {
    let scale = Scale::new(10, 10).unwrap();
    let population = Population::new(scale, 4, 5, 9).unwrap();
    let mut datas: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut rows = 0;
    each(&population, |loaded| {
        let data = match loaded.table {
            TpccTable::Customer => Customer::decode(loaded.row).unwrap().data.to_vec(),
            TpccTable::History => History::decode(loaded.row).unwrap().data.to_vec(),
            TpccTable::OrderLine => OrderLine::decode(loaded.row).unwrap().district_info.to_vec(),
            TpccTable::Stock => Stock::decode(loaded.row).unwrap().data.to_vec(),
            TpccTable::Item => Item::decode(loaded.row).unwrap().data.to_vec(),
            _ => return,
        };
        rows += 1;
        datas.insert(data);
    });
    assert_eq!(datas.len(), rows);
}

#[test]
fn the_smallest_database_is_consistent_too() {
    for (items, customers) in [(1, 1), (3, 2), (11, 9), (100, 1_001)] {
        let scale = Scale::new(items, customers).unwrap();
        let population = Population::new(scale, 2, 8, 0).unwrap();
        let mut check = ConsistencyCheck::new(scale, 2, 1..=2);
        let mut rows = BTreeMap::new();
        each(&population, |loaded| {
            check.add(loaded.table, loaded.key, loaded.row).unwrap();
            *rows.entry(loaded.table).or_insert(0) += 1;
        });
        let report = check.finish();
        assert!(report.is_ok(), "{report}");
        assert_eq!(rows[&TpccTable::Item], items);
        assert_eq!(rows[&TpccTable::Stock], 2 * items);
        assert_eq!(rows[&TpccTable::Customer], 20 * customers);
    }
}

#[test]
fn impossible_sizes_are_one_clear_error() {
    for (items, customers) in [(0, 1), (100_001, 1), (1, 0), (1, 3_001)] {
        let error = Scale::new(items, customers).unwrap_err().to_string();
        assert!(error.contains("give 1 to ") && !error.contains('\n'), "{error}");
    }
    let error = Population::new(Scale::default(), 0, 1, 1).unwrap_err().to_string();
    assert_eq!(error, "0 warehouses: give at least 1");
}
