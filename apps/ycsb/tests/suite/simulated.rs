//! The same program in virtual time: the same workloads and checks. Figures are virtual, and the
//! result follows from the command line alone.

use serde_json::Value;

use crate::YCSB;

/// The result document, the lines of YCSB, and the text for people.
struct Told {
    out: String,
    document: Value,
    err: String,
}

fn run(arguments: &str) -> Told {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("document");
    let arguments = format!("{arguments} --fabric sim --json {}", file.display());
    let ended = YCSB.checked(&arguments, &["operations", "records", "dataintegrity", "tree"]);
    let text = std::fs::read_to_string(&file).expect("a document");
    let document = serde_json::from_str(&text).expect("JSON");
    Told { out: ended.out, document, err: ended.err }
}

#[test]
fn workloads_a_to_f_are_right_under_both_protocols() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        for protocol in ["selcc", "sel"] {
            let arguments = format!(
                "check -w {workload} --protocol {protocol} --compute-nodes 3 --threads 2 --memory-nodes 2 \
                 --inflight 2 --cache-mb 0.5 -p recordcount=1000 --operations 1000 --load-by inserts"
            );
            let told = run(&arguments);
            if workload != "e" {
                assert_eq!(told.document["checks"]["linearizability"], "ok", "{arguments}");
            }
        }
    }
}

#[test]
fn workloads_are_right_in_every_step_between_two_trees() {
    for steps in [
        "--index fg",
        "--index fg-plus",
        "--index fg-plus --combine on",
        "--index fg-plus --combine on --lock-memory host",
        "--index fg-plus --combine on --lock-memory host --local-locks on",
        "--index sherman",
        "--index sherman --locks 1",
        "--index sherman --nic connectx5-chip --set chip-memory=1K",
    ] {
        for workload in ["a", "d", "e"] {
            run(&format!(
                "check -w {workload} {steps} --compute-nodes 3 --threads 2 --memory-nodes 2 \
                 --inflight 2 --cache-mb 0.5 -p recordcount=1000 --operations 1000 --load-by inserts"
            ));
        }
    }
}

#[test]
fn one_order_explains_reads_and_upserts_in_every_index() {
    for index in ["blink", "sherman", "fg-plus", "fg"] {
        let arguments = format!(
            "check -w write-intensive --index {index} --compute-nodes 3 --threads 2 --memory-nodes 2 \
             --inflight 2 --cache-mb 0.5 -p recordcount=1000 -p fieldlength=16 --operations 3000"
        );
        let told = run(&arguments);
        assert_eq!(told.document["checks"]["linearizability"], "ok", "{arguments}");
        assert!(
            told.document["latency_us"]["UPSERT"]["count"].as_u64() > Some(1000),
            "{arguments}"
        );
    }
}

#[test]
fn one_command_line_is_one_result_and_another_seed_another() {
    let shape = "run --compute-nodes 4 --threads 4 --inflight 1 --gcl-size 2048 --cache-mb 1 \
                 -p recordcount=20000 -p fieldcount=1 -p fieldlength=8 --time 0.002 --warmup 0.001";
    let (one, again) = (run(shape), run(shape));
    assert_eq!(one.document, again.document);
    assert_eq!(one.out, again.out);
    assert!(one.document["event_hash"].is_string() && one.err.contains("event hash"));
    let other = run(&format!("{shape} --seed 43"));
    assert_ne!(one.document["event_hash"], other.document["event_hash"]);
}

#[test]
fn times_and_rates_are_virtual() {
    let arguments = "run -w c --nic ethernet10g --compute-nodes 2 --threads 2 --inflight 1 --cache-mb 0.2 \
                     -p recordcount=20000 -p requestdistribution=uniform --time 0.05";
    let slow = run(arguments).document;
    assert_eq!(
        (&slow["config"]["fabric"], &slow["config"]["nic"]),
        (&"sim".into(), &"ethernet10g".into())
    );
    let elapsed = slow["elapsed_s"].as_f64().expect("seconds");
    assert!((0.0499..0.051).contains(&elapsed), "{elapsed}");
    let mean = |document: &Value| document["latency_us"]["READ"]["mean"].as_f64().expect("a mean");
    // A miss takes a round trip of the simulated network, whatever the speed of this machine.
    let fast = run(&arguments.replace("ethernet10g", "connectx5")).document;
    assert!(mean(&slow) > 40.0 && mean(&fast) < 10.0, "{} {}", mean(&slow), mean(&fast));
}

#[test]
fn a_target_is_kept_in_virtual_time() {
    let told = run(
        "run -w b -p recordcount=5000 --threads 2 --inflight 2 --target 200000 --time 0.02 --warmup 0.005",
    );
    let rate = told.document["throughput_ops_s"].as_f64().expect("a rate");
    assert!((190_000.0..210_000.0).contains(&rate), "{rate}");
    assert!(told.document["latency_us"]["Intended-READ"]["count"].as_u64() > Some(1000));
}

