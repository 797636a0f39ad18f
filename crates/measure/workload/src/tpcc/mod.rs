//! TPC-C, the order-entry benchmark (standard specification, revision 5.11): its rows, its initial
//! population, the input of its transactions, its consistency conditions and its figures. "Clause"
//! means a clause of this standard.
//!
//! ```text
//!   Scale ──► Population ── Loaded: key, row ──► (the store) ── rows ──► check::ConsistencyCheck
//!                 │                                 ▲    │
//!             Constants                             │    └─ latencies, aborts ──► Statistics, Summary
//!                 ▼                                 │
//!             Terminal ── Transaction ──► (what runs the transactions)
//! ```
//!
//! This crate only makes the input. A program executes the transactions on its store. [`row`] and
//! [`key`] define the layout of rows and keys. [`row`] also has the arithmetic that the standard
//! prescribes ([`row::Stock::take_out`], [`row::order_total_cents`], [`row::note_payment`],
//! [`CustomerChoice::middle`]).
//!
//! # Invariants
//!
//! * Money is in whole cents and rates are in whole ten-thousandths, so sums are exact.
//! * A row of the population follows from its key and from the population's settings (scale, seed,
//!   load time). The order in which workers load parts changes nothing. A terminal's transactions
//!   follow from its settings, its home, the seed and its number.
//! * Making a transaction's input and decoding a row allocate nothing.
//!
//! Departures from the standard:
//!
//! * Where clause 4.3.3.1 wants a random 10 % of the rows, one of every ten rows is chosen at
//!   random.
//! * Condition 11 has a form that also holds after deliveries ([`check`]).
//! * The figures are not TPC results. A run here is not audited and is shorter. Of terminals, a run
//!   has only their keying and think times.

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
pub use think::think_time;
