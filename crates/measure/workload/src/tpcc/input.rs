//! The input of each transaction, which a terminal generates (clauses 2.4.1 to 2.8.1).

use super::TransactionKind;
use super::values::{self, LAST_NAME_MAX};

/// The maximum number of lines of an order (clause 2.4.1.3).
pub const LINES_MAX: usize = 15;

/// One transaction with its input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TpccTransaction {
    /// Clause 2.4.
    NewOrder(NewOrderInput),
    /// Clause 2.5.
    Payment(PaymentInput),
    /// Clause 2.6.
    OrderStatus(OrderStatusInput),
    /// Clause 2.7.
    Delivery(DeliveryInput),
    /// Clause 2.8.
    StockLevel(StockLevelInput),
}

impl TpccTransaction {
    /// The transaction's type.
    pub fn kind(&self) -> TransactionKind {
        match self {
            TpccTransaction::NewOrder(_) => TransactionKind::NewOrder,
            TpccTransaction::Payment(_) => TransactionKind::Payment,
            TpccTransaction::OrderStatus(_) => TransactionKind::OrderStatus,
            TpccTransaction::Delivery(_) => TransactionKind::Delivery,
            TpccTransaction::StockLevel(_) => TransactionKind::StockLevel,
        }
    }

    /// The home warehouse of the transaction.
    pub fn home(&self) -> u32 {
        match self {
            TpccTransaction::NewOrder(input) => input.warehouse,
            TpccTransaction::Payment(input) => input.warehouse,
            TpccTransaction::OrderStatus(input) => input.warehouse,
            TpccTransaction::Delivery(input) => input.warehouse,
            TpccTransaction::StockLevel(input) => input.warehouse,
        }
    }
}

/// A customer's last name, without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastName {
    bytes: [u8; LAST_NAME_MAX],
    len: u8,
}

impl LastName {
    /// The last name of `number`, from 0 to 999 (clause 4.3.2.3).
    pub fn of_number(number: u32) -> LastName {
        let mut name = LastName { bytes: [0; LAST_NAME_MAX], len: 0 };
        for syllable in values::syllables(number) {
            let begin = usize::from(name.len);
            name.bytes[begin..begin + syllable.len()].copy_from_slice(syllable);
            name.len += syllable.len() as u8;
        }
        name
    }

    /// The letters of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// How a transaction selects its customer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CustomerChoice {
    /// By C_ID.
    Number(u32),
    /// By C_LAST. Of the `n` customers with this name, sorted by first name, the transaction takes
    /// number `n / 2`, rounded up and counted from 1 (clause 2.5.2.2).
    LastName(LastName),
}

impl CustomerChoice {
    /// The index, from 0, of the customer to take of `count` customers with one name.
    pub fn middle(count: usize) -> usize {
        count.div_ceil(2).saturating_sub(1)
    }
}

/// A line of a new order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewOrderLine {
    /// OL_I_ID. The last item of an order that rolls back does not exist.
    pub item: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: u32,
    /// OL_QUANTITY.
    pub quantity: u8,
}

/// Input of a new order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewOrderInput {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u8,
    /// C_ID.
    pub customer: u32,
    /// Whether the last item does not exist, so that the transaction must roll back.
    pub rolls_back: bool,
    pub(super) lines: [NewOrderLine; LINES_MAX],
    pub(super) line_count: u8,
}

impl NewOrderInput {
    /// The lines, 5 to 15.
    pub fn lines(&self) -> &[NewOrderLine] {
        &self.lines[..usize::from(self.line_count)]
    }

    /// O_ALL_LOCAL: whether the home warehouse supplies every line.
    pub fn all_local(&self) -> bool {
        self.lines().iter().all(|line| line.supply_warehouse == self.warehouse)
    }
}

/// Input of a payment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentInput {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u8,
    /// C_W_ID. With the standard's settings, it differs from `warehouse` in 15 % of the payments.
    pub customer_warehouse: u32,
    /// C_D_ID.
    pub customer_district: u8,
    /// The customer in that district.
    pub customer: CustomerChoice,
    /// H_AMOUNT.
    pub amount_cents: i32,
}

/// Input of an order status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderStatusInput {
    /// C_W_ID.
    pub warehouse: u32,
    /// C_D_ID.
    pub district: u8,
    /// The customer.
    pub customer: CustomerChoice,
}

/// Input of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryInput {
    /// W_ID.
    pub warehouse: u32,
    /// O_CARRIER_ID.
    pub carrier: std::num::NonZeroU8,
}

/// Input of a stock level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StockLevelInput {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u8,
    /// The transaction counts the stocks with a quantity below this threshold.
    pub threshold: i16,
}

/// The number of the district's latest orders that a stock-level transaction reads (clause
/// 2.8.2.2).
pub const STOCK_LEVEL_ORDERS: u32 = 20;
