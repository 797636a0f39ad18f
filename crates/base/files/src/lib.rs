//! Files that users name on a command line: what is read, and what is written.
//!
//! ```text
//!   input    path ──► open without waiting ──► bounded bytes ──► text: byte-order mark skipped, UTF-8
//!   output   path ──► Output::open, before the work begins: can it be written?
//!                        │
//!                        ├─ regular file, or none yet ──► at the end: temporary beside it, sync, rename
//!                        ├─ FIFO, device, descriptor  ──► opened at once, and held; written, never replaced
//!                        └─ `-` or /dev/stdout        ──► standard output
//! ```
//!
//! A path may be any kind of file. What the program does depends on the kind, and not on the name.
//!
//! | kind | as input | as output |
//! | --- | --- | --- |
//! | regular file | read up to its bound | replaced in one step; its permissions stay |
//! | symbolic link | its target is read | the link stays, its target is replaced |
//! | link without a target | error | error |
//! | directory, socket | error | error |
//! | FIFO | error without a writer, else read up to its bound | error without a reader, else written |
//! | device | read up to its bound | written |
//! | descriptor (`/dev/fd/N`) | read up to its bound | written |
//!
//! # What holds
//!
//! - No call waits for the other end of a FIFO to be opened: without it, opening is an error.
//! - A wait for the other end of an open FIFO says after a second what it waits for. A signal ends
//!   it ([`end_waits_when`]).
//! - No input takes more memory than its [`Kind`] allows.
//! - A program that calls [`distinct`] first never reads and writes one file, or writes one twice.
//! - An output is whole, or the old one is still there. Two exceptions write in place: a regular
//!   file whose directory may not be changed, and one that cannot be renamed over, such as a mount
//!   point.
//!
//! ```
//! use latchwork_files::{Kind, Output, read_text};
//!
//! const NOTE: Kind = Kind { name: "a note", bytes_max: 1 << 10 };
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("note");
//! let output = Output::open(&path)?;
//! output.write(b"\xef\xbb\xbfhello")?;
//! assert_eq!(read_text(&path, NOTE)?, "hello");
//!
//! let tiny = Kind { bytes_max: 4, ..NOTE };
//! let error = read_text(&path, tiny).unwrap_err();
//! assert_eq!(error.to_string(), "it is larger than 4 bytes, the most that a note may have");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod descriptor;
mod distinct;
mod input;
mod output;
mod replace;
mod stream;
mod wait;

pub use distinct::{Named, SameFile, distinct};
pub use input::{Input, InputError, Kind, read, read_text, text, without_mark};
pub use output::{Output, OutputError};
pub use stream::{Stream, grow, scratch};
pub use wait::end_waits_when;
