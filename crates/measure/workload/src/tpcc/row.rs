//! The nine tables (clause 1.3): their columns, and their rows as structs and as bytes.
//!
//! Each column is declared once. The row's struct, its encoding and
//! [`TpccTable::row_columns`](super::TpccTable::row_columns) follow from the declaration.
//!
//! A row does not contain its key. Money is in cents. Rates (taxes, discounts) are in
//! ten-thousandths. Times are in microseconds of the caller's clock. Texts are ASCII. A decoded row
//! borrows its texts from the bytes, so decoding allocates nothing.
//!
//! ```
//! use latchwork_workload::tpcc::row::District;
//!
//! let address = (&b"first"[..], &b"second"[..], &b"city"[..]);
//! let mut district = District {
//!     ytd_cents: 3_000_000,
//!     next_order: 3_001,
//!     tax_e4: 1_250,
//!     state: b"XY",
//!     zip: b"123411111",
//!     name: b"district",
//!     street_1: address.0,
//!     street_2: address.1,
//!     city: address.2,
//! };
//! let mut bytes = Vec::new();
//! district.encode(&mut bytes);
//! assert_eq!(District::decode(&bytes)?, district);
//!
//! // A payment changes twelve bytes at the beginning.
//! district.ytd_cents += 4_200;
//! let (before, untouched) = (bytes.clone(), District::UPDATED_LEN);
//! district.write_updated(&mut bytes);
//! assert_eq!(bytes[untouched..], before[untouched..]);
//! # drop(before);
//! assert_eq!(District::decode(&bytes)?.ytd_cents, 3_004_200);
//! # Ok::<(), latchwork_workload::tpcc::row::BadRow>(())
//! ```

use std::num::{NonZeroU8, NonZeroU64};

use super::column::{Columns, Declaration, TpccColumnType};
use super::field::{Field, measured, put, rest, rows, slice, take, type_of_key};
use super::key::{
    CustomerKey, DistrictKey, HistoryKey, ItemKey, OrderKey, OrderLineKey, StockKey, WarehouseKey,
};

pub use super::field::BadRow;

/// The maximum length of C_DATA, in bytes (clause 1.3.1).
pub const CUSTOMER_DATA_MAX: usize = 500;

/// C_CREDIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Credit {
    /// `GC`.
    Good,
    /// `BC`. Each payment of such a customer adds a note to C_DATA.
    Bad,
}

impl<'a> Field<'a> for Credit {
    const LEN: usize = 1;
    const TYPE: TpccColumnType = TpccColumnType::U8;

    #[inline]
    fn put(&self, out: &mut [u8]) {
        (*self == Credit::Bad).put(out);
    }

    #[inline]
    fn get(bytes: &'a [u8]) -> Option<Credit> {
        bool::get(bytes).map(|bad| if bad { Credit::Bad } else { Credit::Good })
    }
}

