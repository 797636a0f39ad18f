//! A row that is encoded and decoded is unchanged. An update changes only the first bytes. The
//! standard's arithmetic is exact.

use std::num::{NonZeroU8, NonZeroU64};

use latchwork_workload::random::WorkloadRandom;
use latchwork_workload::tpcc::key::{CustomerKey, DistrictKey};
use latchwork_workload::tpcc::row::{
    BadRow, CUSTOMER_DATA_MAX, Credit, Customer, District, History, Item, NewOrder, Order,
    OrderLine, Stock, Warehouse, note_payment, order_total_cents,
};
use latchwork_workload::tpcc::values::{ORIGINAL, is_original};
use latchwork_workload::tpcc::{CustomerChoice, Population, Scale, TpccTable};

/// Decodes a row of the table and encodes it again.
fn again(table: TpccTable, row: &[u8]) -> Result<Vec<u8>, BadRow> {
    let mut out = b"what was there before".to_vec();
    match table {
        TpccTable::Warehouse => Warehouse::decode(row)?.encode(&mut out),
        TpccTable::District => District::decode(row)?.encode(&mut out),
        TpccTable::Customer => Customer::decode(row)?.encode(&mut out),
        TpccTable::History => History::decode(row)?.encode(&mut out),
        TpccTable::NewOrder => NewOrder::decode(row)?.encode(&mut out),
        TpccTable::Order => Order::decode(row)?.encode(&mut out),
        TpccTable::OrderLine => OrderLine::decode(row)?.encode(&mut out),
        TpccTable::Item => Item::decode(row)?.encode(&mut out),
        TpccTable::Stock => Stock::decode(row)?.encode(&mut out),
    }
    Ok(out)
}

fn each_row(mut visit: impl FnMut(TpccTable, &[u8])) {
    let population = Population::new(Scale::new(30, 20).unwrap(), 1, 4, 5).unwrap();
    for part in (0..population.part_count()).map_while(|number| population.part(number)) {
        let mut rows = population.rows(part);
        while let Some(loaded) = rows.next() {
            visit(loaded.table, loaded.row);
        }
    }
}

#[test]
fn rows_of_every_table_come_back_as_they_were() {
    each_row(|table, row| assert_eq!(again(table, row).unwrap(), row));
}

#[test]
fn no_row_is_longer_or_shorter_than_it_says() {
    each_row(|table, row| {
        // In these rows the last text has no length byte: it ends with the row.
        let ends_open = matches!(
            table,
            TpccTable::Customer | TpccTable::History | TpccTable::Item | TpccTable::Stock
        );
        let mut longer = row.to_vec();
        longer.push(b'x');
        assert_eq!(again(table, &longer).is_ok(), ends_open, "{table:?}");
        for len in 0..row.len() {
            match again(table, &row[..len]) {
                Ok(shorter) => assert!(ends_open && shorter == row[..len]),
                Err(bad) => assert_eq!((bad.table, bad.len), (table.name(), len)),
            }
        }
        assert!(row.is_empty() || again(table, &[]).is_err());
    });
}

#[test]
fn what_transactions_change_is_the_short_beginning_of_a_row() {
    assert_eq!(Warehouse::UPDATED_LEN, 8);
    assert_eq!(District::UPDATED_LEN, 12);
    assert_eq!(Customer::UPDATED_LEN, 24);
    assert_eq!(Order::UPDATED_LEN, 1);
    assert_eq!(OrderLine::UPDATED_LEN, 8);
    assert_eq!(Stock::UPDATED_LEN, 14);
    assert_eq!(Item::UPDATED_LEN + History::UPDATED_LEN + NewOrder::UPDATED_LEN, 0);
    each_row(|table, row| {
        let mut updated = row.to_vec();
        let (mut whole, mut len) = (row.to_vec(), 0);
        macro_rules! change {
            ($Row:ident, |$row:ident| $change:expr) => {{
                let mut $row = $Row::decode(row).unwrap();
                $change;
                $row.encode(&mut whole);
                $row.write_updated(&mut updated);
                len = $Row::UPDATED_LEN;
                // Bytes that are too short for a row stay unchanged.
                let mut short = vec![7; len - 1];
                $row.write_updated(&mut short);
                assert!(short.iter().all(|byte| *byte == 7));
            }};
        }
        match table {
            TpccTable::Warehouse => change!(Warehouse, |row| row.ytd_cents = -1),
            TpccTable::District => {
                change!(District, |row| (row.ytd_cents, row.next_order) = (-1, u32::MAX));
            }
            TpccTable::Customer => change!(Customer, |row| {
                (row.balance_cents, row.ytd_payment_cents) = (-2, -3);
                (row.payments, row.deliveries) = (u32::MAX, u32::MAX - 1);
            }),
            TpccTable::Order => change!(Order, |row| row.carrier = NonZeroU8::new(255)),
            TpccTable::OrderLine => {
                change!(OrderLine, |row| row.delivered_us = NonZeroU64::new(u64::MAX));
            }
            TpccTable::Stock => change!(Stock, |row| {
                (row.quantity, row.ytd) = (-1, u32::MAX);
                (row.orders, row.remotes) = (u32::MAX - 1, u32::MAX - 2);
            }),
            TpccTable::History | TpccTable::NewOrder | TpccTable::Item => {}
        }
        assert_eq!(updated, whole, "{table:?}");
        assert_eq!(updated[len..], row[len..], "{table:?}");
        assert!(len == 0 || updated[..len] != row[..len], "{table:?}");
    });
}

