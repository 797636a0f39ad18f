//! The input and output files that a user names on a command line.
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
//! A path may lead to any kind of file. The behaviour depends on the kind of the file, not on its
//! name.
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
//! # Guarantees
//!
//! - No call waits for the other end of a FIFO to be opened. Without the other end, opening is an
//!   error.
//! - While the program waits for the other end of an open FIFO, it prints after about one second
//!   what it waits for. After two seconds a signal can end the wait, if the program has called
//!   [`end_waits_when`].
//! - Reading an input gives at most the bytes that its [`InputKind`] allows, or an error.
//! - [`distinct`] refuses a command line on which an output is the same regular file as an input or
//!   as another output.
//! - After a failed write of a regular file, the old content is still there. Three kinds of files
//!   are exceptions and are written in place: a regular file in a directory that the process may
//!   not change; a file that cannot be replaced by a rename, such as a mount point; a file that
//!   [`grow`] opened.
//!
//! ```
//! use latchwork_files::{InputKind, Output, read_text};
//!
//! const NOTE: InputKind = InputKind { name: "a note", bytes_max: 1 << 10 };
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("note");
//! let output = Output::open(&path)?;
//! output.write(b"\xef\xbb\xbfhello")?;
//! assert_eq!(read_text(&path, NOTE)?, "hello");
//!
//! let tiny = InputKind { bytes_max: 4, ..NOTE };
//! let error = read_text(&path, tiny).unwrap_err();
//! assert_eq!(error.to_string(), "it is larger than 4 bytes, the most that a note may have");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod descriptor;
mod distinct;
mod error;
mod grow;
mod input;
mod output;
mod place;
mod replace;
mod stream;
mod wait;

pub use distinct::{Named, SameFile, distinct};
pub use error::OutputError;
pub use grow::{grow, scratch};
pub use input::{Input, InputError, InputKind, read, read_text, text, without_mark};
pub use output::Output;
pub use stream::Stream;
pub use wait::end_waits_when;
