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
mod evidence;
mod faults;
mod hunt;
mod names;
mod outcome;
mod panics;
mod progress;
mod run;
mod shrink;
mod world;

use std::process::ExitCode;

use latchwork_harness::AppError;

use args::{Cli, Command};

fn main() -> ExitCode {
    latchwork_harness::main("sim", args::parse(std::env::args_os()), run)
}

/// Runs the command; returns whether it found no failure.
fn run(cli: Cli) -> Result<bool, AppError> {
    match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Hunt(arguments) => hunt::hunt(&arguments),
        Command::Shrink(arguments) => shrink::shrink(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
    }
}
