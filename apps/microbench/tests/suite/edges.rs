//! The output on a terminal, and the notation of sizes and times.

use std::time::Duration;

use latchwork_processes::{shown, too_wide};

use crate::MICROBENCH;

const SMALL: &str = "--lines 500 --operations 1000 --threads 1";

/// The longest time that a program may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn on_a_terminal_a_result_stands_once_and_fits() {
    let (status, text) = shown(MICROBENCH.command(SMALL), LIMIT);
    assert!(status.success(), "{text}");
    assert_eq!(too_wide(&text), [""; 0]);
    for once in ["operations/s", "verbs  ", "check  contents"] {
        assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
    }
    assert!(!text.contains("[MEASURE]") && !text.contains("[CHECK]"), "{text}");
    let ended = MICROBENCH.good(SMALL);
    let out = ended.out;
    assert!(out.starts_with("[OVERALL], ") && out.contains("[MEASURE], "), "{out}");
    assert_eq!(too_wide(&ended.err), [""; 0]);
}

#[test]
fn sizes_and_times_have_one_grammar() {
    let hash = |arguments: &str| {
        let document = MICROBENCH.document(&format!("--fabric sim {SMALL} {arguments}"));
        document["event_hash"].as_str().expect("a simulated world has one").to_owned()
    };
    let plain = "--gcl-size 1024 --item-size 128 --cache-mb 0.5 --set write-deadline=10ms --set series-us=100";
    let spelt = "--gcl-size 1KiB --item-size 128B --cache-mb 512K --set write-deadline=0.01 --set series-us=0.1ms";
    assert_eq!(hash(plain), hash(spelt));
}
