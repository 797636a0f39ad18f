//! The program as the compute nodes of a cluster of processes. The processes do one run, and one of
//! them prints its results.

use std::time::Duration;

use latchwork_processes::{Memory, OUTLIVING, document_of_survivors, one_document};
use serde_json::Value;

use crate::YCSB;

const LIMIT: Duration = Duration::from_secs(60);
const SMALL: &str = "-p recordcount=8000 --operations 1500 --threads 1 --cache-mb 8";

#[test]
fn every_workload_runs_on_the_same_memory_nodes_one_after_the_other() {
    for protocol in ["selcc", "gam", "scalestore"] {
        every_workload(&format!("--protocol {protocol}"));
    }
}

#[test]
fn every_workload_runs_in_a_tree_without_a_coherent_cache() {
    every_workload("--index sherman");
}

fn every_workload(kind: &str) {
    // The pool is too small for all runs together, but each run releases its memory at its end.
    let memory = Memory::start(2, 40 << 20);
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let flags = format!("check -w {workload} {kind} {SMALL}");
        let ended = memory.start_program(YCSB.0, 3, &flags).wait(LIMIT);
        let document: Value = serde_json::from_str(one_document(&ended)).expect("a document");
        let checks = document["checks"].as_object().expect("checks");
        assert!(checks.values().all(|check| check == "ok"), "{workload}: {checks:?}");
        // All processes have one clock, so the check needs one order for all their observations.
        assert!(checks.contains_key("linearizability"), "{workload}: {checks:?}");
        let nodes = document["nodes"].as_array().expect("nodes");
        assert_eq!(nodes.len(), 5, "{workload}: three compute nodes, and two of memory");
        // The counts of all processes' workers are in one document.
        let workers = document["conditions"]["workers"].as_array().expect("workers");
        let of: Vec<_> = workers.iter().map(|worker| worker["node"].as_u64()).collect();
        assert_eq!(of, [Some(0), Some(1), Some(2)], "{workload}: {}", document["conditions"]);
        let hits = |node: &Value| node["counters"]["cache_hits"].as_u64().unwrap_or(0);
        let has_cache = kind.starts_with("--protocol");
        assert!(
            !has_cache || nodes[..3].iter().all(|node| hits(node) > 0),
            "{workload}: each did its part"
        );
        assert_eq!(document["ops"], 1500, "{workload}: as many as were asked for, all together");
    }
    memory.end();
}

#[test]
fn the_others_end_with_the_name_of_the_node_that_was_killed() {
    let memory = Memory::start(2, 64 << 20);
    let flags = "run -p recordcount=1000 --time 60 --threads 1 --cache-mb 8 --set member-lease=8 --set survive=off";
    let mut program = memory.start_program(YCSB.0, 3, flags);
    program.wait_for_line("run: ", LIMIT);
    program.kill(2);
    let ended = program.wait(LIMIT);
    assert_eq!(ended[2].status, None, "it was killed");
    for process in &ended[..2] {
        assert_eq!(process.status, Some(1), "{}", process.err);
        let errors = process.said().into_iter().filter(|line| line.starts_with("ycsb: "));
        let errors: Vec<_> = errors.collect();
        let [error] = errors[..] else { panic!("one line: {}", process.err) };
        assert!(error.contains("compute node C") && error.contains(" died"), "{error}");
    }
}

/// The others go on without the process that was killed, be it the one that shows the results.
#[test]
fn a_run_outlives_its_processes_and_its_document_names_them() {
    for (killed, workload) in [(vec![2], "a"), (vec![0, 2], "f")] {
        let memory = Memory::start(2, 64 << 20);
        let flags =
            format!("check -w {workload} -p recordcount=1000 --time 15 --threads 1 --cache-mb 8");
        let mut program = memory.start_outliving(YCSB.0, 4, &flags, LIMIT);
        program.wait_for_line_that("run: ", |line| !line.contains(" %, 0 "), LIMIT);
        killed.iter().for_each(|process| program.kill(*process));
        // Another process works along under the same id.
        let flags = format!("{flags} {OUTLIVING} --time 2 --set node-id=3 --set replaces=on");
        let instead = memory.start_program(YCSB.0, 1, &flags).wait(LIMIT).remove(0);
        assert_eq!(instead.status, Some(0), "{}", instead.err);
        let document: Value = serde_json::from_str(one_document(&[instead])).expect("a document");
        assert!(document["ops"].as_u64() > Some(0), "{document}");
        let document = document_of_survivors(&program.wait(LIMIT), &killed);
        assert!(document["checks"].as_object().is_some_and(|checks| checks.len() >= 5));
        assert_eq!(document["config"]["settings"]["survive"], "on", "with processes");
        // Accesses of the survivors have waited for lines of the dead nodes.
        let recoveries = document["recoveries"].as_array().expect("recoveries");
        let mut longest = recoveries.iter().map(|recovery| recovery["longest_access_ms"].as_f64());
        assert!(longest.all(|ms| ms >= Some(1.0)), "{recoveries:?}");
    }
}

