//! The command line.

use std::path::PathBuf;

use clap::Parser;
use latchwork_fuzz::Corpus;

/// Looks for inputs that make a target panic, hang, or take too much memory.
///
/// Each input that does is written to a file, with the command that replays it, and the status is
/// 1.
#[derive(Debug, Parser)]
#[command(name = "latchwork-fuzz", max_term_width = 100)]
pub(crate) struct Cli {
    /// The targets; without a name all of them
    pub(crate) targets: Vec<String>,
    /// Seconds for all targets together
    #[arg(long = "time", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) seconds: u64,
    /// Where the inputs begin; drawn and printed where it is not given
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Runs the input in this file, and no other
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// Adds inputs that reached something new to the corpus
    #[arg(long)]
    pub(crate) keep: bool,
    /// Prints what the inputs reached
    #[arg(long)]
    pub(crate) classes: bool,
    /// The folder with a folder of inputs for each target
    #[arg(long, value_name = "DIR", default_value_os_t = Corpus::home())]
    pub(crate) corpus: PathBuf,
    /// Where inputs go that failed
    #[arg(long, value_name = "DIR", default_value_os_t = Corpus::failures())]
    pub(crate) failures: PathBuf,
    /// This process is to run inputs itself, and to write each here before
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) worker: Option<PathBuf>,
}
