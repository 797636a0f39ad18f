//! The micro-benchmark of GAM and SELCC, on threads or in virtual time.
//!
//! ```text
//!   args, settings       what is asked for, checked before anything starts
//!        |
//!   drive                lines ──► client ──► lines, each on every worker of every compute node
//!     lines              allocates and fills the lines; reads them all at the end
//!     client             accesses, and what they saw
//!     witness            histories of a sample of the lines
//!        |
//!   outcome              lines for scripts, a table for people, the result document
//! ```

#![forbid(unsafe_code)]

mod args;
mod client;
mod drive;
mod error;
mod figures;
mod lines;
mod outcome;
mod settings;
mod witness;

use error::AppError;
use latchwork_harness::parse::one_line;
use latchwork_workload::result::CheckOutcome;
use settings::Settings;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let flags = match args::parse(std::env::args_os()) {
        Ok(flags) => flags,
        Err(error) if !error.use_stderr() => {
            // Help that nobody reads is not an error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&AppError::Usage(one_line(&error))),
    };
    match Settings::new(flags).and_then(run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

/// Runs what was asked for; returns whether all checks were good.
fn run(settings: Settings) -> Result<bool, AppError> {
    let outcome = drive::drive(settings)?;
    outcome.report()?;
    Ok(outcome.checks.iter().all(|check| check.outcome == CheckOutcome::Ok))
}

fn fail(error: &AppError) -> ExitCode {
    // Nobody may be reading any more, which is no reason to panic.
    let _ = writeln!(std::io::stderr(), "microbench: {error}");
    ExitCode::from(error.status())
}
