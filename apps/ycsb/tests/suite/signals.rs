//! The effects of signals on the program, from loading to the second signal.

use serde_json::Value;

use crate::YCSB;

/// Flags for a table that is loaded at once, and a run so long that only a signal ends it.
const SMALL: &str = "--cache-mb 8 -p recordcount=2000 --threads 1 --time 600";

/// Sends a signal during the run, and returns the document.
fn drained(signal: &str, arguments: &str) -> Value {
    let mut running = YCSB.start(&format!("{SMALL} {arguments} --json -"));
    running.reach("run");
    running.signal(signal);
    let ended = running.end();
    ended.assert_good(arguments);
    let told = format!("ycsb: SIG{signal}: the run ends here; ");
    assert!(ended.err.lines().any(|line| line.starts_with(&told)), "{ended:?}");
    ended.json()
}

#[test]
fn the_first_signal_ends_the_measured_part_and_results_follow() {
    for (signal, arguments) in [
        ("TERM", "--warmup 0.1"),
        ("INT", "--warmup auto"),
        ("TERM", "--warmup 0 --target 2"),
        ("TERM", "--warmup 0 --fabric sim"),
    ] {
        let document = drained(signal, arguments);
        assert_eq!(document["stopped"], format!("SIG{signal}"), "{arguments}");
        assert!(document["ops"].as_u64() > Some(0), "{arguments}");
        let elapsed = document["elapsed_s"].as_f64().expect("seconds");
        assert!((0.0..300.0).contains(&elapsed), "{arguments}: {elapsed}");
        let checks = document["checks"].as_object().expect("checks");
        assert!(checks.len() >= 4 && checks.values().all(|check| check == "ok"), "{arguments}");
    }
}

#[test]
fn a_run_without_a_signal_does_not_mention_one() {
    let arguments = "--cache-mb 8 -p recordcount=2000 --threads 1 --operations 1000";
    let document = YCSB.document(arguments);
    assert!(document.get("stopped").is_none());
}

#[test]
fn while_it_loads_or_warms_up_a_signal_is_one_line_and_its_own_status() {
    for (signal, status, arguments, begun) in [
        ("TERM", 143, "-p recordcount=4000000 --cache-mb 8", "ycsb run: "),
        ("INT", 130, "load -p recordcount=4000000 --cache-mb 8 --threads 1", "load: "),
        ("TERM", 143, "--warmup 600 -p recordcount=2000 --cache-mb 8 --threads 1", "run: "),
    ] {
        let mut running = YCSB.start(arguments);
        running.follow(|line| line.starts_with(begun));
        running.signal(signal);
        let ended = running.end();
        ended.assert_ended_by(signal, status);
        // Bug: in the warm-up a line promised a result, and the last line said that there was no
        // result.
        assert!(!ended.err.contains("the run ends here"), "{}", ended.err);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    // Bulk loading first sorts all keys, and checks for no signal meanwhile.
    let mut running = YCSB.start("-p recordcount=4000000 --cache-mb 8");
    running.follow(|line| line.starts_with("ycsb run: "));
    // Both signals are of one kind, because of two pending kinds either may be handled first.
    running.signal("TERM");
    running.until_delivered();
    running.signal("TERM");
    let ended = running.end();
    assert_eq!(ended.status, Some(143), "{}", ended.err);
    // A program that ends in order prints this line.
    assert!(!ended.last().starts_with("ycsb: ended"), "{}", ended.err);
    assert!(ended.out.is_empty());
}
