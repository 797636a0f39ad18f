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
//! The owner of a store runs the transactions themselves. [`row`] and [`key`] define the layout of
//! rows and keys. [`row`] also has the arithmetic that the standard prescribes
//! ([`row::Stock::take_out`], [`row::order_total_cents`], [`row::note_payment`],
//! [`CustomerChoice::middle`]).
//!
//! # Invariants
//!
//! * Money is whole cents, rates are whole ten-thousandths: sums are exact.
//! * Every row of the population follows from the seed and its key alone. Every transaction follows
//!   from the seed, the terminal and its number. The number of workers changes nothing.
//! * A transaction's input allocates nothing, and neither does a read of a row.
//!
//! Departures from the standard:
//!
//! * 10 % of the rows of some tables are chosen as one of every ten (clause 4.3.3.1 leaves the
//!   method open).
//! * Condition 11 is in the form that also holds after deliveries ([`check`]).
//! * The figures are no published results. A run here is not audited, is shorter, and has no
//!   terminals beyond their times.

mod census;
pub mod check;
mod column;
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

pub use census::{Census, TableSize};
pub use column::{TpccColumn, TpccColumnType};
pub use input::{
    CustomerChoice, DeliveryInput, LINES_MAX, LastName, NewOrderInput, NewOrderLine,
    OrderStatusInput, PaymentInput, STOCK_LEVEL_ORDERS, StockLevelInput, TpccTransaction,
};
pub use kind::TransactionKind;
pub use mix::{Mix, MixChoice, Weights};
pub use populate::{LoadPart, Loaded, Population};
pub use rows_of_part::PartRows;
pub use scale::{DISTRICTS, Scale};
pub use statistics::{
    CURRENT_PREFIX, SUMMARY_PREFIX, Statistics, Summary, TerminalWaiting, TransactionCounts,
};
pub use table::{TpccIndex, TpccTable};
pub use terminal::{Home, InputSettings, RemoteLines, Terminal};
pub use think::{TPMC_PER_WAREHOUSE_MAX, think_time};
