//! The effects of signals on the program and on its log.

use crate::TPCC;
use crate::program::{CHECKS, good, orders, prepared};

const LONG: &str = "--cache-mb 16 --memory-mb 256 --threads 1 --time 600 --warmup 0.1";

#[test]
fn a_signal_ends_the_run_and_what_it_acknowledged_is_in_the_log() {
    let directory = prepared("");
    let at = format!("--wal-dir {}", directory.display());
    let before = orders(&at);
    let mut running = TPCC.start(&format!("run {LONG} {at} --weight neworder --set output=json"));
    running.reach("run");
    running.signal("TERM");
    let ended = running.end();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let document = ended.json();
    assert_eq!(document["stopped"], "SIGTERM");
    let checks = document["checks"].as_object().expect("checks");
    assert_eq!(checks.len(), CHECKS);
    assert!(checks.values().all(|check| check == "ok"), "{}", ended.err);
    let measured = document["latency_us"]["NEW_ORDER"]["count"].as_u64().expect("a count");
    // One order in a hundred is rolled back, as the standard requires.
    assert!(orders(&at) >= before + measured * 9 / 10 && measured > 0);
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn terminals_that_wait_are_ended_too() {
    let flags = "-w 1 --set items=200 --set customers=30 --compute-nodes 1 --set wait=on";
    let mut running = TPCC.start(&format!("{flags} {LONG}"));
    running.reach("run");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.out.contains("[CHECK], transactions, ok"), "{}", ended.out);
}

#[test]
fn while_it_loads_a_signal_is_one_line_and_its_own_status() {
    let mut running = TPCC.start("-w 20 --threads 1");
    running.reach("load");
    running.signal("TERM");
    running.end().assert_ended_by("TERM", 143);
}

#[test]
fn logs_are_lines_of_what_operators_want_to_know() {
    let directory = prepared("");
    let at = format!("check --wal-dir {} --cache-mb 16 --memory-mb 256", directory.display());
    let (_, quiet) = good(&at);
    assert!(!quiet.contains("latchwork_"), "nothing to warn of: {quiet}");
    let (_, err) = good(&format!("{at} --log latchwork_wal=info,off"));
    let line = err.lines().find(|line| line.contains(" INFO latchwork_wal::"));
    let line = line.unwrap_or_else(|| panic!("a line: {err}"));
    assert!(line.contains("replayed") && line.starts_with("20"), "{line}");
    let wrong = TPCC.run(&format!("{at} --log loud"));
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.err.contains("--log") && wrong.err.contains("off, error, warn"), "{}", wrong.err);
    std::fs::remove_dir_all(&directory).expect("removed");
}
