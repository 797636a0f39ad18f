//! Tasks on the source tree, run as `cargo xtask NAME`.
//!
//! `cargo xtask house` reads every source file, script and page of the workspace, and reports what
//! breaks the rules of the house. `house::finding::Kind` lists the kinds of findings.

#![forbid(unsafe_code)]

mod house;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "xtask", max_term_width = 100)]
/// Tasks on the source tree.
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check the source tree: one line per finding, exit status 1 when there is any.
    House(house::Flags),
}

fn main() -> ExitCode {
    let Cli { task: Task::House(flags) } = Cli::parse();
    // Cargo sets this for the package that it runs; the workspace is one level up.
    let package = std::env::var("CARGO_MANIFEST_DIR");
    let package = package.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"));
    let root = Path::new(package).parent().unwrap_or(Path::new("."));
    match house::run(root, &flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("house: {error}");
            ExitCode::FAILURE
        }
    }
}
