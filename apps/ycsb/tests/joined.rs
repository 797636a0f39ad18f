//! The program as the compute nodes of a cluster of processes: one run, whose results one of them tells.

use latchwork_processes::{Memory, one_document};
use serde_json::Value;
use std::time::Duration;

const YCSB: &str = env!("CARGO_BIN_EXE_ycsb");
const LIMIT: Duration = Duration::from_secs(60);
const SMALL: &str = "-p recordcount=1000 --operations 1500 --threads 1 --cache-mb 8";

#[test]
fn every_workload_runs_on_the_same_memory_nodes_one_after_the_other() {
    let memory = Memory::start(2, 256 << 20);
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let flags = format!("check -w {workload} {SMALL}");
        let ended = memory.start_program(YCSB, 3, &flags).wait(LIMIT);
        let document: Value = serde_json::from_str(one_document(&ended)).expect("a document");
        let checks = document["checks"].as_object().expect("checks");
        assert!(checks.values().all(|check| check == "ok"), "{workload}: {checks:?}");
        // One clock for all, so that one order has to explain what all processes saw.
        assert!(checks.contains_key("linearizability"), "{workload}: {checks:?}");
        let nodes = document["nodes"].as_array().expect("nodes");
        assert_eq!(nodes.len(), 5, "{workload}: three compute nodes, and two of memory");
        let hits = |node: &Value| node["counters"]["cache_hits"].as_u64().unwrap_or(0);
        assert!(nodes[..3].iter().all(|node| hits(node) > 0), "{workload}: each did its part");
        assert_eq!(document["ops"], 1500, "{workload}: as many as were asked for, all together");
    }
    memory.end();
}

#[test]
fn the_others_end_with_the_name_of_the_node_that_was_killed() {
    let memory = Memory::start(2, 64 << 20);
    let flags = "run -p recordcount=1000 --time 60 --threads 1 --cache-mb 8 --member-lease 5";
    let mut program = memory.start_program(YCSB, 3, flags);
    program.wait_for_line("run: ", LIMIT);
    program.kill(2);
    let ended = program.wait(LIMIT);
    assert_eq!(ended[2].status, None, "it was killed");
    for process in &ended[..2] {
        assert_eq!(process.status, Some(1), "{}", process.err);
        let errors = process.err.lines().filter(|line| line.starts_with("ycsb: "));
        let errors: Vec<_> = errors.collect();
        let [error] = errors[..] else { panic!("one line: {}", process.err) };
        assert!(error.contains("compute node C") && error.contains(" died"), "{error}");
    }
}
