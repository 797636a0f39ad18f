//! Generates the rows of the initial population one by one (clause 4.3.3.1).

use std::num::NonZeroU8;

use super::TpccTable;
use super::key::{
    CustomerKey, DistrictKey, HistoryKey, ItemKey, OrderKey, OrderLineKey, StockKey, WarehouseKey,
    customer_name_key, order_by_customer_key,
};
use super::populate::{LoadPart, Loaded, Population};
use super::row::{
    Credit, Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse,
};
use super::scale::DISTRICTS;
use super::values::{self, uniform};
use crate::random::WorkloadRandom;

// Tags of random generators. The tag of a row's generator is the number of its table. These larger
// tags give draws that are independent of all rows' draws.
const CHOICE: u8 = 0x40;
const PERMUTATION: u8 = 0x80;
const CARRIER: u8 = 0x81;

/// The payment of each customer before the first transaction: H_AMOUNT and C_YTD_PAYMENT.
pub(super) const PAID_CENTS: i64 = 1_000;

impl Population {
    /// The rows of a part, in the order of their keys.
    pub fn rows(&self, part: LoadPart) -> PartRows<'_> {
        PartRows::new(self, part)
    }
}

/// The rows of one [`LoadPart`], from [`Population::rows`].
///
/// A row borrows the buffers of this object, and the next row reuses them. So this type is not an
/// `Iterator`.
#[derive(Debug)]
pub struct PartRows<'a> {
    population: &'a Population,
    part: LoadPart,
    /// For a part of ORDER, the customer of each order.
    customers: Vec<u32>,
    /// For a part of ORDER-LINE, the current order and its current line.
    lines: Option<Lines>,
    texts: Texts,
    key: Vec<u8>,
    row: Vec<u8>,
    index: Vec<u8>,
}

#[derive(Debug)]
struct Lines {
    order: u32,
    next: u8,
    last: u8,
}

impl<'a> PartRows<'a> {
    pub(super) fn new(population: &'a Population, part: LoadPart) -> PartRows<'a> {
        let customers = if part.table == TpccTable::Order {
            let mut random = population.random(PERMUTATION, part.warehouse, part.district, 0);
            values::permutation(&mut random, population.scale.customers())
        } else {
            Vec::new()
        };
        let texts = Texts::default();
        let (key, row, index) = Default::default();
        PartRows { population, part, customers, lines: None, texts, key, row, index }
    }

    /// The next row; `None` after the last row.
    #[expect(clippy::should_implement_trait, reason = "the rows are lent out")]
    pub fn next(&mut self) -> Option<Loaded<'_>> {
        self.key.clear();
        self.index.clear();
        let number = match self.part.table {
            TpccTable::OrderLine => self.next_line()?,
            _ => self.part.numbers.next()?,
        };
        match self.part.table {
            TpccTable::Item => self.item(number),
            TpccTable::Warehouse => self.warehouse(),
            TpccTable::District => self.district(number as u8),
            TpccTable::Stock => self.stock(number),
            TpccTable::Customer => self.customer(number),
            TpccTable::History => self.history(number),
            TpccTable::Order => self.order(number),
            TpccTable::OrderLine => self.order_line(number),
            TpccTable::NewOrder => {
                self.key.extend_from_slice(&self.order_key(number).to_bytes());
                NewOrder {}.encode(&mut self.row);
            }
        }
        let table = self.part.table;
        let index = table.index().map(|index| (index, &self.index[..]));
        Some(Loaded { table, key: &self.key, row: &self.row, index })
    }

    /// The random generator of row `number`, for draws with this tag.
    fn random(&self, tag: u8, number: u32) -> WorkloadRandom {
        self.population.random(tag, self.part.warehouse, self.part.district, number)
    }

    /// Whether row `number` belongs to the random 10 % of clause 4.3.3.1. Of every ten consecutive
    /// rows, exactly one does.
    fn chosen(&self, number: u32) -> bool {
        let ten = (number - 1) / 10;
        let tag = CHOICE | self.part.table as u8;
        self.random(tag, ten).below(10) == u64::from((number - 1) % 10)
    }

    fn order_key(&self, order: u32) -> OrderKey {
        OrderKey { warehouse: self.part.warehouse, district: self.part.district, order }
    }

