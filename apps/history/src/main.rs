//! Recorded histories: checks that they are serializable, and exports them to Elle.
//!
//! ```text
//!   tpcc --record FILE ──► FILE ──► histories check [--strict] ──► verdict, shortest cycles; exit status
//!                           │
//!                           └─────► histories elle ──► EDN, as Jepsen writes it
//! ```

#![forbid(unsafe_code)]

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latchwork_harness::outcome::tell;
use latchwork_harness::{AppError, file_to_write};
use latchwork_history::{History, Model, Options, check, write_edn};

/// Histories of transactions, as the programs record them with --record.
#[derive(Debug, Parser)]
#[command(name = "histories", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Whether the committed transactions could have run one after another. Exit status 0 if so, 1 if not,
    /// 2 for a file that is no history.
    Check(Check),
    /// The history in EDN on standard output, for Elle.
    Elle(Elle),
}

#[derive(Debug, Args)]
struct Check {
    /// The history; several, if each process of one run recorded its own.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also in an order that real time permits: who was over before another began comes before it.
    #[arg(long)]
    strict: bool,
    /// The most violations of each kind that are shown.
    #[arg(long, value_name = "N", default_value_t = Options::default().kept_max)]
    show: usize,
}

#[derive(Debug, Args)]
struct Elle {
    /// The history; several, if each process of one run recorded its own.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// As which of Elle's workloads.
    #[arg(long, value_enum, default_value_t = ModelName::RwRegister)]
    model: ModelName,
    /// Write to this file instead.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelName {
    /// A write's value is its timestamp. Elle finds an order of versions only where a transaction reads what it
    /// replaces.
    RwRegister,
    /// A read returns the timestamps of all versions until then: Elle knows their whole order, and the file is
    /// longer.
    ListAppend,
}

fn main() -> ExitCode {
    latchwork_harness::main("histories", Cli::try_parse(), |cli| match cli.command {
        Command::Check(arguments) => {
            let options = Options { is_strict: arguments.strict, kept_max: arguments.show };
            let report = check(&load(&arguments.files)?, options);
            tell(None, |out| write!(out, "{report}"))?;
            Ok(report.is_serializable())
        }
        Command::Elle(arguments) => {
            arguments.out.iter().try_for_each(|path| file_to_write("--out", path))?;
            let history = load(&arguments.files)?;
            let model = match arguments.model {
                ModelName::RwRegister => Model::RwRegister,
                ModelName::ListAppend => Model::ListAppend,
            };
            match &arguments.out {
                None => tell(None, |out| buffered(out, |out| write_edn(&history, model, out)))?,
                Some(path) => write_file(path, &history, model)?,
            }
            Ok(true)
        }
    })
}

/// All of the files as one history.
fn load(files: &[PathBuf]) -> Result<History, AppError> {
    let mut whole = History::default();
    for file in files {
        let one = History::load(file).map_err(|error| AppError::Usage(error.to_string()))?;
        whole.merge(one);
    }
    Ok(whole)
}

fn buffered(
    out: &mut dyn Write,
    write: impl FnOnce(&mut BufWriter<&mut dyn Write>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out)?;
    out.flush()
}

fn write_file(path: &Path, history: &History, model: Model) -> Result<(), AppError> {
    std::fs::File::create(path)
        .and_then(|mut file| buffered(&mut file, |out| write_edn(history, model, out)))
        .map_err(|error| AppError::unwritable(path, &error))
}
