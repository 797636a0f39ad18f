//! Recorded histories: checks that they are serializable, and exports them to Elle.
//!
//! ```text
//!   tpcc --record FILE ──► FILE ──► histories check [--strict] ──► verdict, shortest cycles; exit status
//!                           │
//!                           └─────► histories elle ──► EDN, as Jepsen writes it
//! ```

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latchwork_files::Output;
use latchwork_harness::outcome::tell;
use latchwork_harness::parse::{UNITS, size};
use latchwork_harness::{AppError, Named, NamesFiles, folded, output};
use latchwork_history::{CheckOptions, ElleModel, TransactionHistory, check, write_edn};

/// Histories of transactions, as the programs record them with --record.
#[derive(Debug, Parser)]
#[command(name = "histories", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Whether the committed transactions could have run one after another. Exit status 0 if so, 1
    /// if not, 2 for a file that is no history.
    Check(Check),
    /// The history in EDN on standard output, for Elle.
    Elle(Elle),
}

#[derive(Debug, Args)]
#[command(after_help = UNITS)]
struct Histories {
    /// The history; several, if each process of one run recorded its own.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A larger file is refused. The check needs several times its size of memory.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size)]
    size_max: u64,
}

#[derive(Debug, Args)]
struct Check {
    #[command(flatten)]
    histories: Histories,
    /// Also in an order that real time permits: what ended before another began comes before it.
    #[arg(long)]
    strict: bool,
    /// The most violations of each kind that are shown.
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().kept_max)]
    show: usize,
}

#[derive(Debug, Args)]
struct Elle {
    #[command(flatten)]
    histories: Histories,
    /// As which of Elle's workloads.
    #[arg(long, value_enum, default_value_t = ModelName::RwRegister)]
    model: ModelName,
    /// Write to this file instead.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        let (histories, out) = match &self.command {
            Command::Check(check) => (&check.histories, None),
            Command::Elle(elle) => (&elle.histories, elle.out.as_ref()),
        };
        let inputs = histories.files.iter().map(|path| Named::read("FILE", path));
        inputs.chain(out.map(|path| Named::written("--out", path))).collect()
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelName {
    /// A write's value is its timestamp. Elle finds an order of versions only where a transaction
    /// reads what it replaces.
    RwRegister,
    /// A read returns the timestamps of all versions until then: Elle knows their whole order, and
    /// the file is longer.
    ListAppend,
}

fn main() -> ExitCode {
    latchwork_harness::main("histories", Cli::try_parse(), |cli| match cli.command {
        Command::Check(arguments) => {
            let options = CheckOptions { is_strict: arguments.strict, kept_max: arguments.show };
            let report = check(&load(&arguments.histories)?, options);
            tell(None, |out| write!(out, "{}", folded(&report.to_string())))?;
            Ok(report.is_serializable())
        }
        Command::Elle(arguments) => {
            let out = arguments.out.as_deref().map(|path| output("--out", path)).transpose()?;
            let history = load(&arguments.histories)?;
            let model = match arguments.model {
                ModelName::RwRegister => ElleModel::RwRegister,
                ModelName::ListAppend => ElleModel::ListAppend,
            };
            let out = out.unwrap_or_else(Output::stdout);
            out.write_with(|mut out| write_edn(&history, model, &mut out))
                .map_err(|error| AppError::output(out.path(), &error))?;
            Ok(true)
        }
    })
}

/// All files as one history.
fn load(histories: &Histories) -> Result<TransactionHistory, AppError> {
    TransactionHistory::load_all(&histories.files, histories.size_max)
        .map_err(|error| AppError::Usage(error.to_string()))
}