#[test]
fn the_bytes_of_rows_never_change() {
    let (state, zip) = (b"ST", b"123456789");
    let number = 0x0807_0605_0403_0201;
    let mut row = Vec::new();

    let (name, street_1, street_2, city) = (&b"nm"[..], &b"s"[..], &b""[..], &b"cit"[..]);
    let (ytd_cents, tax_e4) = (number, 0x0910);
    Warehouse { ytd_cents, tax_e4, state, zip, name, street_1, street_2, city }.encode(&mut row);
    assert_eq!(row, b"\x01\x02\x03\x04\x05\x06\x07\x08\x10\x09ST123456789\x02\x01\0\x03nmscit");

    let (ytd_cents, next_order, tax_e4) = (-2, 0x0403_0201, 1);
    let district =
        District { ytd_cents, next_order, tax_e4, state, zip, name, street_1, street_2, city };
    district.encode(&mut row);
    assert_eq!(
        row,
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03\x04\x01\0ST123456789\x02\x01\0\x03nmscit"
    );

    let customer = Customer {
        balance_cents: -1000,
        ytd_payment_cents: 1000,
        payments: 1,
        deliveries: 2,
        credit: Credit::Bad,
        discount_e4: 0x0203,
        credit_limit_cents: 5_000_000,
        since_us: number as u64,
        middle: b"OE",
        state,
        zip,
        phone: b"0123456789abcdef",
        first: b"f",
        last: b"la",
        street_1: b"s",
        street_2: b"t",
        city: b"c",
        data: b"data",
    };
    customer.encode(&mut row);
    assert_eq!(row[..16], *b"\x18\xfc\xff\xff\xff\xff\xff\xff\xe8\x03\0\0\0\0\0\0");
    assert_eq!(row[16..27], *b"\x01\0\0\0\x02\0\0\0\x01\x03\x02");
    assert_eq!(row[27..43], *b"\x40\x4b\x4c\0\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08");
    assert_eq!(row[43..], *b"OEST1234567890123456789abcdef\x01\x02\x01\x01\x01flastcdata");

    let history = History {
        customer_warehouse: 1,
        customer_district: 2,
        customer: 3,
        at_us: 4,
        amount_cents: -5,
        data: b"h",
    };
    history.encode(&mut row);
    assert_eq!(row, b"\x01\0\0\0\x02\x03\0\0\0\x04\0\0\0\0\0\0\0\xfb\xff\xff\xffh");

    NewOrder {}.encode(&mut row);
    assert_eq!(row, b"");

    let carrier = NonZeroU8::new(7);
    let order = Order { carrier, customer: 1, entered_us: 2, lines: 5, all_local: true };
    order.encode(&mut row);
    assert_eq!(row, b"\x07\x01\0\0\0\x02\0\0\0\0\0\0\0\x05\x01");
    Order { carrier: None, all_local: false, ..order }.encode(&mut row);
    assert_eq!(row, b"\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x05\0");

    let line = OrderLine {
        delivered_us: NonZeroU64::new(9),
        item: 1,
        supply_warehouse: 2,
        quantity: 3,
        amount_cents: 4,
        district_info: b"abcdefghijklmnopqrstuvwx",
    };
    line.encode(&mut row);
    assert_eq!(
        row,
        b"\x09\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\x04\0\0\0abcdefghijklmnopqrstuvwx"
    );

    Item { image: 1, price_cents: 2, name: b"item", data: b"d" }.encode(&mut row);
    assert_eq!(row, b"\x01\0\0\0\x02\0\0\0\x04itemd");

    let infos = [b'i'; 240];
    let stock =
        Stock { quantity: -1, ytd: 1, orders: 2, remotes: 3, district_infos: &infos, data: b"s" };
    stock.encode(&mut row);
    assert_eq!(row[..14], *b"\xff\xff\x01\0\0\0\x02\0\0\0\x03\0\0\0");
    assert_eq!((&row[14..254], &row[254..]), (&infos[..], &b"s"[..]));
}

