//! YCSB's core workload: records, keys, contents, and the operations of each worker.
//!
//! ```text
//!   property files, -p key=value             RecordNumber 17
//!            |                                     | KeyFormat
//!            v                                     v
//!      CoreWorkload                             "user6093..."
//!            |                                     | ContentKey
//!            v                                     v
//!     OperationStream --> Operation           RecordLayout: encode, verify
//!     (one per worker)
//!            ^
//!            |
//!      InsertCounter (shared)
//! ```
//!
//! Keys, defaults and distributions follow YCSB, so that YCSB's workload files run unchanged. The
//! main departures, each with its reason in the code, are:
//!
//! * Contents carry versions, so that every read can be checked.
//! * Each worker takes its own part of sequential requests, without a shared counter.
//! * A scrambled zipfian reserves room for inserts, at most as much as there are loaded records.
//! * In a histogram of lengths of fields, the last bucket has its own length.

mod builtin;
mod content;
mod histogram;
mod inserts;
mod key;
mod known;
mod operation;
mod reader;
mod record;
mod settings;
mod stream;

pub use builtin::Builtin;
pub use content::{ContentKey, ContentVersion, FieldIndex, VERSION_LEN, Versions};
pub use histogram::LengthHistogram;
pub use inserts::InsertCounter;
pub use key::{InsertOrder, KeyBuffer, KeyEncoding, KeyFormat, RecordNumber};
pub use operation::{Fields, OperationKind, YcsbOperation};
pub use record::{BadYcsbRecord, FieldLength, RecordLayout};
pub use settings::{
    ClientSettings, CoreWorkload, Mix, RequestDistribution, ScanLength, ScanLengthDistribution,
};
pub use stream::{OperationStream, WorkerIndex};
