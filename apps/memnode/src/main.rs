//! One memory node of a cluster of processes.
//!
//! ```text
//!   args      the command line, checked before the node joins
//!     │
//!   serve     join ──► memory for other nodes ──► a signal, or a lost lease ──► drain, leave
//! ```

#![forbid(unsafe_code)]

mod args;
mod serve;

use std::process::ExitCode;

use args::Cli;

fn main() -> ExitCode {
    latchwork_harness::start("memnode", |cli: Cli| serve::serve(&cli))
}