    fn item(&mut self, item: u32) {
        self.key.extend_from_slice(&ItemKey { item }.to_bytes());
        let mut random = self.random(TpccTable::Item as u8, item);
        let original = self.chosen(item);
        let texts = self.texts.begin();
        texts.push(|out| values::push_a_string(&mut random, 14, 24, out));
        texts.push(|out| values::push_data(&mut random, original, out));
        let row = Item {
            image: uniform(&mut random, 1, 10_000),
            price_cents: uniform(&mut random, 100, 10_000) as i32,
            name: texts.get(0),
            data: texts.get(1),
        };
        row.encode(&mut self.row);
    }

    fn warehouse(&mut self) {
        let warehouse = self.part.warehouse;
        self.key.extend_from_slice(&WarehouseKey { warehouse }.to_bytes());
        let mut random = self.random(TpccTable::Warehouse as u8, 1);
        let texts = self.texts.begin();
        texts.push(|out| values::push_a_string(&mut random, 6, 10, out));
        texts.push_address(&mut random);
        let paid = i64::from(self.population.scale.customers()) * PAID_CENTS;
        let row = Warehouse {
            ytd_cents: i64::from(DISTRICTS) * paid,
            tax_e4: uniform(&mut random, 0, 2_000) as u16,
            state: &values::state(&mut random),
            zip: &values::zip(&mut random),
            name: texts.get(0),
            street_1: texts.get(1),
            street_2: texts.get(2),
            city: texts.get(3),
        };
        row.encode(&mut self.row);
    }

    fn district(&mut self, district: u8) {
        let warehouse = self.part.warehouse;
        self.key.extend_from_slice(&DistrictKey { warehouse, district }.to_bytes());
        let mut random = self.random(TpccTable::District as u8, u32::from(district));
        let texts = self.texts.begin();
        texts.push(|out| values::push_a_string(&mut random, 6, 10, out));
        texts.push_address(&mut random);
        let row = District {
            ytd_cents: i64::from(self.population.scale.customers()) * PAID_CENTS,
            next_order: self.population.scale.orders() + 1,
            tax_e4: uniform(&mut random, 0, 2_000) as u16,
            state: &values::state(&mut random),
            zip: &values::zip(&mut random),
            name: texts.get(0),
            street_1: texts.get(1),
            street_2: texts.get(2),
            city: texts.get(3),
        };
        row.encode(&mut self.row);
    }

    fn stock(&mut self, item: u32) {
        let warehouse = self.part.warehouse;
        self.key.extend_from_slice(&StockKey { warehouse, item }.to_bytes());
        let mut random = self.random(TpccTable::Stock as u8, item);
        let original = self.chosen(item);
        let texts = self.texts.begin();
        texts.push(|out| values::push_data(&mut random, original, out));
        texts.push(|out| values::push_a_string(&mut random, 240, 240, out));
        let row = Stock {
            quantity: uniform(&mut random, 10, 100) as i16,
            ytd: 0,
            orders: 0,
            remotes: 0,
            district_infos: texts.fixed(1),
            data: texts.get(0),
        };
        row.encode(&mut self.row);
    }

    fn customer(&mut self, customer: u32) {
        let LoadPart { warehouse, district, .. } = self.part;
        let key = CustomerKey { warehouse, district, customer };
        self.key.extend_from_slice(&key.to_bytes());
        let mut random = self.random(TpccTable::Customer as u8, customer);
        let credit = if self.chosen(customer) { Credit::Bad } else { Credit::Good };
        let scale = self.population.scale;
        // The first customers have the last names in order, so each last name occurs.
        let name = match customer - 1 {
            name if name < scale.last_names() => name,
            _ => self.population.constants.last_names(scale).draw(&mut random),
        };
        let texts = self.texts.begin();
        texts.push(|out| values::push_last_name(name, out));
        texts.push_address(&mut random);
        texts.push(|out| values::push_a_string(&mut random, 8, 16, out));
        texts.push(|out| values::push_a_string(&mut random, 300, 500, out));
        texts.push(|out| values::push_n_string(&mut random, 16, out));
        let row = Customer {
            balance_cents: -PAID_CENTS,
            ytd_payment_cents: PAID_CENTS,
            payments: 1,
            deliveries: 0,
            credit,
            discount_e4: uniform(&mut random, 0, 5_000) as u16,
            credit_limit_cents: 5_000_000,
            since_us: self.population.loaded_us.get(),
            middle: b"OE",
            state: &values::state(&mut random),
            zip: &values::zip(&mut random),
            phone: texts.fixed(6),
            first: texts.get(4),
            last: texts.get(0),
            street_1: texts.get(1),
            street_2: texts.get(2),
            city: texts.get(3),
            data: texts.get(5),
        };
        row.encode(&mut self.row);
        customer_name_key(key, row.last, row.first, &mut self.index);
    }