/// Bug: a run ended with its last operation, so that few operations had too high a rate.
#[test]
fn the_rate_is_of_the_whole_measured_time() {
    for (target, time, ops) in [("1000", "0.005", 5), ("100", "0.005", 1), ("0.1", "5", 1)] {
        let told = run(&format!(
            "run -w c -p recordcount=1000 --threads 1 --compute-nodes 1 --warmup 0 --target {target} --time {time}"
        ));
        let seconds: f64 = time.parse().expect("seconds");
        assert_eq!(told.document["ops"], ops, "{target} {time}");
        assert_eq!(told.document["elapsed_s"], seconds, "{target} {time}");
        assert_eq!(told.document["throughput_ops_s"], ops as f64 / seconds, "{target} {time}");
    }
}

#[test]
fn a_baseline_without_a_cache_pays_for_every_level_of_the_tree() {
    let run = |protocol: &str| {
        run(&format!(
            "run -w c --protocol {protocol} --compute-nodes 2 --threads 1 --inflight 1 --gcl-size 1024 \
             -p recordcount=20000 -p fieldcount=1 -p fieldlength=8 --time 0.01 --warmup 0.03"
        ))
    };
    let (selcc, sel) = (run("selcc"), run("sel"));
    let per_operation = |told: &Told, counter: &str| {
        let count = told.document["counters"][counter].as_f64().expect("a counter");
        count / told.document["ops"].as_f64().expect("operations")
    };
    let levels =
        sel.err.split_once(" levels").and_then(|(before, _)| before.split(' ').next_back());
    let levels: f64 = levels.and_then(|levels| levels.parse().ok()).expect("levels of the tree");
    assert!(levels >= 3.0);
    assert!(per_operation(&selcc, "cache_misses") < 0.2);
    // Each level costs one READ, with an operation on the word before it and another one after it.
    let close = |counter, expected: f64| (per_operation(&sel, counter) - expected).abs() < 0.1;
    assert!(close("verbs_read", levels), "{levels} {}", per_operation(&sel, "verbs_read"));
    assert!(close("verbs_faa", 2.0 * levels), "{levels} {}", per_operation(&sel, "verbs_faa"));
    let rate = |told: &Told| told.document["throughput_ops_s"].as_f64().expect("a rate");
    assert!(rate(&selcc) > levels * rate(&sel), "{} {}", rate(&selcc), rate(&sel));
}

#[test]
fn a_warm_up_until_steady_ends_when_caches_are_full() {
    let misses = |warmup: &str| {
        let told = run(&format!(
            "run -w c --threads 2 --inflight 1 --gcl-size 1024 --cache-mb 4 -p recordcount=20000 -p fieldcount=1 \
             -p fieldlength=8 -p requestdistribution=uniform --operations 2000 --warmup {warmup}"
        ));
        assert_eq!(told.document["ops"], 2000);
        told.document["counters"]["cache_misses"].as_u64().expect("a counter")
    };
    // The whole table fits each cache.
    let (cold, warm) = (misses("0"), misses("auto"));
    assert!(cold > 500 && warm < 40, "{cold} {warm}");
}

/// Bug: the throughput of YCSB A in the simulator fell from 1 to 8 compute nodes, and the result
/// did not say why: all nodes had one memory node. Fix: there are as many memory nodes as compute
/// nodes, and each result names its limit.
#[test]
fn a_scaling_curve_rises_and_each_result_names_its_limit() {
    let run = |flags: &str| {
        let shape =
            "run -w a --threads 8 --cache-mb 4 -p recordcount=20000 --time 0.004 --warmup 0.002";
        run(&format!("{shape} {flags}"))
    };
    let of = |told: &Told| {
        let document = &told.document;
        let limit = document["limit"].as_str().expect("a limit").to_owned();
        let line = format!("limit  {limit}");
        assert!(told.err.lines().any(|told| told == line), "{line}: {}", told.err);
        assert!(line.len() <= 80, "{line}");
        let nodes = document["config"]["memory_nodes"].as_u64().expect("a number");
        (document["throughput_ops_s"].as_f64().expect("a rate"), nodes, limit)
    };
    let (few, many) = (of(&run("--compute-nodes 2")), of(&run("--compute-nodes 8")));
    assert_eq!((few.1, many.1), (2, 8));
    assert!(many.0 > 1.2 * few.0, "{few:?} {many:?}");
    let narrow = of(&run("--compute-nodes 8 --memory-nodes 1"));
    assert!(narrow.0 < 0.8 * many.0, "{narrow:?} {many:?}");
    assert!(narrow.2.starts_with("NIC of M0 "), "{narrow:?}");
    // One worker that waits for each answer keeps no resource busy.
    let alone = of(&run("--compute-nodes 1 --threads 1 --inflight 1 --cache-mb 0.2"));
    assert!(alone.2.starts_with("waits: "), "{alone:?}");
}

/// A hand-over that writes back too costs the NIC, and no node waits for it.
#[test]
fn surviving_deaths_costs_workload_a_at_most_three_percent() {
    for nodes in [2, 8] {
        let throughput = |survive: &str| {
            let told = run(&format!(
                "run -w a --nic connectx3 --compute-nodes {nodes} --threads 2 \
                 -p recordcount=3000 --warmup 0.003 --time 0.003 --set survive={survive}"
            ));
            told.document["throughput_ops_s"].as_f64().expect("a rate")
        };
        let (off, on) = (throughput("off"), throughput("on"));
        assert!(on >= 0.97 * off, "{nodes} nodes: {on} of {off}");
        assert_ne!(on, off, "{nodes} nodes: nothing is written back");
    }
}
