//! Counts the CPU cache lines that readers of one cluster share and write. There must be none. If
//! one thread writes a line and another thread touches it, every such write moves the line between
//! their cores.
//!
//! ```text
//! cargo run --release -p latchwork-benches --example shared_writes
//! ```
//!
//! ```text
//!   parent                           child, under valgrind's lackey
//!   starts it, reads its trace  ◄──  every load and store, and which thread runs
//!   by phase and thread         ◄──  MARK lines at the ends of phases: path, reader
//!   judges, prints                   readers take turns: one reads, all others are blocked
//! ```
//!
//! Two readers on each of two compute nodes read the same lines and the same tree, with all data
//! cached, by every read path. The accesses of a reader's own thread in its phase count. A 64-byte
//! line is shared if a reader stored to it, and another reader accessed it in a phase of its own.
//! The allocator decides which blocks of the heap are neighbours, and its choice differs from run
//! to run. So here each block has its cache lines alone.

mod alone;
mod readers;
mod spoil;
mod trace;

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Parser, ValueEnum as _};

use alone::Alone;
use spoil::Spoil;
use trace::{Trace, Verdict};

#[global_allocator]
static ALLOCATOR: Alone = Alone;

/// Counts shared cache lines that reads write; fails if there are any.
#[derive(Parser)]
struct Arguments {
    /// Seconds that valgrind may take.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds_max: u64,
    /// Does something that must be found, as a check of the check.
    #[arg(long, value_enum, hide = true)]
    spoil: Option<Spoil>,
    /// What valgrind runs.
    #[arg(long, hide = true)]
    child: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.child {
        return end(readers::run(arguments.spoil).map(|()| true));
    }
    end(judge(&arguments))
}

fn end(result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("shared_writes: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the child and judges its trace. Returns whether no line is shared.
fn judge(arguments: &Arguments) -> Result<bool, String> {
    let mut child = start(arguments)?;
    let Some(stderr) = child.stderr.take() else {
        return Err("valgrind was started without its standard error".to_owned());
    };
    let limit = Duration::from_secs(arguments.seconds_max);
    let (over, waiting) = mpsc::channel::<()>();
    // The read ends when the child ends. The other thread ends the child at the time limit.
    let watch = thread::spawn(move || {
        let late = waiting.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            let _ = child.kill();
        }
        (child.wait(), late)
    });
    let trace = read(BufReader::with_capacity(1 << 20, stderr));
    // After an unreadable trace the closed standard error ends the child as well.
    let _ = over.send(());
    let (status, late) = watch.join().map_err(|_| "the thread that waits panicked".to_owned())?;
    if late {
        return Err(format!("valgrind took longer than {} s (--seconds-max)", limit.as_secs()));
    }
    let (trace, other) = trace.map_err(|error| format!("the trace cannot be read: {error}"))?;
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the readers failed ({status}): {}", other.join("; "))),
        Err(error) => return Err(format!("valgrind's end is not known: {error}")),
    }
    let verdict = trace.verdict()?;
    print(&verdict);
    Ok(verdict.shared.is_empty())
}

fn start(arguments: &Arguments) -> Result<Child, String> {
    let me = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let mut command = Command::new("valgrind");
    // Without this scheduler, threads that spin or yield could keep the others from running.
    command.args(["--tool=lackey", "--trace-mem=yes", "--trace-sched=yes", "--fair-sched=try"]);
    command.arg(me).arg("--child");
    if let Some(spoil) = arguments.spoil.and_then(|spoil| spoil.to_possible_value()) {
        command.arg("--spoil").arg(spoil.get_name());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no valgrind here: install it".to_owned(),
        _ => format!("valgrind cannot be started: {error}"),
    })
}

/// The trace, and the first lines that are not part of it.
fn read(mut from: impl BufRead) -> io::Result<(Trace, Vec<String>)> {
    let (mut trace, mut other, mut line) = (Trace::default(), Vec::new(), Vec::new());
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok((trace, other));
        }
        // These lines belong neither to the trace nor to valgrind's banner and summary. Twenty of
        // them suffice to explain an error.
        if !trace.line(line.trim_ascii_end()) && !line.starts_with(b"==") && other.len() < 20 {
            other.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
    }
}

fn print(verdict: &Verdict) {
    println!(
        "| read path | readers | accesses of a read | stores of a read | lines touched | of these stored to | shared and stored to |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for row in &verdict.paths {
        let reads = (row.readers * readers::READS) as f64;
        println!(
            "| {} | {} | {:.1} | {:.1} | {} | {} | {} |",
            row.path,
            row.readers,
            row.accesses as f64 / reads,
            row.stores as f64 / reads,
            row.touched,
            row.stored,
            row.shared
        );
    }
    let mut told: Vec<&[u64]> = Vec::new();
    for shared in &verdict.shared {
        // Each list of places is printed once, and at most four lists.
        if told.contains(&shared.places.as_slice()) || told.len() == 4 {
            continue;
        }
        told.push(&shared.places);
        println!(
            "\nshared: line {:#x}, stored to {} times by reader {} in \"{}\", touched by reader {} in \"{}\"",
            shared.line, shared.stores, shared.by, shared.path, shared.other, shared.other_path
        );
        for place in &shared.places {
            println!("    {}", verdict.symbol(*place));
        }
    }
    match verdict.shared.len() {
        0 => println!("\nno line that one reader stores to is touched by another"),
        n => println!("\n{n} times a reader stores to a line that another one touches"),
    }
}
