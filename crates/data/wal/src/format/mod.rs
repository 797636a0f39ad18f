//! The bytes of the files. Numbers are little-endian.
//!
//! ```text
//!   segment of a log, or part of a checkpoint
//!   ┌────────┬───────┬───────┬─────────
//!   │ header │ group │ group │ ..           every group begins at a multiple of 8
//!   │  64    │       │       │
//!   └────────┴───────┴───────┴─────────
//! ```
//!
//! In these files a log record is also called a *group*. The checksum of a group's header covers
//! the position of the group: database, file and offset. So bytes that were a group at another
//! position are no group here. Examples are a copy of a log that is stored as a value, and a sector
//! of an old file.

mod bytes;
mod flaw;
mod header;
mod log_record;
mod mark;
pub(crate) mod names;

pub(crate) use bytes::{Reader, put};
pub(crate) use flaw::Flaw;
pub(crate) use header::{Content, FileHeader};
pub use log_record::{Entries, LogEntry, LogRecord, LogRecordKind, LogRecordRef};
pub(crate) use log_record::{Head, finish, read_body};
pub(crate) use mark::{Known, Mark};

/// Bytes of a file's header.
pub(crate) const FILE_HEADER: usize = 64;
/// Bytes of a log record's header.
pub(crate) const GROUP_HEADER: usize = 40;
/// The maximum length of a log record in bytes, with its header. The backlog has the same limit.
pub(crate) const GROUP_MAX: usize = 64 << 20;
/// The version of the file format.
pub(crate) const VERSION: u32 = 2;
/// Every log record begins at a multiple of this number of bytes.
pub(crate) const ALIGN: usize = 8;
const _: () = assert!(
    FILE_HEADER.is_multiple_of(ALIGN) && GROUP_HEADER.is_multiple_of(ALIGN),
    "records begin at multiples of ALIGN"
);
const _: () = assert!(VERSION > 0, "a version of 0 stands for a header that was not written");
