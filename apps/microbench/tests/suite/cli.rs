//! The program from its users' view: accepted flags, output, and exit status.

use crate::MICROBENCH;

/// Flags for a run that ends within moments.
const SMALL: &str = "--lines 500 --operations 3000 --warmup 1000 --threads 2";

fn document(arguments: &str) -> serde_json::Value {
    MICROBENCH.document(arguments)
}

#[test]
fn help_has_the_flags_of_workload_and_cluster_and_no_setting() {
    let out = MICROBENCH.run("--help").out;
    for word in
        ["--sharing", "--theta", "--fabric", "--nic", "--protocol", "--set", "[default: 2048]"]
    {
        assert!(out.contains(word), "{word}: {out}");
    }
    for word in ["--locality", "--cache-share", "--evict-batch", "--series-us"] {
        assert!(!out.contains(word), "{word}: {out}");
    }
    assert!((10..=32).contains(&MICROBENCH.flags_of_help("--help")), "{out}");
    assert_eq!(MICROBENCH.run("--version").status, Some(0));
}

#[test]
fn help_of_settings_has_those_of_workload_cluster_and_protocol() {
    let out = MICROBENCH.run("--help-settings").out;
    for setting in ["locality=0", "cache-share=", "evict-batch=8", "series-us=none", "takeover=on"]
    {
        let start = format!("  {setting}");
        assert!(out.lines().any(|line| line.starts_with(&start)), "{setting}: {out}");
    }
}

#[test]
fn a_setting_on_the_command_line_needs_set_and_the_error_says_so() {
    let output = MICROBENCH.run(&format!("{SMALL} --evict-batch 1"));
    assert_eq!(output.status, Some(2));
    let told = "--evict-batch: evict-batch is a setting, not a flag; write --set evict-batch=1";
    assert_eq!(output.err, format!("microbench: {told}\n"));
}

#[test]
fn the_first_line_says_what_is_run() {
    let err = MICROBENCH.good(&format!("{SMALL} --inflight 3")).err;
    let first = err.split("\n\n").next().expect("a first line").replace("\n  ", " ");
    for word in
        ["2 workers each, 3 operations in flight", "500 lines", "warm-up of 1000 operations"]
    {
        assert!(first.contains(word), "{word}: {first}");
    }
}

