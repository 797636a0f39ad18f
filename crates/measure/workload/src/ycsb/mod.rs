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
//! Keys, defaults and distributions are those of YCSB, so that its files run unchanged. There are
//! three departures, each with its reason in the code:
//!
//! * Contents carry versions, so that every read can be checked.
//! * Sequential requests are divided among workers without a shared counter.
//! * The number of loaded records bounds the room that a scrambled zipfian keeps for inserts.

mod builtin;
mod content;
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
pub use inserts::InsertCounter;
pub use key::{InsertOrder, KEY_LEN_MAX, KeyBuffer, KeyFormat, RecordNumber, ZERO_PADDING_MAX};
pub use operation::{Fields, OperationKind, YcsbOperation};
pub use record::{BadYcsbRecord, FieldLength, RECORD_LEN_MAX, RecordLayout};
pub use settings::{
    ClientSettings, CoreWorkload, Mix, RequestDistribution, ScanLength, ScanLengthDistribution,
};
pub use stream::{OperationStream, WorkerIndex};
