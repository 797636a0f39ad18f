//! The program as the compute nodes of a cluster of processes. The processes do one run, and one of
//! them prints its results.

use std::thread;
use std::time::Duration;

use latchwork_processes::{Memory, document_of_survivors, one_document};
use serde_json::Value;

use crate::MICROBENCH;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn reads_and_writes_of_all_processes_are_checked_together() {
    let memory = Memory::start(2, 64 << 20);
    let writes = [
        "locked",
        "blind",
        "blind --consistency pso --set write-deadline=5s",
        "locked --theta 0.9",
    ];
    for flags in writes {
        let flags = format!(
            "--lines 300 --threads 1 --reads 50 --operations 3000 --warmup 600 --writes {flags}"
        );
        let ended = memory.start_program(MICROBENCH.0, 3, &flags).wait(LIMIT);
        let document: Value = serde_json::from_str(one_document(&ended)).expect("a document");
        let checks = document["checks"].as_object().expect("checks");
        assert!(checks.values().all(|check| check == "ok"), "{flags}: {checks:?}");
        // Buffered writes take effect after their return, so they are not checked.
        let judged = !flags.contains("pso");
        assert_eq!(checks.contains_key("linearizability"), judged, "{flags}: {checks:?}");
        let ops = |node: &Value| node["counters"]["ops"].as_u64();
        let nodes = document["nodes"].as_array().expect("nodes");
        let each: Vec<_> = nodes.iter().filter_map(ops).collect();
        assert_eq!(each, [1000; 3], "{flags}: each process does its share");
    }
    memory.end();
}

#[test]
fn the_others_end_with_the_name_of_the_node_that_was_killed() {
    let memory = Memory::start(2, 64 << 20);
    let flags =
        "--lines 300 --threads 1 --time 60 --warmup 0 --set member-lease=8 --set survive=off";
    let mut program = memory.start_program(MICROBENCH.0, 3, flags);
    program.wait_for_line("microbench: ", LIMIT);
    // At this time the processes run, or are about to run.
    program.kill(1);
    let ended = program.wait(LIMIT);
    for process in [&ended[0], &ended[2]] {
        assert_eq!(process.status, Some(1), "{}", process.err);
        let is_error = |line: &&str| {
            line.starts_with("microbench: ") && !line.starts_with("microbench: selcc ")
        };
        let errors = process.said().into_iter().filter(is_error);
        let errors: Vec<_> = errors.collect();
        let [error] = errors[..] else { panic!("one line: {}", process.err) };
        assert!(error.contains("compute node C") && error.contains(" died"), "{error}");
    }
}

/// The others go on without the process that was killed, be it the one that shows the results.
#[test]
fn a_run_outlives_its_processes_and_the_writes_of_the_others_are_there() {
    for (killed, writes) in
        [(2, "locked"), (0, "blind"), (1, "blind --consistency pso --set write-deadline=30s")]
    {
        let memory = Memory::start(2, 64 << 20);
        let flags = format!("--lines 300 --threads 1 --reads 50 --time 4 --writes {writes}");
        let mut program = memory.start_outliving(MICROBENCH.0, 3, &flags, LIMIT);
        thread::park_timeout(Duration::from_secs(1));
        program.kill(killed);
        let document = document_of_survivors(&program.wait(LIMIT), &[killed]);
        let nodes = document["nodes"].as_array().expect("nodes");
        let ops: Vec<_> =
            nodes.iter().filter_map(|node| node["counters"]["ops"].as_u64()).collect();
        for (node, ops) in ops.into_iter().enumerate() {
            assert_eq!(ops > 0, node != killed, "{writes}: {ops} operations of process {node}");
        }
    }
    let memory = Memory::start(1, 64 << 20);
    let ended = memory.start_program(MICROBENCH.0, 1, "--threads 1 --set replaces=on").wait(LIMIT);
    assert_eq!(ended[0].status, Some(2), "{}", ended[0].err);
    assert!(ended[0].err.contains("only ycsb works along"), "{}", ended[0].err);
}
