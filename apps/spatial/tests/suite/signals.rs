//! The effects of signals on the program.

use std::time::Duration;

use crate::SPATIAL;

#[test]
fn a_signal_ends_the_measured_part_and_results_follow() {
    for fabric in ["shm", "sim"] {
        let flags = "bench --entries 500 --threads 1 --time 600 --log latchwork_harness=info";
        let mut running = SPATIAL.start(&format!("{flags} --fabric {fabric} --json -"));
        // The log reports the begin.
        let begun = "INFO latchwork_harness::stop: a run is measured";
        running.follow(|line| line.contains(begun));
        running.leave_alone(Duration::from_secs(1));
        running.signal("TERM");
        let ended = running.end();
        ended.assert_good(fabric);
        let document = ended.json();
        assert_eq!(document["stopped"], "SIGTERM");
        assert_eq!(document["checks"]["objects"], "ok");
    }
}

#[test]
fn while_objects_are_loaded_a_signal_is_one_line_and_its_own_status() {
    let mut running = SPATIAL.start("bench --entries 3000000 --load-by inserts --threads 1");
    running.follow(|line| line.starts_with("load: "));
    running.signal("INT");
    running.end().assert_ended_by("INT", 130);
}
