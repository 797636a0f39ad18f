//! The process that a user starts. It runs one worker process per target, and handles their ends.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use latchwork_fuzz::{FuzzTarget, save_failure};

use crate::cli::Cli;
use crate::worker::read_current;

/// The extra time of a worker after its own limit. A worker usually ends by itself; one that hangs
/// is killed.
const GRACE: Duration = Duration::from_secs(60);

/// Runs all targets, and returns the number of failed ones.
pub(crate) fn run(cli: &Cli, targets: &[FuzzTarget], seed: u64) -> Result<usize, String> {
    if cli.replay.is_none() {
        println!("seed {seed}");
    }
    let seconds = (cli.seconds / targets.len() as u64).max(1);
    let mut failed = 0;
    for target in targets {
        failed += usize::from(!one(cli, *target, seed, seconds)?);
    }
    Ok(failed)
}

/// Runs a target, and returns whether no input failed.
fn one(cli: &Cli, target: FuzzTarget, seed: u64, seconds: u64) -> Result<bool, String> {
    let current =
        std::env::temp_dir().join(format!("latchwork-fuzz-{}-{}", std::process::id(), target.name));
    let ended = worker(cli, target, seed, seconds, &current);
    let input = read_current(&current);
    // The file does not exist if the worker failed early.
    let _ = std::fs::remove_file(&current);
    let Some(how) = ended? else { return Ok(true) };
    let Some(input) = input else {
        return Err(format!("{}: the worker {how} before the first input", target.name));
    };
    let file = match &cli.replay {
        Some(file) => file.clone(),
        None => save_failure(&cli.failures, target.name, &input)
            .map_err(|e| format!("{}: {e}", cli.failures.display()))?,
    };
    eprintln!("FAILED: {}: the worker {how} at the input {}", target.name, file.display());
    eprintln!(
        "replay: cargo run --profile test -p latchwork-fuzz -- --replay {} {}",
        file.display(),
        target.name
    );
    Ok(false)
}

/// Starts a worker, and waits for its end. Returns how the worker failed, or `None`.
fn worker(
    cli: &Cli,
    target: FuzzTarget,
    seed: u64,
    seconds: u64,
    current: &Path,
) -> Result<Option<String>, String> {
    // A new build may replace this program's file. The link still leads to the running program.
    let mut command = Command::new("/proc/self/exe");
    command.arg(target.name).arg("--worker").arg(current);
    command.args(["--time", &seconds.to_string(), "--seed", &seed.to_string()]);
    command.arg("--corpus").arg(&cli.corpus);
    for (flag, is_on) in [("--keep", cli.keep), ("--classes", cli.classes)] {
        command.args(is_on.then_some(flag));
    }
    if let Some(file) = &cli.replay {
        command.arg("--replay").arg(file);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot start a worker: {e}"))?;
    let (done, end) = channel();
    if let Some(mut output) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = output.read_to_string(&mut text);
            // The receiver may have stopped waiting.
            let _ = done.send(text);
        });
    }
    let Ok(text) = end.recv_timeout(Duration::from_secs(seconds) + GRACE) else {
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(|e| format!("cannot end a worker: {e}"))?;
        return Ok(Some("did not end".to_owned()));
    };
    print!("{text}");
    let status = child.wait().map_err(|e| format!("cannot wait for a worker: {e}"))?;
    match status.code() {
        Some(0) => Ok(None),
        // The worker has printed the reason.
        Some(2) => Err(format!("{}: the worker cannot run", target.name)),
        _ => Ok(Some(format!("ended with {status}"))),
    }
}
