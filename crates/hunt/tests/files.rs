//! Scenarios as files: what is wrong with one is one line that says where, and what would do.

use latchwork_hunt::scenario::WorkloadKind;
use latchwork_hunt::{Choice, Scenario, Vary, run};

fn wrong(text: &str) -> String {
    let error = Scenario::parse(text).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_would_do() {
    for (text, line, words) in [
        ("seed = 1\ncompute_nodes = 80", 2, &["compute_nodes", "80", "1 to 58"][..]),
        ("\n\nframes = -3", 3, &["frames", "-3", "4 to"]),
        ("line_size = 1000", 1, &["line_size", "1000", "power of two"]),
        ("seed = 1\nprotocol = \"mesi\"", 2, &["protocol", "mesi", "selcc"]),
        ("seed = \"seven\"", 1, &["seed", "seven"]),
        ("seed = 1\nplant = \"gremlin\"", 2, &["gremlin", "no_settling"]),
        ("seed = 1\nsede = 2", 2, &["sede", "seed"]),
        ("[workload.lines]\nlines = 4\nrights = 3", 3, &["rights", "writes"]),
        ("[workload.tpcc]\nwarehouses = 4", 1, &["tpcc", "lines", "tree", "ycsb"]),
        ("[workload.ycsb]\nmix = \"g\"", 2, &["mix", "\"g\"", "a, b, c"]),
        ("[workload.tree]\nentries_per_page = 2", 2, &["entries_per_page", "2", "3 to"]),
        ("[faults]\nslow_factor = 1", 2, &["slow_factor", "1", "2 to"]),
        ("seed = 1\n[settings]\npauses = \"2us\"", 3, &["settings.pauses", "pause-max"]),
        ("seed = 1\n[settings]\nevict-batch = \"0\"", 3, &["evict-batch", "from 1"]),
        // Values that do not fit each other.
        ("compute_nodes = 2\n[faults]\nuntil_us = 5\ndeaths = 2", 4, &["deaths", "0 to 1"]),
        ("[faults]\nlost_memory = 2", 2, &["lost_memory", "there are 1"]),
        ("[faults]\npauses = 2\nuntil_us = 0", 3, &["until_us", "more than 0"]),
        ("[workload.tree]\nkeys = 3\nloaded = 9", 3, &["loaded", "0 to 3"]),
        ("seed = 4\n[workload.lines]\nwrites = 90\nupgrades = 20", 2, &["at most 100"]),
        ("seed = 1\nnetwork = \"warp\"", 2, &["network", "warp", "connectx5", "calm"]),
        // No TOML at all.
        ("seed = 1\ncompute_nodes 3", 2, &[]),
        ("seed = 1\nseed = 2", 2, &["duplicate"]),
    ] {
        let error = wrong(text);
        assert!(error.starts_with(&format!("line {line}: ")), "{text:?}: {error}");
        for word in words {
            assert!(error.contains(word), "{text:?}: {error} does not say {word}");
        }
    }
}

#[test]
fn every_drawn_scenario_survives_being_written_and_read() {
    let choice = Choice { vary: Vary::Settings, ..Choice::default() };
    for seed in 0..500 {
        let scenario = Scenario::from_seed(seed, &choice);
        assert_eq!(Scenario::parse(&scenario.to_toml()), Ok(scenario));
    }
}

#[test]
fn what_a_choice_leaves_out_is_not_drawn() {
    let choice = Choice { workloads: vec![WorkloadKind::Tree], faults: false, ..Choice::default() };
    for seed in 0..200 {
        let scenario = Scenario::from_seed(seed, &choice);
        assert_eq!(scenario.workload.kind(), WorkloadKind::Tree);
        assert!(!scenario.faults.any(), "{:?}", scenario.faults);
    }
}

#[test]
fn an_impossible_scenario_is_a_failure_and_no_panic() {
    let scenario = Scenario { compute_nodes: 0, ..Scenario::default() };
    let failure = run(&scenario).failure.expect("no world without nodes");
    assert!(failure.text.contains("1 to 58"), "{failure}");
    let scenario = Scenario { frames: 1, ..Scenario::default() };
    assert!(run(&scenario).failure.is_some());
}

#[test]
fn the_profile_of_a_nic_is_a_network() {
    for name in ["connectx3", "connectx5", "ethernet10g"] {
        let text = format!("network = \"{name}\"\ncompute_nodes = 4");
        let scenario = Scenario::parse(&text).expect("a good scenario");
        assert_eq!(run(&scenario).failure, None, "{name}");
    }
}
