//! One memory node of a cluster of processes.
//!
//! ```text
//!   args      what is asked for, checked before anything starts
//!     │
//!   serve     join ──► memory that others use ──► a signal, or the lease is lost ──► drain, leave
//! ```

#![forbid(unsafe_code)]

mod args;
mod serve;

use std::process::ExitCode;

use args::Cli;

fn main() -> ExitCode {
    latchwork_harness::start("memnode", |cli: Cli| serve::serve(&cli))
}
