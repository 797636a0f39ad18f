//! Places and boxes in an R-tree on many compute nodes: files, queries, a benchmark, pictures.
//!
//! ```text
//!   args, settings       what is asked for; the files of data are read and checked
//!        |
//!   drive                load ──► query or benchmark ──► checks, on every worker of every node
//!     file, geometry       rows of a CSV file; boxes and distances on a plane and on a sphere
//!     index                the R-tree: opened, filled, asked
//!     query, bench         questions about a file; objects in a square
//!        |
//!   outcome, picture     a table for people, lines for scripts, documents, the levels of the tree
//! ```
//!
//! The steps that all programs share are those of [`latchwork_harness::driver`].

#![forbid(unsafe_code)]

mod args;
mod bench;
mod digest;
mod drive;
mod file;
mod geometry;
mod index;
mod outcome;
mod picture;
mod query;
mod settings;

use std::process::ExitCode;

fn main() -> ExitCode {
    latchwork_harness::driver::start::<settings::Settings>()
}
