//! Simulated worlds from the command line.
//!
//! ```text
//!   args, world        which world: a seed, a scenario file, and what flags change of it
//!        |
//!   run                one world: its hash, its checks, its log and its picture
//!   hunt               many, until one fails ──┐
//!   shrink             a smaller one ◄─────────┘
//!        |
//!   evidence           scenario, report, log and diagrams of a world that failed
//!
//!   calibrate          NIC profiles against what was published about the NICs
//! ```

#![forbid(unsafe_code)]

mod args;
mod calibrate;
mod error;
mod evidence;
mod faults;
mod hunt;
mod outcome;
mod panics;
mod progress;
mod run;
mod shrink;
mod world;

use args::Command;
use error::AppError;
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
        Err(error) => return fail(&AppError::Usage(args::one_line(&error))),
    };
    let good = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Hunt(arguments) => hunt::hunt(&arguments),
        Command::Shrink(arguments) => shrink::shrink(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

fn fail(error: &AppError) -> ExitCode {
    // Nobody may be reading any more, which is no reason to panic.
    let _ = writeln!(std::io::stderr(), "sim: {error}");
    ExitCode::from(error.status())
}