rows! {
    /// A row of WAREHOUSE.
    Warehouse<'a> = "WAREHOUSE" {
        key WarehouseKey { W_ID => warehouse, }
        updated {
            W_YTD => ytd_cents: i64,
        }
        fixed {
            W_TAX => tax_e4: u16,
            W_STATE => state: &'a [u8; 2],
            W_ZIP => zip: &'a [u8; 9],
        }
        text {
            W_NAME(10) => name,
            W_STREET_1(20) => street_1,
            W_STREET_2(20) => street_2,
            W_CITY(20) => city,
        }
        rest {}
    }

    /// A row of DISTRICT.
    District<'a> = "DISTRICT" {
        key DistrictKey { D_W_ID => warehouse, D_ID => district, }
        updated {
            D_YTD => ytd_cents: i64,
            D_NEXT_O_ID => next_order: u32,
        }
        fixed {
            D_TAX => tax_e4: u16,
            D_STATE => state: &'a [u8; 2],
            D_ZIP => zip: &'a [u8; 9],
        }
        text {
            D_NAME(10) => name,
            D_STREET_1(20) => street_1,
            D_STREET_2(20) => street_2,
            D_CITY(20) => city,
        }
        rest {}
    }

    /// A row of CUSTOMER.
    Customer<'a> = "CUSTOMER" {
        key CustomerKey { C_W_ID => warehouse, C_D_ID => district, C_ID => customer, }
        updated {
            C_BALANCE => balance_cents: i64,
            C_YTD_PAYMENT => ytd_payment_cents: i64,
            C_PAYMENT_CNT => payments: u32,
            C_DELIVERY_CNT => deliveries: u32,
        }
        fixed {
            C_CREDIT => credit: Credit,
            C_DISCOUNT => discount_e4: u16,
            C_CREDIT_LIM => credit_limit_cents: i64,
            C_SINCE => since_us: u64,
            C_MIDDLE => middle: &'a [u8; 2],
            C_STATE => state: &'a [u8; 2],
            C_ZIP => zip: &'a [u8; 9],
            C_PHONE => phone: &'a [u8; 16],
        }
        text {
            C_FIRST(16) => first,
            C_LAST(16) => last,
            C_STREET_1(20) => street_1,
            C_STREET_2(20) => street_2,
            C_CITY(20) => city,
        }
        rest {
            C_DATA(CUSTOMER_DATA_MAX) => data
        }
    }

    /// A row of HISTORY.
    History<'a> = "HISTORY" {
        key HistoryKey { H_W_ID => warehouse, H_D_ID => district, H_NUMBER => number, }
        updated {}
        fixed {
            H_C_W_ID => customer_warehouse: u32,
            H_C_D_ID => customer_district: u8,
            H_C_ID => customer: u32,
            H_DATE => at_us: u64,
            H_AMOUNT => amount_cents: i32,
        }
        text {}
        rest {
            H_DATA(24) => data
        }
    }

    /// A row of NEW-ORDER. The row holds only its key.
    NewOrder = "NEW-ORDER" {
        key OrderKey { NO_W_ID => warehouse, NO_D_ID => district, NO_O_ID => order, }
        updated {}
        fixed {}
        text {}
        rest {}
    }

    /// A row of ORDER.
    Order = "ORDER" {
        key OrderKey { O_W_ID => warehouse, O_D_ID => district, O_ID => order, }
        updated {
            /// Null until the delivery.
            O_CARRIER_ID => carrier: Option<NonZeroU8>,
        }
        fixed {
            O_C_ID => customer: u32,
            O_ENTRY_D => entered_us: u64,
            O_OL_CNT => lines: u8,
            O_ALL_LOCAL => all_local: bool,
        }
        text {}
        rest {}
    }

    /// A row of ORDER-LINE.
    OrderLine<'a> = "ORDER-LINE" {
        key OrderLineKey {
            OL_W_ID => warehouse, OL_D_ID => district, OL_O_ID => order, OL_NUMBER => line,
        }
        updated {
            /// Null until the delivery.
            OL_DELIVERY_D => delivered_us: Option<NonZeroU64>,
        }
        fixed {
            OL_I_ID => item: u32,
            OL_SUPPLY_W_ID => supply_warehouse: u32,
            OL_QUANTITY => quantity: u8,
            OL_AMOUNT => amount_cents: i32,
            OL_DIST_INFO => district_info: &'a [u8; 24],
        }
        text {}
        rest {}
    }

    /// A row of ITEM.
    Item<'a> = "ITEM" {
        key ItemKey { I_ID => item, }
        updated {}
        fixed {
            I_IM_ID => image: u32,
            I_PRICE => price_cents: i32,
        }
        text {
            I_NAME(24) => name,
        }
        rest {
            I_DATA(50) => data
        }
    }

    /// A row of STOCK.
    Stock<'a> = "STOCK" {
        key StockKey { S_W_ID => warehouse, S_I_ID => item, }
        updated {
            S_QUANTITY => quantity: i16,
            S_YTD => ytd: u32,
            S_ORDER_CNT => orders: u32,
            S_REMOTE_CNT => remotes: u32,
        }
        fixed {
            S_DIST_01 S_DIST_02 S_DIST_03 S_DIST_04 S_DIST_05
            S_DIST_06 S_DIST_07 S_DIST_08 S_DIST_09 S_DIST_10 => district_infos: &'a [u8; 240],
        }
        text {}
        rest {
            S_DATA(50) => data
        }
    }
}

impl<'a> Stock<'a> {
    /// S_DIST_xx of a district, 1 to 10; `None` for another.
    pub fn district_info(&self, district: u8) -> Option<&'a [u8; 24]> {
        let at = usize::from(district).checked_sub(1)? * 24;
        self.district_infos.get(at..at + 24)?.try_into().ok()
    }

    /// Takes `quantity` out of the stock for a line of an order. If fewer than ten would remain, 91
    /// are added (clause 2.4.2.2).
    pub fn take_out(&mut self, quantity: u8, remote: bool) {
        let left = self.quantity.saturating_sub(i16::from(quantity));
        self.quantity = if left >= 10 { left } else { left + 91 };
        self.ytd = self.ytd.saturating_add(u32::from(quantity));
        self.orders = self.orders.saturating_add(1);
        self.remotes = self.remotes.saturating_add(u32::from(remote));
    }
}

/// The total of an order (clause 2.4.2.2), in cents: the sum of its lines, less the discount, plus
/// both taxes. Half a cent is rounded up.
pub fn order_total_cents(
    lines_cents: i64,
    discount_e4: u16,
    warehouse_tax_e4: u16,
    district_tax_e4: u16,
) -> i64 {
    let discounted = i128::from(lines_cents) * (10_000 - i128::from(discount_e4));
    let taxed = discounted * (10_000 + i128::from(warehouse_tax_e4) + i128::from(district_tax_e4));
    ((taxed + 50_000_000).div_euclid(100_000_000)) as i64
}

/// The C_DATA of a customer with bad credit after a payment (clause 2.5.2.2). The contents of `out`
/// become the note of the payment, then the old text `data`, cut after [`CUSTOMER_DATA_MAX`] bytes.
pub fn note_payment(
    customer: CustomerKey,
    district: DistrictKey,
    amount_cents: i64,
    data: &[u8],
    out: &mut Vec<u8>,
) {
    use std::io::Write;
    out.clear();
    let (whole, cents) = (amount_cents / 100, amount_cents % 100);
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "{} {} {} {} {} {whole}.{cents:02} ",
        customer.customer,
        customer.district,
        customer.warehouse,
        district.district,
        district.warehouse,
    );
    out.extend_from_slice(data);
    out.truncate(CUSTOMER_DATA_MAX);
}
