//! What transactions did, recorded, and the check that it was serializable.

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
