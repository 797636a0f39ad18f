//! Runs fuzz targets: `cargo run --profile test -p latchwork-fuzz -- --time 60 [TARGET..]`.

#![forbid(unsafe_code)]

mod supervise;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use latchwork_fuzz::{Corpus, FuzzTarget, TARGETS};
use latchwork_runtime::Clock;

/// Looks for inputs that make a target panic, hang, or take too much memory.
///
/// Each input that does is written to a file, with the command that replays it, and the status is
/// 1.
#[derive(Debug, Parser)]
#[command(name = "latchwork-fuzz", max_term_width = 100)]
struct Cli {
    /// The targets; without a name all of them
    targets: Vec<String>,
    /// Seconds for all targets together
    #[arg(long = "time", alias = "seconds", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Where the inputs begin; drawn and printed where it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// Runs the input in this file, and no other
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Adds inputs that reached something new to the corpus
    #[arg(long)]
    keep: bool,
    /// Prints what the inputs reached
    #[arg(long)]
    classes: bool,
    /// The folder with a folder of inputs for each target
    #[arg(long, value_name = "DIR", default_value_os_t = Corpus::home())]
    corpus: PathBuf,
    /// Where inputs go that failed
    #[arg(long, value_name = "DIR", default_value_os_t = Corpus::failures())]
    failures: PathBuf,
    /// This process is to run inputs itself, and to write each here before
    #[arg(long, value_name = "FILE", hide = true)]
    worker: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    if std::env::args().any(|word| word == "--seconds" || word.starts_with("--seconds=")) {
        eprintln!(
            "latchwork-fuzz: an old flag, which the next version does not have; now write --time"
        );
    }
    let targets = match targets(&cli.targets) {
        Ok(targets) => targets,
        Err(error) => {
            eprintln!("latchwork-fuzz: {error}");
            return ExitCode::from(2);
        }
    };
    let seed = *cli.seed.get_or_insert_with(|| Clock::of_machine().now().as_nanos());
    let ended = match &cli.worker {
        Some(current) => worker::run(&cli, targets[0], seed, current).map(|()| 0),
        None if cli.replay.is_some() && targets.len() != 1 => {
            Err("--replay needs the name of one target".to_owned())
        }
        None => supervise::run(&cli, &targets, seed),
    };
    match ended {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("latchwork-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

fn targets(names: &[String]) -> Result<Vec<FuzzTarget>, String> {
    if names.is_empty() {
        return Ok(TARGETS.to_vec());
    }
    let known = || TARGETS.map(|target| target.name).join(", ");
    let find = |name: &String| {
        FuzzTarget::find(name)
            .ok_or_else(|| format!("no target is called {name}: there are {}", known()))
    };
    names.iter().map(find).collect()
}
