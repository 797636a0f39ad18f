//! The micro-benchmark of GAM and SELCC, on threads, of many processes, or in virtual time.
//!
//! ```text
//!   args, settings       the command line, checked before any thread starts
//!        |
//!   drive                lines ──► client ──► lines, each on every worker of every compute node
//!     lines              allocates and fills the lines; reads them all at the end
//!     client             accesses to the lines, and their results
//!     sample_history     histories of a sample of the lines
//!     figures            what is measured besides latencies
//! ```
//!
//! The steps that all programs share are those of [`latchwork_harness::driver`].

#![forbid(unsafe_code)]

mod args;
mod client;
mod drive;
mod figures;
mod lines;
mod sample_history;
mod settings;

use std::process::ExitCode;

fn main() -> ExitCode {
    latchwork_harness::driver::start::<settings::Settings>()
}
