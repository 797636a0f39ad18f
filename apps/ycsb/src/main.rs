//! YCSB on an embedded cluster.
//!
//! ```text
//!   args, settings        what is asked for, checked before anything starts
//!        |
//!   drive                 load ──► run ──► check, each on every worker of every compute node
//!     load, run, check        |      |       |
//!     store                   operations on the B-link tree
//!     witness                 what workers saw of a sample of the records
//!        |
//!   outcome               lines of YCSB, a table for people, the result document
//! ```

#![forbid(unsafe_code)]

mod args;
mod check;
mod drive;
mod error;
mod load;
mod outcome;
mod progress;
mod run;
mod session;
mod settings;
mod shared;
mod store;
mod witness;

use error::AppError;
use latchwork_workload::result::CheckOutcome;
use settings::Settings;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match args::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // Help that nobody reads is not an error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&AppError::Usage(latchwork_harness::parse::one_line(&error))),
    };
    match Settings::new(cli).and_then(run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

/// Runs what was asked for; returns whether all checks were good.
fn run(settings: Settings) -> Result<bool, AppError> {
    for warning in &settings.warnings {
        eprintln!("ycsb: {warning}");
    }
    let outcome = drive::drive(settings)?;
    outcome.report()?;
    Ok(outcome.checks.iter().all(|check| check.outcome == CheckOutcome::Ok))
}

fn fail(error: &AppError) -> ExitCode {
    // Nobody may be reading any more, which is no reason to panic.
    let _ = writeln!(std::io::stderr(), "ycsb: {error}");
    ExitCode::from(error.status())
}
