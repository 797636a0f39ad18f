//! The effects of signals on the program.

#[path = "../../../../crates/measure/harness/tests/child/mod.rs"]
mod child;

use std::time::Duration;

use child::Running;

fn microbench(arguments: &str) -> Running {
    Running::start(env!("CARGO_BIN_EXE_microbench"), arguments)
}

#[test]
fn a_signal_ends_the_measured_part_and_results_follow() {
    for fabric in ["shm", "sim"] {
        let flags = "--lines 500 --threads 1 --warmup 0 --time 600 --log latchwork_harness=info";
        let mut running = microbench(&format!("{flags} --fabric {fabric} --json -"));
        // The log reports the begin of the measured part.
        let begun = "INFO latchwork_harness::stop: a run is measured";
        running.follow(|line| line.contains(begun));
        running.leave_alone(Duration::from_secs(1));
        running.signal("TERM");
        let ended = running.end();
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        let document: serde_json::Value = serde_json::from_str(&ended.out).expect("a document");
        assert_eq!(document["stopped"], "SIGTERM");
        assert_eq!(document["checks"]["writes"], "ok");
    }
}

#[test]
fn while_lines_are_made_a_signal_is_one_line_and_its_own_status() {
    let mut running = microbench("--lines 5000000 --threads 1");
    running.follow(|line| line.starts_with("microbench: "));
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.status, Some(130), "{}", ended.err);
    assert!(ended.err.ends_with("microbench: ended by SIGINT before it had a result\n"));
    assert!(ended.out.is_empty());
}
