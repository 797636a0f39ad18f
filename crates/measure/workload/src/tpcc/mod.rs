//! TPC-C, the order-entry benchmark (standard specification, revision 5.11): its rows, its initial
//! population, the input of its transactions, its consistency conditions and its figures. Clauses
//! are those of the standard.
//!
//! ```text
//!   Scale ──► Population ── Loaded: key, row ──► (the store) ── rows ──► check::ConsistencyCheck
//!                 │                                 ▲    │
//!             Constants                             │    └─ latencies, aborts ──► Statistics, Summary
//!                 ▼                                 │
//!             Terminal ── Transaction ──► (what runs the transactions)
//! ```
//!
//! The transactions themselves are run by whoever has a store. [`row`] and [`key`] say what stands
//! where; the arithmetic that the standard prescribes for them is there too
//! ([`row::Stock::take_out`], [`row::order_total_cents`], [`row::note_payment`],
//! [`CustomerChoice::middle`]).
//!
//! # Invariants
//!
//! * Money is whole cents, rates are whole ten-thousandths: sums are exact.
//! * Every row of the population follows from the seed and its key alone, and every transaction
//!   from the seed, the terminal and its number: how many workers there are changes nothing.
//! * Nothing is allocated for a transaction's input, and nothing to read a row.
//!
//! Departures from the standard: 10 % of the rows of some tables are chosen as one of every ten
//! (clause 4.3.3.1 leaves open how); condition 11 is in the form that also holds after deliveries
//! ([`check`]); the figures are no published results, since a run here is not audited, is shorter,
//! and has no terminals beyond their times.

mod census;
pub mod check;
mod field;
mod input;
pub mod key;
mod kind;
mod mix;
mod populate;
pub mod row;
mod rows_of_part;
mod scale;
mod statistics;
mod table;
mod terminal;
mod think;
pub mod values;

pub use census::{Census, Size};
pub use input::{
    CustomerChoice, DeliveryInput, LINES_MAX, LastName, NewOrderInput, NewOrderLine,
    OrderStatusInput, PaymentInput, STOCK_LEVEL_ORDERS, StockLevelInput, Transaction,
};
pub use kind::TransactionKind;
pub use mix::{Choice, Mix, Weights};
pub use populate::{Loaded, Part, Population};
pub use rows_of_part::Rows;
pub use scale::{DISTRICTS, Scale};
pub use statistics::{CURRENT_PREFIX, Counts, SUMMARY_PREFIX, Statistics, Summary, Waiting};
pub use table::{Index, Table};
pub use terminal::{Home, InputSettings, RemoteLines, Terminal};
pub use think::{TPMC_PER_WAREHOUSE_MAX, think_time};
