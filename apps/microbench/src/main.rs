//! The micro-benchmark of GAM and SELCC, on threads, of many processes, or in virtual time.
//!
//! ```text
//!   args, settings       the command line, checked before any thread starts
//!        |
//!   drive                lines ──► client ──► lines, each on every worker of every compute node
//!     lines              allocates and fills the lines; reads them all at the end
//!     client             accesses to the lines, and their results
//!     sample_history     histories of a sample of the lines
//!        |
//!   outcome              lines for scripts, a table for people, the result document
//! ```

#![forbid(unsafe_code)]

mod args;
mod client;
mod drive;
mod figures;
mod lines;
mod outcome;
mod sample_history;
mod settings;

use std::process::ExitCode;

use latchwork_harness::AppError;
use latchwork_harness::outcome::RunCheck;

use args::Cli;
use settings::Settings;

fn main() -> ExitCode {
    latchwork_harness::start("microbench", |Cli(flags)| Settings::new(flags).and_then(run))
}

/// Runs the benchmark; returns whether all checks succeeded.
fn run(settings: Settings) -> Result<bool, AppError> {
    let outcome = drive::drive(settings)?;
    if outcome.is_told_here {
        outcome.report()?;
    }
    Ok(outcome.checks.iter().all(RunCheck::is_good))
}
