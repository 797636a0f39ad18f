//! The input of each transaction, as a terminal enters it (clauses 2.4.1 to 2.8.1).

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

    /// The warehouse that the terminal belongs to.
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

/// A customer's last name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastName {
    bytes: [u8; LAST_NAME_MAX],
    len: u8,
}

impl LastName {
    /// The name with a number below 1000 (clause 4.3.2.3).
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

/// The choice of a customer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CustomerChoice {
    /// By C_ID.
    Number(u32),
    /// By C_LAST: the customer in the middle of those with that name, ordered by first name.
    /// Counted from 1, the middle one of `n` is number `n / 2`, rounded up (clause 2.5.2.2).
    LastName(LastName),
}

impl CustomerChoice {
    /// The index, from 0, of the middle one of `count` customers with one name.
    pub fn middle(count: usize) -> usize {
        count.div_ceil(2).saturating_sub(1)
    }
}

/// A line of a new order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewOrderLine {
    /// OL_I_ID. An order with a rollback ends with an item that does not exist.
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
    /// C_W_ID. For 15 % of the payments, this is another warehouse.
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
    /// Stocks below this count.
    pub threshold: i16,
}

/// A stock level reads this many of the district's latest orders (clause 2.8.2.2).
pub const STOCK_LEVEL_ORDERS: u32 = 20;
