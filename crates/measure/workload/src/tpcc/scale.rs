//! How large a database is.

use crate::WorkloadError;
use std::ops::RangeInclusive;

/// Districts of each warehouse (clause 1.2.1), which no scale changes.
pub const DISTRICTS: u8 = 10;

/// The sizes that follow from nothing else, the standard's (clause 1.2.1) unless a test wants a
/// small database.
///
/// ```
/// use latchwork_workload::tpcc::Scale;
///
/// let standard = Scale::default();
/// assert_eq!((standard.items(), standard.customers()), (100_000, 3_000));
/// assert_eq!(standard.delivered(), 2_100);
/// assert!(Scale::new(0, 3_000).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Scale {
    items: u32,
    customers: u32,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { items: Scale::ITEMS, customers: Scale::CUSTOMERS }
    }
}

impl Scale {
    /// The standard's items.
    pub const ITEMS: u32 = 100_000;

    /// The standard's customers of a district.
    pub const CUSTOMERS: u32 = 3_000;

    /// A database of `items` items with `customers` customers in each district.
    ///
    /// # Errors
    ///
    /// Fails when there would be none, or more than the standard has.
    pub fn new(items: u32, customers: u32) -> Result<Scale, WorkloadError> {
        let within = |what: &str, number: u32, most: u32| match number {
            n if (1..=most).contains(&n) => Ok(()),
            n => Err(WorkloadError::Conflict(format!(
                "{n} {what}: give 1 to {most}, the standard's number"
            ))),
        };
        within("items", items, Scale::ITEMS)?;
        within("customers in a district", customers, Scale::CUSTOMERS)?;
        Ok(Scale { items, customers })
    }

    /// Items, and rows of STOCK of each warehouse.
    pub fn items(&self) -> u32 {
        self.items
    }

    /// Customers of each district.
    pub fn customers(&self) -> u32 {
        self.customers
    }

    /// Orders that each district begins with: one of each customer (clause 4.3.3.1).
    pub fn orders(&self) -> u32 {
        self.customers
    }

    /// The first of these orders, which have been delivered: 2100 of 3000.
    pub fn delivered(&self) -> u32 {
        self.customers - self.customers * 3 / 10
    }

    /// Last names that occur in a district: the first 1000 customers have one each (clause
    /// 4.3.3.1).
    pub fn last_names(&self) -> u32 {
        self.customers.min(1_000)
    }
}

/// The warehouses of a database, which are counted from 1.
///
/// # Errors
///
/// Fails when there are none.
pub(super) fn warehouses(count: u32) -> Result<RangeInclusive<u32>, WorkloadError> {
    match count {
        0 => Err(WorkloadError::Conflict("0 warehouses: give at least 1".to_owned())),
        count => Ok(1..=count),
    }
}
