//! The initial population (clause 4.3.3.1), part by part.
//!
//! ```text
//! Population ── part(number) ──► Part ── rows ──► key, row, key in the index
//!                (any worker)     (one table, one district or warehouse, ascending keys)
//! ```
//!
//! Every row follows from the population's settings and from its key. So any number of workers may
//! load the parts in any order, and the database is the same.

use std::num::NonZeroU64;

use super::scale::{self, DISTRICTS, Scale};
use super::values::Constants;
use super::{TpccIndex, TpccTable};
use crate::WorkloadError;
use crate::hash::mix;
use crate::random::WorkloadRandom;

/// Number of parts of ITEM, and of the STOCK of each warehouse.
const CHUNKS: u32 = 10;

/// Tables with one part per district.
const BY_DISTRICT: [TpccTable; 5] = [
    TpccTable::Customer,
    TpccTable::History,
    TpccTable::Order,
    TpccTable::OrderLine,
    TpccTable::NewOrder,
];

/// Number of parts of a warehouse: its row, its districts, its stock, and five tables for each
/// district.
const PARTS_OF_WAREHOUSE: u64 = 2 + CHUNKS as u64 + DISTRICTS as u64 * BY_DISTRICT.len() as u64;

/// The contents of a database before the first transaction.
///
/// ```
/// use latchwork_workload::tpcc::{Population, Scale, TpccTable};
///
/// let population = Population::new(Scale::new(100, 30)?, 1, 42, 1)?;
/// let mut customers = 0;
/// for part in (0..population.part_count()).filter_map(|number| population.part(number)) {
///     let mut rows = population.rows(part);
///     while let Some(loaded) = rows.next() {
///         customers += u32::from(loaded.table == TpccTable::Customer);
///     }
/// }
/// assert_eq!(customers, 300);
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Population {
    pub(super) scale: Scale,
    pub(super) warehouses: u32,
    pub(super) constants: Constants,
    pub(super) loaded_us: NonZeroU64,
    seed: u64,
}

/// Rows of one table in one warehouse or district, with consecutive keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadPart {
    /// The table.
    pub table: TpccTable,
    /// The warehouse; 0 for items, which belong to no warehouse.
    pub warehouse: u32,
    /// The district; 0 where the table is not divided by districts.
    pub district: u8,
    /// The numbers of the rows, from 1. For ORDER-LINE, the numbers of the orders.
    pub(super) numbers: std::ops::Range<u32>,
}

/// A row to load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded<'a> {
    /// Its table.
    pub table: TpccTable,
    /// Its primary key.
    pub key: &'a [u8],
    /// The row.
    pub row: &'a [u8],
    /// The row's key in the table's secondary index, if the table has one.
    pub index: Option<(TpccIndex, &'a [u8])>,
}

impl Population {
    /// The population of `warehouses` warehouses. All times in its rows are `loaded_us`, in
    /// microseconds of the caller's clock. A `loaded_us` of 0 becomes 1, because 0 encodes null.
    ///
    /// # Errors
    ///
    /// Fails when there are no warehouses.
    pub fn new(
        scale: Scale,
        warehouses: u32,
        seed: u64,
        loaded_us: u64,
    ) -> Result<Population, WorkloadError> {
        scale::warehouses(warehouses)?;
        let constants = Constants::for_load(seed);
        let loaded_us = NonZeroU64::new(loaded_us).unwrap_or(NonZeroU64::MIN);
        Ok(Population { scale, warehouses, constants, loaded_us, seed })
    }

    /// Its scale.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The number of warehouses, which are counted from 1.
    pub fn warehouses(&self) -> u32 {
        self.warehouses
    }

    /// The constants C of the load. The constants of a run follow from them
    /// ([`Constants::for_run`]).
    pub fn constants(&self) -> Constants {
        self.constants
    }

    /// The number of parts.
    pub fn part_count(&self) -> u64 {
        u64::from(CHUNKS) + u64::from(self.warehouses) * PARTS_OF_WAREHOUSE
    }

    /// The part with this number, from 0; `None` after the last part. Some parts of very small
    /// databases are empty.
    pub fn part(&self, number: u64) -> Option<LoadPart> {
        if number >= self.part_count() {
            return None;
        }
        let part =
            |table, warehouse, district, numbers| LoadPart { table, warehouse, district, numbers };
        let Some(number) = number.checked_sub(u64::from(CHUNKS)) else {
            return Some(part(TpccTable::Item, 0, 0, chunk(self.scale.items(), number as u32)));
        };
        let warehouse = (number / PARTS_OF_WAREHOUSE) as u32 + 1;
        Some(match (number % PARTS_OF_WAREHOUSE) as u32 {
            0 => part(TpccTable::Warehouse, warehouse, 0, 1..2),
            1 => part(TpccTable::District, warehouse, 0, 1..u32::from(DISTRICTS) + 1),
            at if at < 2 + CHUNKS => {
                part(TpccTable::Stock, warehouse, 0, chunk(self.scale.items(), at - 2))
            }
            at => {
                let at = at - 2 - CHUNKS;
                let tables = BY_DISTRICT.len() as u32;
                let table = BY_DISTRICT[(at % tables) as usize];
                let begin =
                    if table == TpccTable::NewOrder { self.scale.delivered() + 1 } else { 1 };
                let numbers = begin..self.scale.customers() + 1;
                part(table, warehouse, (at / tables) as u8 + 1, numbers)
            }
        })
    }

    /// The random generator of one row. `tag` is the number of the row's table, or one of the tags
    /// in `rows_of_part`.
    #[inline]
    pub(super) fn random(
        &self,
        tag: u8,
        warehouse: u32,
        district: u8,
        number: u32,
    ) -> WorkloadRandom {
        let place = u64::from(tag) << 40 | u64::from(warehouse) << 8 | u64::from(district);
        WorkloadRandom::for_stream(mix(self.seed ^ mix(place)), u64::from(number))
    }
}

/// The chunk number `at` of `1..=count`.
fn chunk(count: u32, at: u32) -> std::ops::Range<u32> {
    let edge = |at| (u64::from(count) * u64::from(at) / u64::from(CHUNKS)) as u32 + 1;
    edge(at)..edge(at + 1)
}
