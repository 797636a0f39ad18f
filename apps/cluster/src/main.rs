//! Starts the processes of a cluster, runs a program on it, collects the results, and leaves
//! nothing behind. Runs whole matrices of such experiments, each with one table as its result.
//!
//! ```text
//!   cluster matrix ──► cases ──► cluster run, for each ──► one table
//!                                     │
//!                   plan: what is started where, as commands
//!                     processes │ namespaces │ vm │ ssh
//!                                     │
//!                   supervise ──► cluster node ──► memnode, ycsb, ..     end with their parent,
//!                       │              or ssh ──► cluster attend ──► ..  also on the other machine
//!                       │
//!                    guard      outlives the command, however that ends, and removes the rest
//! ```
//!
//! - **Nothing is left.** Every process has a mark in its environment, which its children inherit.
//!   Every file of a run, except its results, is in one of two directories with the mark as their
//!   name. A guard process waits until the command has ended. Then the guard ends all processes
//!   with the mark and removes the directories. The guard does so after every run, so this path is
//!   always exercised. If the guard is killed as well, the kernel ends the nodes, and the next
//!   start removes the directories.
//! - **Network namespaces have no names** on the host. They belong to one process, and the kernel
//!   removes them with that process.
//! - **A run has a time limit**, and an error is one line that names the node.

#![forbid(unsafe_code)]

mod archive;
mod args;
mod attend;
mod clean;
mod guard;
mod live;
mod matrix;
mod node;
mod outcome;
mod own;
mod plan;
mod proc;
mod results;
mod run;
mod shell;
mod signals;
mod silence;
mod supervise;
mod tail;
mod tell;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use latchwork_harness::AppError;
use latchwork_harness::parse::one_line;

use args::{Cli, Command};
use signals::Signals;
use tell::tell;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            return status(Err(AppError::Usage(told(&error))));
        }
        Err(help) => {
            return status(latchwork_harness::help(&help).map(|()| 0));
        }
    };
    status(match cli.command {
        Command::Run(run) => Signals::around(|signals| run::command(&run, signals)),
        Command::Matrix(matrix) => Signals::around(|signals| matrix::command(&matrix, signals)),
        Command::Clean(clean) => clean::command(&clean),
        Command::Guard(guard) => guard::command(&guard),
        Command::Attend(attend) => attend::command(&attend),
        Command::Node(node) => Err(node::command(&node)),
    })
}

/// The text of an error of the command line. For an unknown flag the line says that flags of the
/// program come after `--`.
fn told(error: &clap::Error) -> String {
    let line = one_line(error);
    let of_run = std::env::args().nth(1).is_some_and(|command| command == "run");
    match error.kind() {
        ErrorKind::UnknownArgument if of_run => {
            format!("{line}; the program's own flags come after `--`")
        }
        _ => line,
    }
}

fn status(ended: Result<u8, AppError>) -> ExitCode {
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            tell(&format!("cluster: {error}"));
            ExitCode::from(error.status())
        }
    }
}
