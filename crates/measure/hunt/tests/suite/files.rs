//! Tests of scenario files: each mistake is reported in one line, with its position and the valid
//! values.

use std::collections::BTreeSet;

use latchwork_cluster::Protocol;
use latchwork_hunt::scenario::{
    BufferedLoad, LinesLoad, MemoryLoad, QueueLoad, TxnLoad, WorkloadKind,
};
use latchwork_hunt::{FaultPlan, Scenario, SwarmChoice, Vary, Workload, run};

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
        // Values that do not fit together.
        ("compute_nodes = 2\n[faults]\nuntil_us = 5\ndeaths = 2", 4, &["deaths", "0 to 1"]),
        ("[faults]\nlost_memory = 2", 2, &["lost_memory", "there are 1"]),
        ("[faults]\npauses = 2\nuntil_us = 0", 3, &["until_us", "more than 0"]),
        ("[workload.tree]\nkeys = 3\nloaded = 9", 3, &["loaded", "0 to 3"]),
        ("seed = 4\n[workload.lines]\nwrites = 90\nupgrades = 20", 2, &["at most 100"]),
        ("seed = 1\nnetwork = \"warp\"", 2, &["network", "warp", "connectx5", "calm"]),
        // Text that is not TOML.
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
    let choice = SwarmChoice { vary: Vary::Settings, ..SwarmChoice::default() };
    for seed in 0..500 {
        let scenario = Scenario::from_seed(seed, &choice);
        assert_eq!(Scenario::parse(&scenario.to_toml()), Ok(scenario));
    }
}

/// Bug: a hunt had lines of 512 and 1024 bytes only, and worlds with other sizes panicked.
/// Mechanism: sizes came from a short list. Fix: where settings vary, all sizes are drawn.
#[test]
fn a_hunt_draws_every_size_of_a_line_and_default_worlds_keep_theirs() {
    let sizes = |vary| -> BTreeSet<u32> {
        let choice = SwarmChoice { vary, ..SwarmChoice::default() };
        (0..300).map(|seed| Scenario::from_seed(seed, &choice).line_size).collect()
    };
    assert_eq!(sizes(Vary::Settings), (9..=16).map(|shift| 1 << shift).collect());
    assert_eq!(sizes(Vary::Nothing), [512, 1024].into());
}

/// Bug: a hunt drew no world with a directory protocol. Mechanism: the list of drawn protocols had
/// the protocols of the latch word only. Fix: each later protocol is drawn in one world of eight.
#[test]
fn every_protocol_is_drawn_and_kept_seeds_keep_theirs() {
    let drawn = |seed| Scenario::from_seed(seed, &SwarmChoice::default()).protocol;
    let all: Vec<_> = (0..2000).map(drawn).collect();
    let count = |protocol| all.iter().filter(|drawn| **drawn == protocol).count();
    assert!(count(Protocol::default()) > 1000, "most worlds");
    for protocol in Protocol::ALL {
        assert!(count(protocol) > 150, "{protocol}: {} of {}", count(protocol), all.len());
    }
    // The seeds of `apps/sim/worlds.txt` when the directory protocols came.
    let kept = (1..=8).chain(21..=32).chain([89_730_407_481_121, 146_833_308_457_495]);
    assert!(kept.map(drawn).all(|protocol| !protocol.has_homes()));
}

/// Bug: no hunt drew the ways in which ScaleStore resolves conflicts. Mechanism: hunts tried only
/// settings that all protocols have. Fix: they are drawn when the protocol is final.
#[test]
fn every_way_of_conflict_is_drawn_where_the_protocol_has_them() {
    for protocol in Protocol::ALL {
        let drawn: BTreeSet<_> = (0..200)
            .map(|seed| {
                let mut scenario = Scenario { seed, protocol, ..Scenario::default() };
                scenario.vary_ways_of_conflict();
                scenario.check().expect("settings of this protocol");
                scenario.settings
            })
            .collect();
        assert_eq!(drawn.len(), if protocol == Protocol::ScaleStore { 6 } else { 1 });
    }
}

