//! The sums of a warehouse, which grow with each added row, and the comparisons at the end.

use std::collections::BTreeMap;

use super::findings::{Findings, money};
use crate::tpcc::key::{CustomerKey, DistrictKey, OrderKey, OrderLineKey};
use crate::tpcc::row::{Customer, District, Order, OrderLine, Warehouse};
use crate::tpcc::scale::{DISTRICTS, Scale};

/// Sums of a warehouse. A damaged row may have any value. So sums of 64-bit fields either have more
/// bits than the fields, or saturate.
#[derive(Debug)]
pub(super) struct WarehouseState {
    ytd_cents: i128,
    districts: Vec<DistrictState>,
}

#[derive(Debug)]
struct DistrictState {
    ytd_cents: i128,
    next_order: u32,
    /// Sum of H_AMOUNT of the payments that this district received.
    paid_cents: i128,
    orders: u64,
    order_max: u32,
    /// Sum of O_OL_CNT.
    lines_promised: u64,
    lines: u64,
    new_orders: u64,
    new_order_min: u32,
    new_order_max: u32,
    /// Sum of C_DELIVERY_CNT.
    deliveries: u64,
    /// The customers, by C_ID minus 1.
    customers: Vec<CustomerState>,
    /// Orders that are not settled.
    open: BTreeMap<u32, OrderState>,
}

#[derive(Clone, Default, Debug)]
struct CustomerState {
    balance_cents: i64,
    ytd_payment_cents: i64,
    /// Sum of H_AMOUNT of this customer's payments.
    paid_cents: i64,
    /// Sum of OL_AMOUNT of delivered lines.
    delivered_cents: i64,
}

#[derive(Default, Debug)]
struct OrderState {
    /// O_C_ID; 0 before the row of ORDER is added.
    customer: u32,
    lines_promised: u32,
    has_carrier: bool,
    is_new: bool,
    lines: u32,
    lines_delivered: u32,
    delivered_cents: i64,
}

impl WarehouseState {
    pub(super) fn new(scale: Scale) -> WarehouseState {
        let customers = scale.customers() as usize;
        let district = || DistrictState {
            ytd_cents: 0,
            next_order: 0,
            paid_cents: 0,
            orders: 0,
            order_max: 0,
            lines_promised: 0,
            lines: 0,
            new_orders: 0,
            new_order_min: u32::MAX,
            new_order_max: 0,
            deliveries: 0,
            customers: vec![CustomerState::default(); customers],
            open: BTreeMap::new(),
        };
        let districts = (0..DISTRICTS).map(|_| district()).collect();
        WarehouseState { ytd_cents: 0, districts }
    }

    fn place(&mut self, district: u8) -> Option<&mut DistrictState> {
        self.districts.get_mut(usize::from(district).checked_sub(1)?)
    }

    fn place_customer(&mut self, key: CustomerKey) -> Option<&mut CustomerState> {
        self.place(key.district)?.customers.get_mut((key.customer as usize).checked_sub(1)?)
    }

    pub(super) fn warehouse(&mut self, row: &Warehouse<'_>) {
        self.ytd_cents += i128::from(row.ytd_cents);
    }

    // Each of the following methods returns false if the district or the customer does not exist.

    pub(super) fn district(&mut self, key: DistrictKey, row: &District<'_>) -> bool {
        let Some(state) = self.place(key.district) else { return false };
        state.ytd_cents += i128::from(row.ytd_cents);
        state.next_order = row.next_order;
        true
    }

    pub(super) fn customer(&mut self, key: CustomerKey, row: &Customer<'_>) -> bool {
        let Some(customer) = self.place_customer(key) else { return false };
        customer.balance_cents = customer.balance_cents.saturating_add(row.balance_cents);
        customer.ytd_payment_cents =
            customer.ytd_payment_cents.saturating_add(row.ytd_payment_cents);
        if let Some(district) = self.place(key.district) {
            district.deliveries += u64::from(row.deliveries);
        }
        true
    }

    pub(super) fn paid_at(&mut self, key: DistrictKey, amount_cents: i64) -> bool {
        let Some(state) = self.place(key.district) else { return false };
        state.paid_cents += i128::from(amount_cents);
        true
    }

