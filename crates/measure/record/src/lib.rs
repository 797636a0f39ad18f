//! The record of transactions: what each of them read, scanned and wrote, and how it ended.
//!
//! ```text
//!   worker ── Recorder: begin, read, scan, write, finish ──┐
//!   worker ── Recorder                                     ├──► Recording ──► file or memory
//!   worker ── Recorder                                     ┘                        │
//!                                                                          TransactionHistory
//! ```
//!
//! The crate knows no store and no concurrency control. A recorded transaction has the rows that
//! the transaction read and wrote, and the ranges of its scans. The commit timestamp of the writer
//! names the version of a row. The crate `latchwork-history` judges a recorded history; a program
//! that only records does not compile the judge.
//!
//! - [`Recording`], [`Recorder`], [`Record`]: how to record a history. Each call of a recorder that
//!   is off costs one branch.
//! - [`TransactionHistory`], [`RecordedTransaction`], [`RecordedOperation`]: the recorded history.
//!   The book has the file's format.

#![forbid(unsafe_code)]

mod event;
mod file;
mod hex;
mod recorder;

pub use event::{
    Direction, RecordedChange, RecordedOperation, RecordedTransaction, RowVersion, Scan, SeenKey,
    TransactionHistory, TransactionId, TransactionOutcome,
};
pub use file::HistoryError;
pub use recorder::{Record, Recorder, Recording, ScanId};
