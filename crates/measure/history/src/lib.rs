//! What transactions did, recorded, and the check that it was serializable.
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
//! It knows no store and no concurrency control. What it is told is what each committed transaction
//! saw: which version of which row, by the commit timestamp of its writer, and which ranges it
//! looked through.
//!
//! - [`Recording`], [`Recorder`], [`Record`]: how a history comes about. A recorder that is off
//!   costs a branch.
//! - [`History`], [`Transaction`], [`Operation`]: what it says. The book has the file's format.
//! - [`check`]: Adya's graph, its cycles named as in the literature, as a [`Report`] for people.
//! - [`write_edn`]: the history for Elle.
//!
//! # What a good report means
//!
//! There is an order of all committed transactions in which each saw what it recorded, if clocks
//! are common and timestamps of writers of a row follow each other as their writes did. What it
//! does not say: that aborted transactions saw something consistent, that values are what versions
//! promise (unless their hashes are recorded), and that rows which nobody wrote since recording
//! began were in the ranges that they belong to.
//!
//! # Who else judges
//!
//! The tests hold its verdicts against all orders of small histories, and against the crate `adya`
//! (0.1, an independent checker after Elle; without its database drivers), which is a development
//! dependency only: it has no notion of ranges, infers what is known here, and is young.
//!
//! # Example
//!
//! ```
//! use latchwork_history::{Change, Class, Options, Outcome, Recording, check};
//!
//! // Two look at both of two rows, and change one each.
//! let recording = Recording::memory(0);
//! let recorder = recording.recorder();
//! for (cts, row) in [(64, b"x"), (128, b"y")] {
//!     let mut record = recorder.begin(0, 0, 10);
//!     record.read(1, b"x", 0);
//!     record.read(1, b"y", 0);
//!     record.write(1, row, Change::Put);
//!     recorder.finish(record, Outcome::Committed { cts }, 20);
//! }
//! let report = check(&recording.history(), Options::default());
//! assert_eq!(report.violations[0].class, Class::AntiDependency);
//! println!("{report}");
//! ```

#![forbid(unsafe_code)]

mod check;
mod elle;
mod event;
mod file;
mod hex;
mod recorder;

pub use check::{Class, Dependency, Options, Report, Step, Violation, check};
pub use elle::{Model, write_edn};
pub use event::{
    Change, Direction, History, Operation, Outcome, Scan, Seen, Transaction, TransactionId, Version,
};
pub use file::{FORMAT, HistoryError};
pub use recorder::{Record, Recorder, Recording, ScanId};
