//! YCSB on a cluster: in this process, or of many.
//!
//! ```text
//!   args, settings        the command line and the properties, checked before any thread starts
//!        |
//!   drive                 load ──► run ──► check, each on every worker of every compute node
//!     load, run, check        |      |       |
//!     store                   operations on the B-link tree
//!     sample_history          the accesses of all workers to a sample of the records
//!        |
//!   outcome               lines of YCSB, a table for people, the result document
//! ```

#![forbid(unsafe_code)]

mod args;
mod check;
mod drive;
mod load;
mod outcome;
mod run;
mod sample_history;
mod session;
mod settings;
mod store;

use std::process::ExitCode;

use latchwork_harness::AppError;
use latchwork_harness::outcome::RunCheck;

use args::Cli;
use settings::Settings;

fn main() -> ExitCode {
    latchwork_harness::start("ycsb", |cli: Cli| Settings::new(cli).and_then(run))
}

/// Runs the command; returns whether all checks succeeded.
fn run(settings: Settings) -> Result<bool, AppError> {
    let outcome = drive::drive(settings)?;
    if outcome.is_told_here {
        outcome.report()?;
    }
    Ok(outcome.checks.iter().all(RunCheck::is_good))
}
