//! Running the program, and reading its output.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::TPCC;

/// Flags for a small database, in which transactions often conflict.
pub(crate) const SMALL: &str =
    "-w 2 --set items=500 --set customers=30 --cache-mb 16 --memory-mb 256";

/// The number of checks of a run: three of the program, and the checks of the workload.
pub(crate) const CHECKS: usize = 17;

/// Runs the program, demands success, and returns standard output and standard error.
pub(crate) fn good(arguments: &str) -> (String, String) {
    let ended = TPCC.good(arguments);
    (ended.out, ended.err)
}

/// Runs the program, demands success, and returns a document in which all checks succeeded.
pub(crate) fn document(arguments: &str) -> Value {
    let (out, err) = good(&format!("{arguments} --set output=json"));
    let document: Value = serde_json::from_str(&out).expect("nothing but JSON");
    let checks = document["checks"].as_object().expect("checks");
    let recorded = usize::from(arguments.contains("--record"));
    assert_eq!(checks.len(), CHECKS + recorded, "{arguments}\n{err}");
    assert!(checks.values().all(|check| check == "ok"), "{arguments}\n{err}");
    document
}

pub(crate) fn temporary(name: &str) -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("latchwork-tpcc-{}-{number}-{name}", std::process::id()))
}

/// A small database in its own directory.
pub(crate) fn prepared(more: &str) -> PathBuf {
    let directory = temporary("prepared");
    let at = directory.display();
    good(&format!("prepare {SMALL} --compute-nodes 2 --threads 1 --wal-dir {at} {more}"));
    directory
}

/// The number behind `name` in a line of figures.
pub(crate) fn figure(line: &str, name: &str) -> u64 {
    let behind = line.split_once(name).expect("the figure").1;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next().expect("a first part");
    digits.parse().expect("a number")
}

/// The number of orders that a check finds in the database.
pub(crate) fn orders(at: &str) -> u64 {
    let (_, err) = good(&format!("check {at} --compute-nodes 1"));
    let line = err.lines().find(|line| line.starts_with("check  tpcc-3.3.2.06 "));
    figure(line.expect("the sixth condition"), "ok     ")
}

/// Kills `count` runs on this database, one after the other. `flags` gives the flags of each run by
/// its number. After each kill the database must pass all checks, and must have all acknowledged
/// orders. Returns the number of acknowledged orders.
pub(crate) fn kills(directory: &Path, count: u64, flags: impl Fn(u64) -> String) -> u64 {
    let at = format!("--wal-dir {} --cache-mb 16 --memory-mb 256", directory.display());
    let (mut before, mut all) = (orders(&at), 0);
    let mut random = count;
    for round in 0..count {
        let often = "--warmup 0 --time 60 --set interval=0.02 --set checkpoint=0.3";
        let flags = format!("run {at} {often} {}", flags(round));
        let mut command = TPCC.command(&flags);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut running = command.spawn().expect("the program starts");
        let out = BufReader::new(running.stdout.take().expect("piped"));
        let (says, said) = mpsc::channel();
        let reader = thread::spawn(move || {
            // Lines that were printed before the kill count as acknowledged.
            let mut acknowledged = 0;
            for line in out.lines().map_while(Result::ok) {
                if line.starts_with("[Current] NEW_ORDER - ") {
                    acknowledged += figure(&line, "Count: ");
                } else if line.starts_with("[Current] NEW_ORDER_ABORT - ") {
                    acknowledged -= figure(&line, "Rollbacks: ");
                }
                let _ = says.send(acknowledged);
            }
            acknowledged
        });
        // Some runs die before they have begun.
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let some = Duration::from_millis((random >> 33) % 500);
        // One run in five dies only after it has acknowledged an order.
        let enough = if round % 5 == 0 { 1 } else { 0 };
        while round % 5 != 4
            && said.recv_timeout(Duration::from_secs(60)).expect("it says what it does") < enough
        {
        }
        let (_says, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(some);
        running.kill().expect("it runs");
        running.wait().expect("it ends");
        let acknowledged = reader.join().expect("it reads");
        let after = orders(&at);
        assert!(
            after >= before + acknowledged,
            "{round}: {before} {acknowledged} {after}; {flags}"
        );
        all += acknowledged;
        before = after;
    }
    assert!(all > 0, "nothing was at stake");
    all
}