#[test]
fn bytes_that_no_field_has_are_refused() {
    let mut order = Vec::new();
    let row = Order { carrier: None, customer: 1, entered_us: 2, lines: 5, all_local: true };
    row.encode(&mut order);
    *order.last_mut().unwrap() = 2;
    let error = Order::decode(&order).unwrap_err();
    assert_eq!((error.table, error.len), ("ORDER", order.len()));
    assert!(error.to_string().contains("no row of ORDER"), "{error}");
}

#[test]
fn stock_is_filled_up_where_less_than_ten_would_be_left() {
    let infos = [b'x'; 240];
    for (quantity, taken, left) in
        [(20, 10, 10), (19, 10, 100), (10, 1, 100), (100, 1, 99), (10, 10, 91)]
    {
        let mut stock =
            Stock { quantity, ytd: 1, orders: 2, remotes: 3, district_infos: &infos, data: b"" };
        stock.take_out(taken, false);
        assert_eq!(stock.quantity, left, "{taken} of {quantity}");
        assert_eq!((stock.ytd, stock.orders, stock.remotes), (1 + u32::from(taken), 3, 3));
        stock.take_out(1, true);
        assert_eq!((stock.orders, stock.remotes), (4, 4));
    }
    let mut damaged = Stock {
        quantity: i16::MIN,
        ytd: u32::MAX,
        orders: u32::MAX,
        remotes: u32::MAX,
        district_infos: &infos,
        data: b"",
    };
    damaged.take_out(10, true);
    assert_eq!(damaged.ytd, u32::MAX);
}

#[test]
fn totals_are_exact_and_rounded_to_a_cent() {
    assert_eq!(order_total_cents(10_000, 0, 0, 0), 10_000);
    assert_eq!(order_total_cents(10_000, 5_000, 0, 0), 5_000);
    assert_eq!(order_total_cents(10_000, 0, 2_000, 2_000), 14_000);
    // 333.33 * 0.8766 * 1.2345 = 360.7206...: the third place is 0.
    assert_eq!(order_total_cents(33_333, 1_234, 1_000, 1_345), 36_072);
    // Half a cent is rounded up.
    assert_eq!(order_total_cents(1, 5_000, 0, 0), 1);
    assert_eq!(order_total_cents(i64::MAX / 2, 0, 0, 0), i64::MAX / 2);
}

#[test]
fn payments_of_bad_credit_are_noted_before_the_older_ones() {
    let customer = CustomerKey { warehouse: 3, district: 2, customer: 1 };
    let district = DistrictKey { warehouse: 5, district: 4 };
    let mut data = Vec::new();
    note_payment(customer, district, 123_405, b"older", &mut data);
    assert_eq!(data.escape_ascii().to_string(), "1 2 3 4 5 1234.05 older");
    let full = vec![b'x'; CUSTOMER_DATA_MAX];
    note_payment(customer, district, 100, &full, &mut data);
    assert_eq!(data.len(), CUSTOMER_DATA_MAX);
    assert!(data.starts_with(b"1 2 3 4 5 1.00 xxx"));
}

#[test]
fn the_customer_in_the_middle_is_number_half_rounded_up() {
    let middles = [1, 2, 3, 4, 5].map(CustomerChoice::middle);
    assert_eq!(middles, [0, 0, 1, 1, 2]);
    assert_eq!(CustomerChoice::middle(0), 0);
}

