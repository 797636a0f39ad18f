//! The twelve consistency conditions (clause 3.3.2) over the rows of a database.
//!
//! ```text
//! scans ── table, key, row ──► ConsistencyCheck ── finish ──► Report: by condition, what was compared
//!                               (some warehouses)                     and what breaks it
//! ```
//!
//! | condition | of each | statement |
//! | --- | --- | --- |
//! | 1 | warehouse | W_YTD = sum of D_YTD |
//! | 2 | district | D_NEXT_O_ID - 1 = largest O_ID = largest NO_O_ID, if it has new orders |
//! | 3 | district | its NO_O_ID have no gap |
//! | 4 | district | sum of O_OL_CNT = rows of ORDER-LINE |
//! | 5 | order | no O_CARRIER_ID if and only if it has a row of NEW-ORDER |
//! | 6 | order | O_OL_CNT = its rows of ORDER-LINE |
//! | 7 | order line | no OL_DELIVERY_D if and only if its order has no O_CARRIER_ID |
//! | 8 | warehouse | W_YTD = sum of H_AMOUNT |
//! | 9 | district | D_YTD = sum of H_AMOUNT |
//! | 10 | customer | C_BALANCE = sum of delivered OL_AMOUNT - sum of H_AMOUNT |
//! | 11 | district | rows of ORDER - rows of NEW-ORDER = 2100 + sum of C_DELIVERY_CNT |
//! | 12 | customer | C_BALANCE + C_YTD_PAYMENT = sum of delivered OL_AMOUNT |
//!
//! The standard's condition 11 has only 2100 on the right side, so it holds only before the first
//! delivery. Each delivery of an order removes one row of NEW-ORDER and adds one to the
//! C_DELIVERY_CNT of the customer. So the form above equals the standard's before the first
//! delivery, and also holds after deliveries.
//!
//! The twelve conditions do not cover STOCK. [`StockCheck`] compares STOCK with the lines of new
//! orders.
//!
//! Money is compared in cents. A missing row counts as zero in each sum.

mod findings;
mod state;
mod stock;
#[cfg(test)]
mod tests;

pub use findings::{CONDITIONS, ConditionReport, ConditionViolation, ConsistencyReport};
pub use stock::StockCheck;

use std::ops::RangeInclusive;

use super::TpccTable;
use super::key::{CustomerKey, DistrictKey, HistoryKey, OrderKey, OrderLineKey, WarehouseKey};
use super::row::{BadRow, Customer, District, History, Order, OrderLine, Warehouse};
use super::scale::{DISTRICTS, Scale};
use findings::{Findings, PLACEMENT};
use state::WarehouseState;

/// The check of some or all warehouses of a database.
///
/// Rows may come in any order. The check needs all rows of the seven tables whose primary keys
/// begin with one of its warehouses. The check also needs all rows of HISTORY of the whole
/// database, because customers also pay at other warehouses. The check ignores rows that concern
/// only other warehouses, ITEM and STOCK.
///
/// Memory: 32 bytes for each customer, and about 60 bytes for each order that is not settled. To
/// keep few orders unsettled, the caller scans ORDER, NEW-ORDER and ORDER-LINE by district, or by
/// ranges of O_ID in a district. After each range the caller calls
/// [`settle`](ConsistencyCheck::settle). A large database is checked some warehouses at a time,
/// possibly on several workers. [`merge`](ConsistencyReport::merge) joins the reports.
///
/// ```
/// use latchwork_workload::tpcc::{Population, Scale, check::ConsistencyCheck};
///
/// let scale = Scale::new(100, 30)?;
/// let population = Population::new(scale, 2, 42, 1)?;
/// let mut check = ConsistencyCheck::new(scale, 2, 1..=2);
/// for part in (0..population.part_count()).filter_map(|number| population.part(number)) {
///     let mut rows = population.rows(part);
///     while let Some(loaded) = rows.next() {
///         check.add(loaded.table, loaded.key, loaded.row)?;
///     }
/// }
/// let report = check.finish();
/// assert!(report.is_ok(), "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ConsistencyCheck {
    scale: Scale,
    warehouses: u32,
    /// The number of the first checked warehouse, which `states[0]` is of.
    first: u32,
    states: Vec<WarehouseState>,
    findings: Findings,
}

impl ConsistencyCheck {
    /// Checks the warehouses `checked` of a database of this scale with `warehouses` warehouses.
    pub fn new(scale: Scale, warehouses: u32, checked: RangeInclusive<u32>) -> ConsistencyCheck {
        let first = (*checked.start()).max(1);
        let last = (*checked.end()).min(warehouses);
        let states = (first..=last).map(|_| WarehouseState::new(scale)).collect();
        ConsistencyCheck { scale, warehouses, first, states, findings: Findings::default() }
    }