    pub(super) fn paid_for(&mut self, key: CustomerKey, amount_cents: i64) -> bool {
        let Some(customer) = self.place_customer(key) else { return false };
        customer.paid_cents += amount_cents;
        true
    }

    pub(super) fn new_order(&mut self, key: OrderKey) -> bool {
        let Some(state) = self.place(key.district) else { return false };
        state.new_orders += 1;
        state.new_order_min = state.new_order_min.min(key.order);
        state.new_order_max = state.new_order_max.max(key.order);
        state.open.entry(key.order).or_default().is_new = true;
        true
    }

    pub(super) fn order(&mut self, key: OrderKey, row: &Order) -> bool {
        let Some(state) = self.place(key.district) else { return false };
        state.orders += 1;
        state.order_max = state.order_max.max(key.order);
        state.lines_promised += u64::from(row.lines);
        let order = state.open.entry(key.order).or_default();
        order.customer = row.customer;
        order.lines_promised += u32::from(row.lines);
        order.has_carrier = row.carrier.is_some();
        (1..=state.customers.len()).contains(&(row.customer as usize))
    }

    pub(super) fn order_line(&mut self, key: OrderLineKey, row: &OrderLine<'_>) -> bool {
        let Some(state) = self.place(key.district) else { return false };
        state.lines += 1;
        let order = state.open.entry(key.order).or_default();
        order.lines += 1;
        if row.delivered_us.is_some() {
            order.lines_delivered += 1;
            order.delivered_cents += i64::from(row.amount_cents);
        }
        true
    }

    /// Checks conditions 5 to 7 for the orders below `below`, and adds the delivered amounts to
    /// their customers.
    pub(super) fn settle(&mut self, key: DistrictKey, below: u32, findings: &mut Findings) {
        let Some(state) = self.place(key.district) else { return };
        let rest = match below {
            u32::MAX => BTreeMap::new(),
            below => state.open.split_off(&below),
        };
        for (number, order) in std::mem::replace(&mut state.open, rest) {
            order.judge(
                OrderKey { warehouse: key.warehouse, district: key.district, order: number },
                findings,
            );
            let at = (order.customer as usize).wrapping_sub(1);
            if let Some(customer) = state.customers.get_mut(at) {
                customer.delivered_cents += order.delivered_cents;
            }
        }
    }

    /// Checks the conditions on sums. The caller has settled all orders.
    pub(super) fn judge(&self, warehouse: u32, scale: Scale, findings: &mut Findings) {
        let sum = |of: fn(&DistrictState) -> i128| self.districts.iter().map(of).sum::<i128>();
        let ytd = self.ytd_cents;
        let districts = sum(|district| district.ytd_cents);
        findings.compare(1, ytd == districts, || {
            let (ytd, districts) = (money(ytd), money(districts));
            format!("warehouse {warehouse}: W_YTD is {ytd}, the sum of D_YTD {districts}")
        });
        let paid = sum(|district| district.paid_cents);
        findings.compare(8, ytd == paid, || {
            let (ytd, paid) = (money(ytd), money(paid));
            format!("warehouse {warehouse}: W_YTD is {ytd}, the sum of H_AMOUNT {paid}")
        });
        for (district, state) in (1..).zip(&self.districts) {
            state.judge(DistrictKey { warehouse, district }, scale, findings);
        }
    }
}

