//! What stands in files, byte by byte. Numbers are little-endian.
//!
//! ```text
//!   segment of a log, or part of a checkpoint
//!   ┌────────┬───────┬───────┬─────────
//!   │ header │ group │ group │ ..           every group begins at a multiple of 8
//!   │  64    │       │       │
//!   └────────┴───────┴───────┴─────────
//! ```
//!
//! A group's checksum covers the place where it stands: database, file and offset. So bytes that
//! were a group somewhere else (a copy of a log that somebody keeps as a value; a sector of an old
//! file) are none here.

mod bytes;
mod group;
mod header;
mod mark;
pub(crate) mod names;

pub(crate) use bytes::{Reader, put};
pub use group::{Entries, Entry, Group, GroupRef, Kind};
pub(crate) use group::{Flaw, Head, finish, read_body};
pub(crate) use header::{Content, FileHeader};
pub(crate) use mark::{Known, Mark};

/// Bytes of a file's header.
pub(crate) const FILE_HEADER: usize = 64;
/// Bytes of a group's header.
pub(crate) const GROUP_HEADER: usize = 40;
/// The most bytes of a group, its header included.
pub(crate) const GROUP_MAX: usize = 64 << 20;
/// The version of all this.
pub(crate) const VERSION: u32 = 2;
/// Groups begin at multiples of it.
pub(crate) const ALIGN: usize = 8;