    /// Adds a row to the check.
    ///
    /// # Errors
    ///
    /// Fails when `key` or `row` does not belong to the table.
    pub fn add(&mut self, table: TpccTable, key: &[u8], row: &[u8]) -> Result<(), BadRow> {
        let bad = BadRow { table: table.name(), len: key.len() };
        match table {
            TpccTable::Warehouse => {
                let key = WarehouseKey::from_bytes(key).ok_or(bad)?;
                self.warehouse(key, &Warehouse::decode(row)?);
            }
            TpccTable::District => {
                let key = DistrictKey::from_bytes(key).ok_or(bad)?;
                self.district(key, &District::decode(row)?);
            }
            TpccTable::Customer => {
                let key = CustomerKey::from_bytes(key).ok_or(bad)?;
                self.customer(key, &Customer::decode(row)?);
            }
            TpccTable::History => {
                let key = HistoryKey::from_bytes(key).ok_or(bad)?;
                self.history(key, &History::decode(row)?);
            }
            TpccTable::NewOrder => self.new_order(OrderKey::from_bytes(key).ok_or(bad)?),
            TpccTable::Order => {
                let key = OrderKey::from_bytes(key).ok_or(bad)?;
                self.order(key, &Order::decode(row)?);
            }
            TpccTable::OrderLine => {
                let key = OrderLineKey::from_bytes(key).ok_or(bad)?;
                self.order_line(key, &OrderLine::decode(row)?);
            }
            TpccTable::Item | TpccTable::Stock => {}
        }
        Ok(())
    }

    /// Adds a row of WAREHOUSE.
    pub fn warehouse(&mut self, key: WarehouseKey, row: &Warehouse<'_>) {
        if let Some(state) = self.place(TpccTable::Warehouse, key.warehouse) {
            state.warehouse(row);
        }
    }

    /// Adds a row of DISTRICT.
    pub fn district(&mut self, key: DistrictKey, row: &District<'_>) {
        if let Some(state) = self.place(TpccTable::District, key.warehouse)
            && !state.district(key, row)
        {
            self.stray(TpccTable::District, key);
        }
    }

    /// Adds a row of CUSTOMER.
    pub fn customer(&mut self, key: CustomerKey, row: &Customer<'_>) {
        if let Some(state) = self.place(TpccTable::Customer, key.warehouse)
            && !state.customer(key, row)
        {
            self.stray(TpccTable::Customer, key);
        }
    }

    /// Adds a row of HISTORY: the payment counts in the district that received it and for the
    /// paying customer.
    pub fn history(&mut self, key: HistoryKey, row: &History<'_>) {
        let amount_cents = i64::from(row.amount_cents);
        let paid_at = DistrictKey { warehouse: key.warehouse, district: key.district };
        if let Some(state) = self.place(TpccTable::History, key.warehouse)
            && !state.paid_at(paid_at, amount_cents)
        {
            self.stray(TpccTable::History, key);
        }
        let customer = CustomerKey {
            warehouse: row.customer_warehouse,
            district: row.customer_district,
            customer: row.customer,
        };
        if let Some(state) = self.place(TpccTable::History, customer.warehouse)
            && !state.paid_for(customer, amount_cents)
        {
            self.stray(TpccTable::History, (key, customer));
        }
    }

    /// Adds a row of NEW-ORDER.
    pub fn new_order(&mut self, key: OrderKey) {
        if let Some(state) = self.place(TpccTable::NewOrder, key.warehouse)
            && !state.new_order(key)
        {
            self.stray(TpccTable::NewOrder, key);
        }
    }

    /// Adds a row of ORDER.
    pub fn order(&mut self, key: OrderKey, row: &Order) {
        if let Some(state) = self.place(TpccTable::Order, key.warehouse)
            && !state.order(key, row)
        {
            self.stray(TpccTable::Order, (key, row.customer));
        }
    }

    /// Adds a row of ORDER-LINE.
    pub(crate) fn order_line(&mut self, key: OrderLineKey, row: &OrderLine<'_>) {
        if let Some(state) = self.place(TpccTable::OrderLine, key.warehouse)
            && !state.order_line(key, row)
        {
            self.stray(TpccTable::OrderLine, key);
        }
    }

    /// Checks the orders of a district with an O_ID below `order`, and forgets them. The caller
    /// must have added all rows of these orders.
    pub fn settle(&mut self, district: DistrictKey, order: u32) {
        let at = district.warehouse.wrapping_sub(self.first) as usize;
        if let Some(state) = self.states.get_mut(at) {
            state.settle(district, order, &mut self.findings);
        }
    }

    /// Settles all orders, and checks the conditions on sums.
    pub fn finish(mut self) -> ConsistencyReport {
        for (number, mut state) in self.states.into_iter().enumerate() {
            let warehouse = self.first + number as u32;
            for district in 1..=DISTRICTS {
                let key = DistrictKey { warehouse, district };
                state.settle(key, u32::MAX, &mut self.findings);
            }
            state.judge(warehouse, self.scale, &mut self.findings);
        }
        self.findings.into_report()
    }

    /// The state of a warehouse; `None` if this check does not cover the warehouse. A row of a
    /// warehouse that does not exist becomes a finding.
    fn place(&mut self, table: TpccTable, warehouse: u32) -> Option<&mut WarehouseState> {
        if !(1..=self.warehouses).contains(&warehouse) {
            self.stray(table, WarehouseKey { warehouse });
            return None;
        }
        self.states.get_mut(warehouse.checked_sub(self.first)? as usize)
    }

    fn stray(&mut self, table: TpccTable, key: impl std::fmt::Debug) {
        self.findings.compare(PLACEMENT, false, || {
            format!("a row of {} stands where the database has no place: {key:?}", table.name())
        });
    }
}
