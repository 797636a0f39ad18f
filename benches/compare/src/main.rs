//! Our B-link tree beside the in-memory structures of other crates: the same keys, values, draws
//! and threads, in turn, in one process. `compare spatial` does the same for our R-tree.
//!
//! ```text
//!   args                     what is asked for
//!     |
//!   run                      values ─► load, then groups that fit into memory
//!     |   draws              keys that threads ask for, drawn beforehand
//!     |   subject ◄── map ◄── rivals      one call per repetition; monomorphised inside
//!     |     ▲
//!     |   ours               the tree, on an embedded cluster of two compute nodes
//!     |   timer, content     when it counts; values that show whose they are
//!   results
//!     |
//!   report                   tables, targets, JSON, SVG
//! ```
//!
//! This package is outside of the workspace, so nothing else depends on the other crates.

#![deny(unsafe_code)]

mod allocator;
mod args;
mod content;
mod draws;
mod error;
mod machine;
mod map;
mod numbers;
mod ours;
mod report;
mod results;
mod rivals;
mod run;
mod spatial;
mod subject;
mod timer;
mod workers;

use std::process::ExitCode;

use args::{Args, Part};
use error::Failure;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            // An error while printing the help is ignored.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&Failure::Usage(args::one_line(&error))),
    };
    match compare(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    }
}

fn compare(args: &Args) -> Result<(), Failure> {
    if let Some(Part::Spatial(args)) = &args.part {
        return spatial::compare(args);
    }
    // An output that cannot be written is reported before an hour of measurements.
    report::check_outputs(args)?;
    let results = run::run(args)?;
    report::write(args, &results)
}

fn fail(failure: &Failure) -> ExitCode {
    eprintln!("compare: {failure}");
    ExitCode::from(failure.status())
}
