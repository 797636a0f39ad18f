//! The effects of signals on the program.

use std::time::Duration;

use crate::MICROBENCH;

#[test]
fn a_signal_ends_the_measured_part_and_results_follow() {
    for fabric in ["shm", "sim"] {
        let flags = "--lines 500 --threads 1 --warmup 0 --time 600 --log latchwork_harness=info";
        let mut running = MICROBENCH.start(&format!("{flags} --fabric {fabric} --json -"));
        // The log reports the begin of the measured part.
        let begun = "INFO latchwork_harness::stop: a run is measured";
        running.follow(|line| line.contains(begun));
        running.leave_alone(Duration::from_secs(1));
        running.signal("TERM");
        let ended = running.end();
        ended.assert_good(fabric);
        let document = ended.json();
        assert_eq!(document["stopped"], "SIGTERM");
        assert_eq!(document["checks"]["writes"], "ok");
    }
}

#[test]
fn while_lines_are_made_a_signal_is_one_line_and_its_own_status() {
    let mut running = MICROBENCH.start("--lines 5000000 --threads 1");
    running.follow(|line| line.starts_with("microbench: "));
    running.signal("INT");
    running.end().assert_ended_by("INT", 130);
}
