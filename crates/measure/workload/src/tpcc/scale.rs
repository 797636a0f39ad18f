//! The size of a database.

use std::ops::RangeInclusive;

use crate::WorkloadError;

/// Districts of each warehouse (clause 1.2.1), in every scale.
pub const DISTRICTS: u8 = 10;

/// The numbers of items and customers, from which other sizes follow. The default is the standard's
/// (clause 1.2.1). Tests use smaller numbers.
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
    /// The standard's number of items.
    pub const ITEMS: u32 = 100_000;

    /// The standard's number of customers per district.
    pub const CUSTOMERS: u32 = 3_000;

    /// A database of `items` items with `customers` customers in each district.
    ///
    /// # Errors
    ///
    /// Fails when a number is zero or above the standard's.
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

    /// Number of items, which is also the number of rows of STOCK of each warehouse.
    pub fn items(&self) -> u32 {
        self.items
    }

    /// Number of customers of each district.
    pub fn customers(&self) -> u32 {
        self.customers
    }

    /// Number of initial orders of each district: one per customer (clause 4.3.3.1).
    pub fn orders(&self) -> u32 {
        self.customers
    }

    /// The number of initial orders of each district that are delivered: the first 2100 of 3000.
    pub fn delivered(&self) -> u32 {
        self.customers - self.customers * 3 / 10
    }

    /// Number of last names in a district. Each of the first 1000 customers has another name
    /// (clause 4.3.3.1).
    pub fn last_names(&self) -> u32 {
        self.customers.min(1_000)
    }
}

/// The numbers of `count` warehouses, from 1.
///
/// # Errors
///
/// Fails when `count` is 0.
pub(super) fn warehouses(count: u32) -> Result<RangeInclusive<u32>, WorkloadError> {
    match count {
        0 => Err(WorkloadError::Conflict("0 warehouses: give at least 1".to_owned())),
        count => Ok(1..=count),
    }
}