#[test]
fn lines_for_scripts_stand_on_standard_output() {
    let out = MICROBENCH.good(SMALL).out;
    for line in [
        "[OVERALL], Throughput(ops/sec), ",
        "[READ], Operations, ",
        "[WRITE], 99thPercentileLatency(us), ",
        "[MEASURE], hit_ratio, ",
        "[MEASURE], jain_index, ",
        "[CHECK], contents, ok",
        "[CHECK], writes, ok",
        "[CHECK], linearizability, ok",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    let count = |kind: &str| -> u64 {
        let line = format!("[{kind}], Operations, ");
        let found = out.lines().find_map(|l| l.strip_prefix(&line)).expect("a count");
        found.parse().expect("a number")
    };
    assert_eq!(count("READ") + count("WRITE"), 3000, "as many operations as were asked for");
}

#[test]
fn the_document_is_complete() {
    let document =
        document(&format!("{SMALL} --fabric sim --theta 0.99 --set scale=10 --reads 50"));
    assert_eq!((&document["schema"], &document["app"]), (&1.into(), &"microbench".into()));
    assert_eq!(document["ops"], 3000);
    let config = &document["config"];
    assert_eq!((&config["fabric"], &config["nic"]), (&"sim".into(), &"connectx3".into()));
    assert_eq!((&config["theta"], &config["scale"]), (&0.99.into(), &10.into()));
    assert!(config["settings"]["evict-batch"].is_string());
    for measure in
        ["hit_ratio", "invalidation_share", "jain_index", "faa_per_op", "bytes_read_per_op"]
    {
        assert!(document["measures"][measure].as_f64() >= Some(0.0), "{measure}");
    }
    assert_eq!(document["checks"]["contents"], "ok");
    assert_eq!(document["checks"]["writes"], "ok");
    let nodes = document["nodes"].as_array().expect("nodes");
    let ops: u64 = nodes.iter().filter_map(|node| node["counters"]["ops"].as_u64()).sum();
    assert_eq!((nodes.len(), ops), (4, 3000));
    assert!(document["latency_us"]["WRITE"]["p99"].as_f64() > Some(0.0));
    assert!(document["event_hash"].as_str().is_some_and(|hash| hash.starts_with("0x")));
}

#[test]
fn in_virtual_time_the_same_flags_give_the_same_document() {
    let flags = format!("{SMALL} --fabric sim --compute-nodes 3 --set locality=30 --warmup auto");
    let first = document(&flags);
    assert_eq!(first, document(&flags));
    let other = document(&format!("{flags} --seed 43"));
    assert_ne!(first["event_hash"], other["event_hash"]);
}

#[test]
fn virtual_time_limits_a_run() {
    let document = document("--fabric sim --lines 500 --time 0.001 --warmup 0 --threads 1");
    let elapsed = document["elapsed_s"].as_f64().expect("seconds");
    // An access that begins in the measured time counts, and may end later. So the measured time
    // ends with the last access.
    assert!((0.001..0.0011).contains(&elapsed) && elapsed > 0.001, "{elapsed}");
}

#[test]
fn nodes_that_write_one_line_are_limited_by_its_latch_word() {
    let limit = |flags: &str| {
        let flags = format!(
            "--fabric sim --reads 0 --operations 5000 --threads 2 --compute-nodes 4 {flags}"
        );
        document(&flags)["limit"].as_str().expect("a limit").to_owned()
    };
    let one = limit("--lines 1");
    assert!(one.starts_with("latch word of one line at M"), "{one}");
    let many = limit("--lines 4000");
    assert!(!many.starts_with("latch word"), "{many}");
}

#[test]
fn a_warm_up_goes_on_until_the_hit_ratio_is_steady() {
    let flags = "--fabric sim --lines 2000 --operations 5000 --set cache-share=0.5 --reads 100";
    let warm = document(flags);
    assert!(warm["measures"]["warm_up_windows"].as_f64() >= Some(3.0));
    let cold = document(&format!("{flags} --warmup 0"));
    assert_eq!(cold["measures"]["warm_up_windows"], 0.0);
    let of = |document: &serde_json::Value, name: &str| {
        document["measures"][name].as_f64().expect("a measure")
    };
    // Half of the lines fit into the cache, and all nodes can share lines that they only read.
    let ratio = of(&warm, "hit_ratio");
    assert!((0.45..0.53).contains(&ratio), "{ratio}");
    // The node that filled a line owns the line until another node reads it for the first time.
    assert_eq!(of(&warm, "invalidation_share"), 0.0);
    assert!(of(&cold, "invalidation_share") > 0.05);
}

#[test]
fn a_series_has_the_operations_of_each_node_so_far() {
    let flags = format!("{SMALL} --fabric sim --set writer-nodes=1 --theta 10 --set series-us=20");
    let document = document(&flags);
    let nodes = document["nodes"].as_array().expect("nodes");
    for node in nodes.iter().filter(|node| node["role"] == "compute") {
        let series: Vec<u64> = serde_json::from_value(node["series"].clone()).expect("a series");
        assert!(series.len() > 1 && series.is_sorted(), "{series:?}");
        assert_eq!(series.last(), node["counters"]["ops"].as_u64().as_ref());
    }
    assert!(document["latency_us"]["READ"]["count"].as_u64() > Some(0));
    assert!(document["latency_us"]["WRITE"]["count"].as_u64() > Some(0));
}

#[test]
fn the_baseline_caches_nothing_and_locality_is_hits_of_the_other() {
    let flags = "--fabric sim --lines 2000 --operations 5000 --set locality=50 --reads 100";
    let hits = |protocol: &str| {
        let document = document(&format!("{flags} --protocol {protocol}"));
        document["measures"]["hit_ratio"].as_f64().expect("a ratio")
    };
    assert!(hits("selcc") > 0.5);
    assert!(hits("sel") < 0.05);
}

#[test]
fn what_cannot_be_is_one_line_and_leaves_nothing_behind() {
    MICROBENCH.refuses(&[
        ("--compute-nodes 0", 2, &["--compute-nodes", "1 to 58"]),
        ("--lines 0", 2, &["--lines", "from 1"]),
        ("--item-size 12", 2, &["--item-size 12", "multiple of 8"]),
        ("--item-size 4096", 2, &["--item-size 4096", "up to 20"]),
        ("--reads 120", 2, &["--reads", "0 to 100"]),
        ("--theta x", 2, &["--theta", "0 to 100"]),
        ("--cache-mb 0.001", 2, &["--cache-mb 0.001", "or more"]),
        ("--cache-mb 1 --set cache-share=0.5", 2, &["--set cache-share", "cache-mb"]),
        ("--set writer-nodes=3", 2, &["3 nodes that write", "2 nodes"]),
        ("--lines 3 --sharing 10", 2, &["3 lines", "use more"]),
        ("--nic connectx5", 2, &["--nic connectx5", "--fabric sim"]),
        ("--fabric sim --nic /nowhere/nic.toml", 2, &["--nic", "connectx3"]),
        ("--set pause=2d", 2, &["--set pause=2d: use"]),
        ("--memory-mb 1", 2, &["--memory-mb 1", "at least"]),
        ("--memory-mb 16 --lines 100000", 1, &["memory exhausted", "--memory-mb 16", "use"]),
    ]);
    let output = MICROBENCH.run(&format!("{SMALL} --json /nowhere/result.json"));
    assert_eq!(output.status, Some(2));
    assert!(output.err.contains("its directory does not exist"));
}