#[test]
fn credit_is_kept() {
    let mut seen = [0, 0];
    each_row(|table, row| {
        if table == TpccTable::Customer {
            let credit = Customer::decode(row).unwrap().credit;
            seen[usize::from(credit == Credit::Bad)] += 1;
        }
    });
    assert_eq!(seen, [180, 20]);
}

#[test]
fn the_longest_rows_are_as_long_as_the_tables_say() {
    let text = [b'x'; CUSTOMER_DATA_MAX];
    let (t10, t16, t20, t24, t50) =
        (&text[..10], &text[..16], &text[..20], &text[..24], &text[..50]);
    let mut row = Vec::new();
    let mut is_longest = |table: TpccTable, encode: &dyn Fn(&mut Vec<u8>)| {
        encode(&mut row);
        assert_eq!(row.len(), table.row_len_max(), "{table:?}");
        assert_eq!(again(table, &row).unwrap(), row);
    };
    let (state, zip, phone, middle) = (b"XX", b"123411111", b"1234567890123456", b"OE");
    let warehouse = Warehouse {
        ytd_cents: i64::MAX,
        tax_e4: 2_000,
        state,
        zip,
        name: t10,
        street_1: t20,
        street_2: t20,
        city: t20,
    };
    is_longest(TpccTable::Warehouse, &|out| warehouse.encode(out));
    let district = District {
        ytd_cents: i64::MAX,
        next_order: 1,
        tax_e4: 2_000,
        state,
        zip,
        name: t10,
        street_1: t20,
        street_2: t20,
        city: t20,
    };
    is_longest(TpccTable::District, &|out| district.encode(out));
    let customer = Customer {
        balance_cents: i64::MIN,
        ytd_payment_cents: i64::MAX,
        payments: 1,
        deliveries: 2,
        credit: Credit::Bad,
        discount_e4: 5_000,
        credit_limit_cents: 5_000_000,
        since_us: u64::MAX,
        middle,
        state,
        zip,
        phone,
        first: t16,
        last: t16,
        street_1: t20,
        street_2: t20,
        city: t20,
        data: &text,
    };
    is_longest(TpccTable::Customer, &|out| customer.encode(out));
    let history = History {
        customer_warehouse: 1,
        customer_district: 2,
        customer: 3,
        at_us: 4,
        amount_cents: 5,
        data: t24,
    };
    is_longest(TpccTable::History, &|out| history.encode(out));
    is_longest(TpccTable::NewOrder, &|out| NewOrder {}.encode(out));
    let order = Order { carrier: None, customer: 1, entered_us: 2, lines: 15, all_local: true };
    is_longest(TpccTable::Order, &|out| order.encode(out));
    let line = OrderLine {
        delivered_us: None,
        item: 1,
        supply_warehouse: 2,
        quantity: 3,
        amount_cents: 4,
        district_info: t24.try_into().unwrap(),
    };
    is_longest(TpccTable::OrderLine, &|out| line.encode(out));
    let item = Item { image: 1, price_cents: 2, name: t24, data: t50 };
    is_longest(TpccTable::Item, &|out| item.encode(out));
    let infos = [b'x'; 240];
    let stock =
        Stock { quantity: 1, ytd: 2, orders: 3, remotes: 4, district_infos: &infos, data: t50 };
    is_longest(TpccTable::Stock, &|out| stock.encode(out));
    each_row(|table, row| assert!(row.len() <= table.row_len_max()));
}

#[test]
fn the_mark_is_found_wherever_it_is_and_nowhere_else() {
    let mut random = WorkloadRandom::new(1);
    let (mut with, mut without) = (0, 0);
    for _ in 0..20_000 {
        // The texts have only letters of `ORIGINAL`, so that parts of it are frequent.
        let mut data: Vec<u8> =
            (0..random.below(51)).map(|_| ORIGINAL[random.below(8) as usize]).collect();
        if let Some(places) =
            data.len().checked_sub(ORIGINAL.len()).filter(|_| random.below(2) == 0)
        {
            let at = random.below(places as u64 + 1) as usize;
            data[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
        let there = data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL);
        assert_eq!(is_original(&data), there, "{}", String::from_utf8_lossy(&data));
        if there { with += 1 } else { without += 1 }
    }
    assert!(with > 5_000 && without > 5_000, "{with} with it, {without} without");
}