impl OrderState {
    fn judge(&self, key: OrderKey, findings: &mut Findings) {
        let OrderState { has_carrier, is_new, lines, lines_delivered, .. } = *self;
        let name = || {
            let OrderKey { warehouse, district, order } = key;
            format!("warehouse {warehouse}, district {district}, order {order}")
        };
        let carrier = if has_carrier { "has" } else { "has no" };
        // Without a row of ORDER, a row of NEW-ORDER is a violation, too.
        let exists = self.customer != 0;
        findings.compare(5, has_carrier != is_new && exists || !exists && !is_new, || {
            let is_new = if is_new { "is" } else { "is not" };
            let order = if exists { "" } else { " (there is no such row of ORDER)" };
            format!("{}: {carrier} O_CARRIER_ID and {is_new} in NEW-ORDER{order}", name())
        });
        findings.compare(6, self.lines_promised == lines, || {
            let promised = self.lines_promised;
            format!("{}: O_OL_CNT is {promised}, rows of ORDER-LINE are {lines}", name())
        });
        let right = if has_carrier { lines } else { 0 };
        findings.compare(7, lines_delivered == right, || {
            format!(
                "{}: {carrier} O_CARRIER_ID, and {lines_delivered} of {lines} lines have OL_DELIVERY_D",
                name()
            )
        });
    }
}

impl DistrictState {
    fn judge(&self, key: DistrictKey, scale: Scale, findings: &mut Findings) {
        let DistrictKey { warehouse, district } = key;
        let name = || format!("warehouse {warehouse}, district {district}");
        let last = i64::from(self.next_order) - 1;
        let (orders, new) = (self.order_max, self.new_order_max);
        let agree = last == i64::from(orders) && (self.new_orders == 0 || orders == new);
        findings.compare(2, agree, || {
            let new = match self.new_orders {
                0 => "there are no new orders".to_owned(),
                _ => format!("the largest NO_O_ID is {new}"),
            };
            format!("{}: D_NEXT_O_ID - 1 is {last}, the largest O_ID is {orders}, {new}", name())
        });
        let span = match self.new_orders {
            0 => 0,
            _ => u64::from(new - self.new_order_min) + 1,
        };
        findings.compare(3, span == self.new_orders, || {
            let (count, min) = (self.new_orders, self.new_order_min);
            format!("{}: NEW-ORDER has {count} rows from NO_O_ID {min} to {new}", name())
        });
        findings.compare(4, self.lines_promised == self.lines, || {
            let (promised, lines) = (self.lines_promised, self.lines);
            format!("{}: the sum of O_OL_CNT is {promised}, rows of ORDER-LINE are {lines}", name())
        });
        findings.compare(9, self.ytd_cents == self.paid_cents, || {
            let (ytd, paid) = (money(self.ytd_cents), money(self.paid_cents));
            format!("{}: D_YTD is {ytd}, the sum of H_AMOUNT {paid}", name())
        });
        let delivered = u64::from(scale.delivered()) + self.deliveries;
        findings.compare(11, self.orders == self.new_orders + delivered, || {
            let (orders, new_orders) = (self.orders, self.new_orders);
            format!(
                "{}: {orders} rows of ORDER less {new_orders} of NEW-ORDER are not {} + {}, the orders \
                 delivered at first and the sum of C_DELIVERY_CNT",
                name(),
                scale.delivered(),
                self.deliveries
            )
        });
        for (number, customer) in (1..).zip(&self.customers) {
            customer.judge(CustomerKey { warehouse, district, customer: number }, findings);
        }
    }
}

impl CustomerState {
    fn judge(&self, key: CustomerKey, findings: &mut Findings) {
        let balance_cents = i128::from(self.balance_cents);
        let ytd_payment_cents = i128::from(self.ytd_payment_cents);
        let paid_cents = i128::from(self.paid_cents);
        let delivered_cents = i128::from(self.delivered_cents);
        let name = || {
            let CustomerKey { warehouse, district, customer } = key;
            format!("warehouse {warehouse}, district {district}, customer {customer}")
        };
        let (balance, delivered) = (|| money(balance_cents), || money(delivered_cents));
        findings.compare(10, balance_cents == delivered_cents - paid_cents, || {
            format!(
                "{}: C_BALANCE is {}, the sums of OL_AMOUNT {} and of H_AMOUNT {}",
                name(),
                balance(),
                delivered(),
                money(paid_cents)
            )
        });
        findings.compare(12, balance_cents + ytd_payment_cents == delivered_cents, || {
            format!(
                "{}: C_BALANCE is {}, C_YTD_PAYMENT {}, the sum of OL_AMOUNT {}",
                name(),
                balance(),
                money(ytd_payment_cents),
                delivered()
            )
        });
    }
}
