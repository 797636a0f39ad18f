//! Checks of histories: whether recorded transactions were serializable, and whether one order
//! explains the answers of recorded calls.
//!
//! Calls have the module [`calls`], with checkers of linearizability, sequential consistency and
//! store buffers. The rest of the crate is about transactions:
//!
//! ```text
//!   worker ── Recorder: begin, read, scan, write, finish ──┐
//!   worker ── Recorder                                     ├──► Recording ──► file of JSON lines, or memory
//!   worker ── Recorder                                     ┘                          │
//!                                                                                  History
//!                       ┌─────────────────────────────────────────────────────────────┼──────────────┐
//!                       ▼                                                             ▼              ▼
//!   check: versions in the order of timestamps ──► graph ──► cycles ──► Report    write_edn    History::write
//! ```
//!
//! The crate knows no store and no concurrency control. The input about transactions is what each
//! committed transaction saw: the version of each row, by the commit timestamp of its writer, and
//! the ranges of its scans.
//!
//! - [`Recording`], [`Recorder`], [`Record`]: how to record a history. A recorder that is off costs
//!   a branch.
//! - [`TransactionHistory`] (`History` in the picture), [`RecordedTransaction`],
//!   [`RecordedOperation`]: the recorded history. The book has the file's format.
//! - [`check`]: Adya's graph, its cycles named as in the literature, as a [`HistoryReport`] for
//!   people.
//! - [`write_edn`]: the history for Elle.
//!
//! # What a good report means
//!
//! There is an order of all committed transactions in which each saw what it recorded. Two
//! conditions apply: clocks are common, and the timestamps of a row's writers follow the order of
//! their writes. A good report does not say:
//!
//! - that aborted transactions saw a consistent state,
//! - that values are those of their versions, unless their hashes are recorded,
//! - that rows without a write since the recording began were in the ranges that they belong to.
//!
//! # Tests of the check
//!
//! The tests compare the check's results with all orders of small histories. They also compare with
//! the crate `adya` (0.1, an independent checker after Elle; without its database drivers). That
//! crate is only a development dependency: it has no notion of ranges, infers what is known here,
//! and is young.
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
mod event;
mod file;
mod hex;
mod recorder;

pub use check::{
    CheckOptions, Class, CycleStep, Dependency, HistoryReport, HistoryViolation, check,
};
pub use elle::{ElleModel, write_edn};
pub use event::{
    Direction, RecordedChange, RecordedOperation, RecordedTransaction, RowVersion, Scan, SeenKey,
    TransactionHistory, TransactionId, TransactionOutcome,
};
pub use file::{FORMAT, HistoryError};
pub use recorder::{Record, Recorder, Recording, ScanId};
