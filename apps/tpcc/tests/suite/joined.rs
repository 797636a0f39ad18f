//! The program as the compute nodes of a cluster of processes. The processes do one run, and one of
//! them prints its results.

use std::time::Duration;

use latchwork_processes::{Ended, Memory, one_document};
use serde_json::Value;

use crate::TPCC;

const LIMIT: Duration = Duration::from_secs(60);
/// With these flags no transaction is given up, even on a busy machine.
const SMALL: &str = "-w 3 --set items=200 --set customers=30 --threads 1 --cache-mb 8 --operations 600 --set retry-for=60";

/// The document of a successful run with this number of successful checks.
fn document(ended: &[Ended], checks: usize) -> Value {
    let document: Value = serde_json::from_str(one_document(ended)).expect("a document");
    let there = document["checks"].as_object().expect("checks");
    assert_eq!(there.len(), checks, "{there:?}");
    assert!(there.values().all(|check| check == "ok"), "{there:?}");
    document
}

fn counted(document: &Value, name: &str) -> u64 {
    document["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn every_scheme_keeps_the_conditions_on_the_same_memory_nodes_one_after_the_other() {
    for protocol in ["selcc", "gam", "scalestore"] {
        let memory = Memory::start(2, 256 << 20);
        for cc in ["2pl", "to", "occ"] {
            let flags = format!("{SMALL} --cc {cc} --protocol {protocol}");
            let document = document(&memory.start_program(TPCC.0, 3, &flags).wait(LIMIT), 17);
            assert_eq!(document["ops"], 600, "{flags}: as many as were asked for, all together");
            assert_eq!(document["nodes"].as_array().map(Vec::len), Some(5), "{flags}");
        }
        memory.end();
    }
}

#[test]
fn the_histories_of_all_processes_are_one_that_is_serializable() {
    let memory = Memory::start(2, 96 << 20);
    let history = memory.directory().join("history");
    let flags = format!("{SMALL} --record {}", history.display());
    let ended = memory.start_program(TPCC.0, 3, &flags).wait(LIMIT);
    document(&ended, 18);
    let text = std::fs::read_to_string(&history).expect("a history");
    assert!(text.lines().count() > 600, "all transactions, and the first line");
    let parts = std::fs::read_dir(memory.directory()).expect("a directory").filter_map(Result::ok);
    let parts = parts.filter(|file| file.file_name().to_string_lossy().starts_with("history."));
    assert_eq!(parts.count(), 0, "what each recorded is in the one file");
    memory.end();
}

#[test]
fn processes_that_are_partitions_commit_together_and_log_apart() {
    let memory = Memory::start(2, 96 << 20);
    let logs = memory.directory().join("logs");
    let flags =
        format!("{SMALL} --partitioned --distribution-ratio 50 --wal-dir {}", logs.display());
    let ended = memory.start_program(TPCC.0, 3, &flags).wait(LIMIT);
    for process in &ended {
        assert_eq!(process.status, Some(0), "{}", process.err);
    }
    let document = document(&ended, 17);
    assert!(counted(&document, "partitions_distributed") > 50);
    assert!(counted(&document, "log_commits") > 400, "those of all nodes");
    assert!(counted(&document, "partitions_prepared") > 50, "in the logs of participants");
    for node in 1..=3 {
        let own = logs.join(format!("node-{node}"));
        assert!(std::fs::read_dir(&own).expect("a directory").count() > 1, "{}", own.display());
    }
    // A second run must not write into the logs of the first.
    let again = memory.start_program(TPCC.0, 3, &flags).wait(LIMIT);
    for process in &again {
        assert_eq!(process.status, Some(2), "{}", process.err);
        assert!(process.err.contains("there is a database already"), "{}", process.err);
    }
}

#[test]
fn what_takes_all_nodes_in_one_process_is_refused_in_a_line() {
    let memory = Memory::start(1, 24 << 20);
    let history = std::env::temp_dir().join(format!("latchwork-history-{}", std::process::id()));
    let record = format!("--partitioned --record {}", history.display());
    for (flags, word) in [
        ("run --wal-dir /nowhere", "leave the command out"),
        ("prepare --wal-dir /nowhere", "leave the command out"),
        (record.as_str(), "leave one of the flags out"),
        ("--wal-dir /nowhere --set checkpoint=5", "--set checkpoint=5: no checkpoints are written"),
        ("--memory-mb 64", "--memory-mb 64: memory nodes are processes of their own"),
        ("--nic connectx5", "only simulated networks"),
        ("-w 3", "start memory nodes with --memory-mb "),
    ] {
        for process in memory.start_program(TPCC.0, 1, flags).wait(LIMIT) {
            assert_eq!(process.status, Some(2), "{flags}: {}", process.err);
            assert_eq!(process.err.lines().count(), 1, "{}", process.err);
            assert!(process.err.contains(word), "{flags}: {}", process.err);
        }
    }
}

#[test]
fn the_others_end_with_the_name_of_the_node_that_was_killed() {
    let memory = Memory::start(2, 96 << 20);
    let flags = "-w 3 --set items=200 --set customers=30 --threads 1 --cache-mb 8 --time 60 --set member-lease=8";
    let mut program = memory.start_program(TPCC.0, 3, flags);
    program.wait_for_line("run: ", LIMIT);
    program.kill(0);
    let ended = program.wait(LIMIT);
    assert_eq!(ended[0].status, None, "it was killed");
    for process in &ended[1..] {
        assert_eq!(process.status, Some(1), "{}", process.err);
        let errors = process.err.lines().filter(|line| line.starts_with("tpcc: compute node"));
        let errors: Vec<_> = errors.collect();
        let [error] = errors[..] else { panic!("one line: {}", process.err) };
        assert!(error.contains("compute node C") && error.contains(" died"), "{error}");
    }
}
