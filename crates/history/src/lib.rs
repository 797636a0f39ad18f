//! What transactions did, recorded: to a file of JSON lines, or to memory.

#![forbid(unsafe_code)]

mod event;
mod file;
mod hex;
mod recorder;

pub use event::{
    Change, Direction, History, Operation, Outcome, Scan, Seen, Transaction, TransactionId, Version,
};
pub use file::{FORMAT, HistoryError};
pub use recorder::{Record, Recorder, Recording, ScanId};
