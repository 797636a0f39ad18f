//! Checks of histories: whether recorded transactions were serializable, and whether one order
//! explains the answers of recorded calls.
//!
//! Calls have the module [`calls`], with checkers of linearizability, sequential consistency and
//! store buffers. The rest of the crate is about transactions, as the crate `latchwork-record`
//! records them:
//!
//! ```text
//!                                          TransactionHistory
//!                       ┌───────────────────────────┴───────────────────────────┐
//!                       ▼                                                       ▼
//!   check: versions in the order of timestamps ──► graph ──► cycles ──► Report  write_edn
//! ```
//!
//! - [`check`]: builds Adya's dependency graph and searches it for cycles. The [`HistoryReport`]
//!   names each cycle as the literature does.
//! - [`write_edn`]: exports the history to Elle, a checker of Jepsen.
//!
//! # What a good report means
//!
//! A good report says: some order of all committed transactions explains every recorded read. The
//! report relies on two conditions. All transactions read one clock. The timestamps of a row's
//! writers follow the order of the writes. A good report does not say:
//!
//! - that aborted transactions saw a consistent state,
//! - that a read returned the value of its version, unless the hashes of values are recorded,
//! - that a scan found the rows of its range that no recorded transaction wrote.
//!
//! # Tests of the check
//!
//! The tests compare the verdicts with a search through all orders of small histories. The tests
//! also compare with the crate `adya` (0.1, without its database drivers), an independent checker
//! after Elle. `adya` is only a development dependency: it knows no ranges, and it infers the order
//! of versions, which is known here.
//!
//! # Example
//!
//! ```
//! use latchwork_history::{
//!     CheckOptions, Class, RecordedChange, Recording, TransactionOutcome, check,
//! };
//!
//! // Two transactions read both of two rows, and change one each.
//! let recording = Recording::memory(0);
//! let recorder = recording.recorder();
//! for (cts, row) in [(64, b"x"), (128, b"y")] {
//!     let mut record = recorder.begin(0, 0, 10);
//!     record.read(1, b"x", 0);
//!     record.read(1, b"y", 0);
//!     record.write(1, row, RecordedChange::Put);
//!     recorder.finish(record, TransactionOutcome::Committed { cts }, 20);
//! }
//! let report = check(&recording.history(), CheckOptions::default());
//! assert_eq!(report.violations[0].class, Class::AntiDependency);
//! println!("{report}");
//! ```

#![forbid(unsafe_code)]

pub mod calls;
mod check;
mod elle;

pub use check::{
    CheckOptions, Class, CycleStep, Dependency, HistoryReport, HistoryViolation, check,
};
pub use elle::{ElleModel, write_edn};
pub use latchwork_record::{
    Direction, HistoryError, Record, RecordedChange, RecordedOperation, RecordedTransaction,
    Recorder, Recording, RowVersion, Scan, ScanId, SeenKey, TransactionHistory, TransactionId,
    TransactionOutcome,
};
