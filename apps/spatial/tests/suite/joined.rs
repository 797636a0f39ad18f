//! The program as the compute nodes of a cluster of processes: all load and answer together, and
//! one process prints the result.

use std::thread;
use std::time::Duration;

use latchwork_processes::{Memory, document_of_survivors, one_document};
use serde_json::Value;

use crate::SPATIAL;
use crate::common::{Files, document, measure};

const LIMIT: Duration = Duration::from_secs(120);

fn all_ok(document: &Value) {
    let checks = document["checks"].as_object().expect("checks");
    assert!(checks.values().all(|check| check == "ok"), "{checks:?}");
}

#[test]
fn processes_answer_as_one_process_does() {
    let files = Files::new(500, 200);
    let (places, boxes) = (files.places_csv(), files.boxes_csv());
    let memory = Memory::start(2, 64 << 20);
    for query in [
        format!("query nearest {boxes} --data {places} -k 3 --load-by inserts"),
        format!("query join {places} --data {boxes} --within 300km"),
        format!("query window 150,-80,-150,85 --data {boxes}"),
    ] {
        let flags =
            format!("{query} --great-circle --gcl-size 1024 --threads 1 --cache-mb 8 --check");
        let alone = document(&format!("{flags} --compute-nodes 1"));
        let ended = memory.start_program(SPATIAL.0, 3, &flags).wait(LIMIT);
        let together: Value = serde_json::from_str(one_document(&ended)).expect("a document");
        all_ok(&together);
        for name in ["answers", "answers_digest", "entries"] {
            assert_eq!(measure(&together, name), measure(&alone, name), "{query}: {name}");
        }
    }
    memory.end();
}

#[test]
fn objects_of_all_processes_are_checked_together() {
    let memory = Memory::start(2, 64 << 20);
    let flags = "bench --entries 600 --operations 1500 --gcl-size 1024 --threads 1 --cache-mb 8 --set step=0.1";
    let ended = memory.start_program(SPATIAL.0, 3, flags).wait(LIMIT);
    let document: Value = serde_json::from_str(one_document(&ended)).expect("a document");
    all_ok(&document);
    assert_eq!(document["ops"], 1500);
    let nodes = document["nodes"].as_array().expect("nodes");
    let ops: Vec<_> = nodes.iter().filter_map(|node| node["counters"]["ops"].as_u64()).collect();
    assert_eq!(ops, [500; 3], "each process does its share");
    memory.end();
}

#[test]
fn processes_with_different_files_say_so() {
    let (files, other) = (Files::new(30, 5), Files::new(31, 5));
    let memory = Memory::start(1, 64 << 20);
    let flags = |path: String| format!("load {path} --threads 1 --cache-mb 8");
    let flags = [flags(files.places_csv()), flags(other.places_csv())];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for process in memory.start_unlike(SPATIAL.0, &flags).wait(LIMIT) {
        assert_eq!(process.status, Some(2), "{}", process.err);
        assert!(
            process.err.contains("data_digest") || process.err.contains("rows"),
            "{}",
            process.err
        );
    }
    memory.end();
}

/// The others go on without the process that was killed, be it the one that shows the results.
#[test]
fn a_benchmark_outlives_its_processes_and_objects_of_the_others_are_where_they_know_them() {
    for killed in [2, 0] {
        let memory = Memory::start(2, 64 << 20);
        let flags =
            "bench --entries 600 --time 4 --gcl-size 1024 --threads 1 --cache-mb 8 --set step=0.1";
        let mut program = memory.start_outliving(SPATIAL.0, 3, flags, LIMIT);
        thread::park_timeout(Duration::from_secs(1));
        program.kill(killed);
        let ended = program.wait(LIMIT);
        let document = document_of_survivors(&ended, &[killed]);
        assert!(document["ops"].as_u64() > Some(0), "{document}");
        assert!(ended.iter().any(|process| process.err.contains("\ndeath  C")), "{ended:?}");
    }
}

/// The others answer what the process that was killed would have answered.
#[test]
fn a_query_outlives_its_processes_and_has_all_answers() {
    let files = Files::new(500, 8_000);
    let (places, boxes) = (files.places_csv(), files.boxes_csv());
    let flags = format!(
        "query nearest {boxes} --data {places} -k 3 --great-circle --gcl-size 1024 --threads 1 --cache-mb 8"
    );
    let alone = document(&format!("{flags} --compute-nodes 1"));
    let memory = Memory::start(2, 64 << 20);
    let mut program = memory.start_outliving(SPATIAL.0, 3, &flags, LIMIT);
    program.kill(1);
    let together = document_of_survivors(&program.wait(LIMIT), &[1]);
    for name in ["answers", "answers_digest", "entries"] {
        assert_eq!(measure(&together, name), measure(&alone, name), "{name}");
    }
}