#[test]
fn a_signal_to_any_ends_the_measured_part_of_all_and_results_follow() {
    let memory = Memory::start(2, 64 << 20);
    // The signal goes to the process that prints the results, or to another one. In the second case
    // the warm-up ends for all when the last process is warm.
    for (process, flags) in [(0, "--warmup 0.1"), (2, "--warmup auto -w c")] {
        let flags =
            format!("run -s -p recordcount=1000 --time 600 --threads 1 --cache-mb 8 {flags}");
        let mut program = memory.start_program(YCSB.0, 3, &flags);
        // The progress is that of one node, and the result that of all.
        let is_it =
            |line: &str| !line.contains(" %, 0 ") && line.contains("operations/s at C1 alone");
        program.wait_for_line_that("run: ", is_it, LIMIT);
        program.signal(process, "TERM");
        let ended = program.wait(LIMIT);
        let mut documents = 0;
        for process in &ended {
            assert_eq!(process.status, Some(0), "{}", process.err);
            let told = process.err.lines().filter(|line| line.contains(": the run ends here; "));
            assert_eq!(told.count(), 1, "{}", process.err);
            let Some(document) = &process.document else { continue };
            let document: Value = serde_json::from_str(document).expect("a document");
            assert_eq!(document["stopped"], "SIGTERM");
            assert!(document["ops"].as_u64() > Some(0));
            assert!(process.err.contains(" sec at C1 alone: "), "{}", process.err);
            let checks = document["checks"].as_object().expect("checks");
            assert!(checks.len() >= 4 && checks.values().all(|check| check == "ok"), "{checks:?}");
            documents += 1;
        }
        assert_eq!(documents, 1, "one tells");
        assert_eq!(memory.dead(), []);
    }
    memory.end();
}

#[test]
fn a_signal_while_they_load_or_warm_up_ends_all_with_its_status() {
    let memory = Memory::start(2, 1 << 30);
    for (process, begun, flags) in [
        (1, "load: ", "-p recordcount=400000 --load-by inserts"),
        (2, "run: ", "-p recordcount=1000 --warmup 600"),
    ] {
        let flags = format!("run {flags} --threads 1 --cache-mb 8");
        let mut program = memory.start_program(YCSB.0, 3, &flags);
        program.wait_for_line(begun, LIMIT);
        program.signal(process, "INT");
        for process in program.wait(LIMIT) {
            assert_eq!(process.status, Some(130), "{}", process.err);
            assert!(process.out.is_empty() && process.document.is_none(), "{}", process.out);
            let last = process.err.lines().last().unwrap_or_default();
            assert!(last.starts_with("ycsb: ended by SIGINT "), "{}", process.err);
        }
        assert_eq!(memory.dead(), []);
    }
    memory.end();
}

#[test]
fn processes_with_other_flags_are_found_at_the_start() {
    let memory = Memory::start(1, 64 << 20);
    for (one, other, told) in [
        ("-p recordcount=1000", "-p recordcount=2000", "recordcount is 1000 at node C1 and 2000"),
        ("-w a", "-w b", "readproportion is 0.5 at node C1 and 0.95"),
        ("--seed 7", "--seed 8", "seed is 7 at node C1 and 8"),
        ("--threads 1", "--threads 2", "threads is 1 at node C1 and 2"),
        (
            "",
            "-p requestdistribution=latest",
            "requestdistribution is zipfian at node C1 and latest",
        ),
    ] {
        let flags =
            [one, one, other].map(|own| format!("--threads 1 --cache-mb 8 --time 600 {own}"));
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut swapped = 0;
        for process in memory.start_unlike(YCSB.0, &flags).wait(LIMIT) {
            assert_eq!(process.status, Some(2), "{}", process.err);
            let [line] = process.said()[..] else { panic!("one line: {}", process.err) };
            assert!(line.ends_with("start all processes of a run with the same flags"), "{line}");
            // The process that joined first may have been the one with the other flags.
            swapped += usize::from(!line.contains(told));
        }
        assert!(swapped == 0 || swapped == 3, "all say the same");
        assert_eq!(memory.dead(), []);
    }
    memory.end();
}
