//! Runs fuzz targets: `cargo run --profile test -p latchwork-fuzz -- --time 60 [TARGET..]`.

#![forbid(unsafe_code)]

mod cli;
mod supervise;
mod worker;

use std::process::ExitCode;

use clap::Parser as _;
use latchwork_fuzz::{FuzzTarget, TARGETS};
use latchwork_runtime::Clock;

use cli::Cli;

fn main() -> ExitCode {
    let mut cli = Cli::parse();
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