#[test]
fn homes_are_drawn_at_compute_nodes_where_the_protocol_has_homes() {
    let drawn = (0..2000).map(|seed| Scenario::from_seed(seed, &SwarmChoice::default()));
    let drawn: Vec<_> = drawn.filter(|scenario| scenario.settings.contains_key("home")).collect();
    assert!(drawn.len() > 80, "{} worlds", drawn.len());
    assert!(drawn.iter().any(|scenario| scenario.faults.deaths > 0));
    for scenario in drawn {
        assert!(scenario.protocol.has_homes() && scenario.check().is_ok(), "{}", scenario.seed);
    }
    let settings = [("home".to_owned(), "compute".to_owned())].into();
    let faults = FaultPlan { lost_memory: 1, ..FaultPlan::default() };
    let protocol = Protocol::Gam;
    let lost = Scenario { protocol, settings, faults, ..Scenario::default() };
    let error = lost.check().expect_err("memory and node are one").to_string();
    assert!(error.contains("deaths would do"), "{error}");
}

#[test]
fn what_a_choice_leaves_out_is_not_drawn() {
    let choice = SwarmChoice {
        workloads: vec![WorkloadKind::Tree],
        faults: false,
        ..SwarmChoice::default()
    };
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

/// Bug: a program could build a scenario that no file can have, such as one with lines of 300
/// bytes, and the scenario panicked. Mechanism: only some values were checked. Fix: values from a
/// program pass the range checks of files.
#[test]
fn what_a_program_builds_meets_the_same_ranges_as_a_file() {
    let lines = |load| Workload::Lines(load);
    let faults = |faults| Scenario { faults, ..Scenario::default() };
    let of = |workload| Scenario { workload, ..Scenario::default() };
    let sized = |line_size| {
        let workload = Workload::Buffered(BufferedLoad::default());
        Scenario { line_size, workload, ..Scenario::default() }
    };
    for (scenario, words) in [
        (sized(0), &["line_size: 0 bytes", "512 to 65536"][..]),
        (sized(16), &["line_size: 16 bytes", "512 to 65536"]),
        (sized(3000), &["line_size: 3000 bytes"]),
        (sized(1 << 17), &["line_size: 131072 bytes"]),
        (Scenario { tasks: 0, ..Scenario::default() }, &["tasks: 0", "1 to 64"]),
        (
            Scenario { operations: u64::MAX, ..Scenario::default() },
            &["operations: 18446744073709551615 is out of range", "1 to 1000000000"],
        ),
        (
            of(lines(LinesLoad { lines: 0, ..LinesLoad::default() })),
            &["workload.lines.lines: 0", "1 to 1000000"],
        ),
        (
            of(lines(LinesLoad { writes: u64::MAX, upgrades: 2, ..LinesLoad::default() })),
            &["workload.lines.writes", "0 to 100"],
        ),
        (
            of(Workload::Memory(MemoryLoad { slots: 1_000 })),
            &["workload.memory.slots: 1000", "1 to 28"],
        ),
        (
            of(Workload::Queue(QueueLoad { queues: 41, ..QueueLoad::default() })),
            &["workload.queue.queues: 41 queues cannot share 40 keys", "1 to 40"],
        ),
        (
            of(Workload::Txn(TxnLoad { hot: 13, ..TxnLoad::default() })),
            &["workload.txn.hot: 13 of 12 keys", "0 to 12"],
        ),
        (
            of(Workload::Txn(TxnLoad { scans: 90, ..TxnLoad::default() })),
            &["workload.txn: updates, inserts, deletes and scans make 145 of a hundred"],
        ),
        (
            faults(FaultPlan { deaths: u32::MAX, lapses: 1, ..FaultPlan::default() }),
            &["faults.deaths", "0 to 57"],
        ),
    ] {
        let error = scenario.check().expect_err("out of range").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
        assert!(!error.contains("line 1") && !error.contains('\n'), "{error}");
        let failure = run(&scenario).failure.expect("no such world");
        assert!(failure.text.contains(&error), "{failure}");
    }
}

/// The largest seed is valid, in a file as on a command line.
#[test]
fn a_seed_above_the_signed_integers_survives_being_written_and_read() {
    let scenario = Scenario { seed: u64::MAX, ..Scenario::default() };
    assert_eq!(scenario.check(), Ok(()));
    assert_eq!(Scenario::parse(&scenario.to_toml()), Ok(scenario));
}

#[test]
fn the_profile_of_a_nic_is_a_network() {
    for name in ["connectx3", "connectx5", "ethernet10g", "connectx5-stalling"] {
        let text = format!("network = \"{name}\"\ncompute_nodes = 4");
        let scenario = Scenario::parse(&text).expect("a good scenario");
        assert_eq!(run(&scenario).failure, None, "{name}");
    }
}