    fn history(&mut self, customer: u32) {
        let LoadPart { warehouse, district, .. } = self.part;
        let key = HistoryKey { warehouse, district, number: u64::from(customer) };
        self.key.extend_from_slice(&key.to_bytes());
        let mut random = self.random(TpccTable::History as u8, customer);
        let texts = self.texts.begin();
        texts.push(|out| values::push_a_string(&mut random, 12, 24, out));
        let row = History {
            customer_warehouse: warehouse,
            customer_district: district,
            customer,
            at_us: self.population.loaded_us.get(),
            amount_cents: PAID_CENTS as i32,
            data: texts.get(0),
        };
        row.encode(&mut self.row);
    }

    /// O_OL_CNT of an order, for the order's row and for its lines.
    fn line_count(&self, order: u32) -> u8 {
        uniform(&mut self.random(TpccTable::Order as u8, order), 5, 15) as u8
    }

    fn order(&mut self, order: u32) {
        let key = self.order_key(order);
        self.key.extend_from_slice(&key.to_bytes());
        let mut random = self.random(CARRIER, order);
        let carrier = uniform(&mut random, 1, 10) as u8;
        let delivered = order <= self.population.scale.delivered();
        // The permutation has one customer for each order of the part, so `get` finds one.
        let customer = self.customers.get(order as usize - 1).copied().unwrap_or(order);
        let row = Order {
            carrier: NonZeroU8::new(carrier).filter(|_| delivered),
            customer,
            entered_us: self.population.loaded_us.get(),
            lines: self.line_count(order),
            all_local: true,
        };
        row.encode(&mut self.row);
        let OrderKey { warehouse, district, .. } = key;
        let customer = CustomerKey { warehouse, district, customer };
        self.index.extend_from_slice(&order_by_customer_key(customer, order));
    }

    /// The order of the next line. `lines` has the number of the line afterwards.
    fn next_line(&mut self) -> Option<u32> {
        if let Some(lines) = &mut self.lines
            && lines.next < lines.last
        {
            lines.next += 1;
            return Some(lines.order);
        }
        let order = self.part.numbers.next()?;
        self.lines = Some(Lines { order, next: 1, last: self.line_count(order) });
        Some(order)
    }

    fn order_line(&mut self, order: u32) {
        let LoadPart { warehouse, district, .. } = self.part;
        let line = self.lines.as_ref().map_or(1, |lines| lines.next);
        let key = OrderLineKey { warehouse, district, order, line };
        self.key.extend_from_slice(&key.to_bytes());
        // An order has at most 15 lines, so the line fits into four bits.
        let mut random = self.random(TpccTable::OrderLine as u8, order << 4 | u32::from(line));
        let delivered = order <= self.population.scale.delivered();
        let amount = if delivered { 0 } else { uniform(&mut random, 1, 999_999) };
        let texts = self.texts.begin();
        texts.push(|out| values::push_a_string(&mut random, 24, 24, out));
        let row = OrderLine {
            delivered_us: Some(self.population.loaded_us).filter(|_| delivered),
            item: uniform(&mut random, 1, self.population.scale.items()),
            supply_warehouse: warehouse,
            quantity: 5,
            amount_cents: amount as i32,
            district_info: texts.fixed(0),
        };
        row.encode(&mut self.row);
    }
}

/// The texts of the current row, one after the other.
#[derive(Default, Debug)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn begin(&mut self) -> &mut Texts {
        self.bytes.clear();
        self.ends.clear();
        self
    }

    fn push(&mut self, text: impl FnOnce(&mut Vec<u8>)) {
        text(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Appends two streets and a city.
    fn push_address(&mut self, random: &mut WorkloadRandom) {
        for _ in 0..3 {
            self.push(|out| values::push_a_string(random, 10, 20, out));
        }
    }

    /// The text that was pushed as number `at`, from 0.
    fn get(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }

    /// As `get`, for a text of exactly `N` bytes.
    fn fixed<const N: usize>(&self, at: usize) -> &[u8; N] {
        self.get(at).try_into().expect("the text was pushed with this length")
    }
}
