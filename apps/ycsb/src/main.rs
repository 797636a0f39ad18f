//! YCSB on a cluster: in this process, or of many.
//!
//! ```text
//!   args, settings        the command line and the properties, checked before any thread starts
//!        |
//!   drive                 load ──► run ──► check, each on every worker of every compute node
//!     load, run, check        |      |       |
//!     index, store            operations on the index
//!     sample_history          the accesses of all workers to a sample of the records
//! ```
//!
//! The steps that all programs share are those of [`latchwork_harness::driver`].

#![forbid(unsafe_code)]

mod args;
mod check;
mod drive;
mod index;
mod load;
mod run;
mod sample_history;
mod settings;
mod status;
mod store;

use std::process::ExitCode;

fn main() -> ExitCode {
    latchwork_harness::driver::start::<settings::Settings>()
}
