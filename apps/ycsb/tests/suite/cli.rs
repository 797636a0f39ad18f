//! The program from its users' view: accepted flags, output, and exit status.

use crate::YCSB;

/// Flags for a cluster that starts within moments.
const SMALL: &str = "--cache-mb 8 -p recordcount=2000 --operations 2000 --threads 1";

#[test]
fn help_describes_the_commands() {
    let out = YCSB.run("--help").out;
    for word in ["load", "run", "check", "--protocol", "--gcl-size", "-P", "linearizability"] {
        let all = out.clone() + &YCSB.run("check --help").out;
        assert!(all.contains(word), "{word}: {all}");
    }
    assert!(YCSB.run("--version").status == Some(0));
}

#[test]
fn help_shows_few_flags_and_another_help_the_settings() {
    for arguments in ["--help", "run --help"] {
        let out = YCSB.run(arguments).out;
        assert!((10..=32).contains(&YCSB.flags_of_help(arguments)), "{arguments}: {out}");
        assert!(out.contains("--help-settings") && !out.contains("--evict-batch"), "{out}");
    }
    let out = YCSB.run("--help-settings").out;
    assert!(out.lines().any(|line| line == "  evict-batch=8"), "{out}");
}

#[test]
fn lines_of_ycsb_stand_on_standard_output() {
    let out = YCSB.checked(SMALL, &["tree"]).out;
    for line in [
        "[OVERALL], RunTime(ms), ",
        "[OVERALL], Throughput(ops/sec), ",
        "[READ], Operations, ",
        "[READ], 99.9PercentileLatency(us), ",
        "[UPDATE], Return=OK, ",
        "[CHECK], records, ok",
        "[CHECK], dataintegrity, ok",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    let count = |kind: &str| -> u64 {
        let line = format!("[{kind}], Operations, ");
        let found = out.lines().find_map(|l| l.strip_prefix(&line)).expect("a count");
        found.parse().expect("a number")
    };
    assert_eq!(count("READ") + count("UPDATE"), 2000, "as many operations as were asked for");
}

/// The operations that a status line has of all kinds in its interval, and those since the begin.
fn status(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once(" sec")?;
    let (so_far, kinds) = rest.split_once(": ")?.1.split_once(" operations; ")?;
    assert!(kinds.contains(" current ops/sec;"), "{line}");
    let counts = kinds.split("Count=").skip(1);
    let counts = counts.map(|kind| kind.split([',', ']']).next().expect("a count"));
    let counts = counts.map(|count| count.parse::<u64>().expect("a number"));
    Some((counts.sum(), so_far.parse().expect("a number")))
}

#[test]
fn status_lines_have_the_rate_and_the_latencies_of_each_interval() {
    let sim = "--fabric sim --warmup 0.001 -p status.interval=1ms --time";
    for (flags, time) in [
        ("-s --warmup 0.1 -p status.interval=400ms --time 1".to_owned(), " sec: "),
        ("-s --warmup auto -p status.interval=400ms --time 1".to_owned(), " sec: "),
        (format!("-p status=true {sim} 3ms"), " sec of virtual time: "),
    ] {
        let flags = format!("--cache-mb 8 -p recordcount=2000 --threads 1 {flags}");
        let ended = YCSB.checked(&flags, &["tree"]);
        let lines: Vec<&str> = ended.err.lines().filter(|line| status(line).is_some()).collect();
        assert!(lines.len() >= 2, "{flags}: {}", ended.err);
        let mut so_far = 0;
        for line in &lines {
            assert!(line.contains(time) && line.contains("[READ: Count="), "{line}");
            assert!([" Max=", " Avg=", " 99.99="].iter().all(|part| line.contains(part)), "{line}");
            let (new, all) = status(line).expect("filtered");
            so_far += new;
            assert_eq!(all, so_far, "{line}");
        }
        let all = ["READ", "UPDATE"].map(|kind| {
            let count = format!("[{kind}], Operations, ");
            let found = ended.out.lines().find_map(|line| line.strip_prefix(&count));
            found.expect("a count").parse::<u64>().expect("a number")
        });
        assert_eq!(so_far, all.iter().sum::<u64>(), "the lines have each operation once");
    }
    let load = YCSB.checked(&format!("load -s {SMALL}"), &["tree"]).err;
    let last = load.lines().rfind(|line| status(line).is_some()).expect("a line");
    assert!(last.contains("2000 operations;") && last.contains("[INSERT: Count="), "{last}");
    let none = YCSB.checked(&format!("{SMALL} -p status.interval=1ms"), &["tree"]).err;
    assert!(none.lines().all(|line| status(line).is_none()), "{none}");
    let refused = YCSB.run("-s -p status.interval=0");
    assert_eq!(refused.status, Some(2), "{}", refused.err);
    assert!(refused.err.contains("`status.interval=0`: must be above 0"), "{}", refused.err);
}

#[test]
fn an_agent_counts_at_its_memory_node_and_has_flags() {
    let flags = format!("{SMALL} --fabric sim --protocol scalestore");
    let document = |more: &str| YCSB.document(&format!("{flags} {more}"));
    let counted = |document: &serde_json::Value| -> (u64, u64) {
        let nodes = document["nodes"].as_array().expect("nodes");
        let of = |role: &str| -> u64 {
            let nodes = nodes.iter().filter(|node| node["role"] == role);
            nodes.map(|node| node["counters"]["messages"].as_u64().expect("a count")).sum()
        };
        assert_eq!(document["counters"]["messages"], of("compute") + of("memory"));
        (of("memory"), of("compute"))
    };
    let on = document("--chaining on");
    assert_eq!(on["config"]["settings"]["chaining"], "on");
    assert!(counted(&on).0 > 0, "{:?}", counted(&on));
    for setting in ["--chaining fifo", "--chaining polling"] {
        assert_ne!(counted(&document(setting)), counted(&on), "{setting}");
    }
    let slow = document("--home-share 5");
    assert!(slow["throughput_ops_s"].as_f64() < on["throughput_ops_s"].as_f64());
    for (flags, line) in [
        ("--protocol selcc --chaining on", "--chaining on: selcc has no setting chaining: use"),
        ("--protocol gam --reader-takes move", "use scalestore, or leave it out"),
        ("--protocol sel --home-cores 2", "use gam or scalestore, or leave it out"),
        ("--protocol gam --home-cores 0", "use a whole number from 1 to 255"),
        ("--protocol gam --home-share 50", "leave it out, or use --fabric sim"),
    ] {
        let refused = YCSB.run(&format!("run {SMALL} {flags}"));
        assert_eq!(refused.status, Some(2), "{flags}: {}", refused.err);
        assert!(refused.err.contains(line) && refused.err.lines().count() == 1, "{}", refused.err);
    }
}

#[test]
fn loading_is_measured_as_inserts() {
    let out = YCSB.checked(&format!("load {SMALL}"), &["tree"]).out;
    assert!(out.contains("[INSERT], Operations, 2000\n"), "{out}");
    let bulk = YCSB.checked(&format!("load --load-by bulk {SMALL}"), &["tree"]).out;
    assert!(bulk.contains("[OVERALL], Throughput(ops/sec), "), "{bulk}");
}

#[test]
fn a_check_also_looks_for_an_order_that_explains_everything() {
    for workload in ["a", "f"] {
        let arguments = format!("check -w {workload} {SMALL} --operations 20000");
        YCSB.checked(&arguments, &["tree", "linearizability"]);
    }
}

#[test]
fn the_document_is_complete_and_alone_on_standard_output() {
    let document = YCSB.document(&format!("-w f {SMALL}"));
    assert_eq!(document["schema"], 1);
    assert_eq!(document["app"], "ycsb");
    assert_eq!(document["ops"], 2000);
    assert_eq!(document["config"]["requestdistribution"], "scrambled-zipfian");
    assert_eq!(document["checks"]["readmodifywrite"], "ok");
    assert_eq!(document["nodes"].as_array().map(Vec::len), Some(3));
    assert!(document["latency_us"]["READ-MODIFY-WRITE"]["p99"].as_f64() > Some(0.0));
    assert!(document["counters"]["cache_hits"].as_u64() > Some(0));
    assert!(document["load"]["throughput_ops_s"].as_f64() > Some(0.0));
}

#[cfg(target_os = "linux")]
#[test]
fn the_document_says_what_each_worker_had_of_the_cores() {
    // The system counts the CPU time of a running thread at clock ticks, so the run takes many
    // ticks.
    let flags = "--compute-nodes 2 --threads 2 --operations 100000";
    let document = YCSB.document(&format!("{SMALL} {flags}"));
    let conditions = &document["conditions"];
    assert_eq!(conditions["machines"].as_array().map(Vec::len), Some(1), "{conditions}");
    let workers = conditions["workers"].as_array().expect("workers");
    let index = |worker: &serde_json::Value| (worker["node"].as_u64(), worker["worker"].as_u64());
    let indexes: Vec<_> = workers.iter().map(index).collect();
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(n, w)| (Some(n), Some(w)));
    assert_eq!(indexes, expected, "{conditions}");
    for worker in workers {
        let part = |name: &str| worker[name].as_f64().expect("a number");
        // The clock and the counters of the thread are not read at the same moment.
        let most = 1.1 * part("elapsed_s") + 0.1;
        assert!(0.0 < part("cpu_s") && part("cpu_s") <= most, "{worker}");
        assert!((0.0..=most).contains(&part("run_delay_s")), "{worker}");
    }
}

#[test]
fn a_target_is_kept_and_measured_from_intended_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("target.json");
    let arguments = format!(
        "-w c --cache-mb 8 -p recordcount=2000 --target 2000 --time 1 --warmup 0.1 --json {}",
        file.display()
    );
    let out = YCSB.checked(&arguments, &["tree"]).out;
    assert!(out.contains("[Intended-READ], Operations, "), "{out}");
    let written = std::fs::read_to_string(&file).expect("a document");
    let document: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    let ops = document["ops"].as_u64().expect("a number");
    assert!((1500..=2001).contains(&ops), "{ops} operations in a second at 2000 per second");
}

/// Bug: a run that could have inserted more than the machine's memory was refused before it began.
#[test]
fn inserts_until_the_memory_is_full_end_with_results_and_with_what_would_do() {
    let inserts = "-p readproportion=0 -p updateproportion=0 -p insertproportion=1";
    let flags = "-p recordcount=1000 --cache-mb 8 --threads 1 --warmup 0 --time 100h";
    for fabric in ["shm", "tcp"] {
        let ended = YCSB.run_within(130, &format!("{flags} {inserts} --fabric {fabric}"));
        assert_eq!(ended.status, Some(1), "{ended:?}");
        let last = ended.last();
        assert!(
            last.starts_with("ycsb: memory exhausted after ") && last.ends_with("--time"),
            "{last}"
        );
        assert!(last.contains(" operations: ") && last.contains("the data segment"), "{last}");
        assert!(!last.contains("--memory-mb"), "{last}");
        for line in ["[INSERT], Operations, ", "[CHECK], records, ok", "[CHECK], tree, ok"] {
            assert!(ended.out.contains(line), "{line}: {ended:?}");
        }
    }
}

/// Bug: the program was killed in its load where it had less memory than the records need.
#[test]
fn records_without_room_are_refused_before_the_load() {
    let flags = "-p recordcount=1000000 --cache-mb 8";
    for command in ["run", "load"] {
        let ended = YCSB.run_within(300, &format!("{command} {flags}"));
        assert_eq!((ended.status, ended.err.lines().count()), (Some(2), 1), "{ended:?}");
        let last = ended.last();
        assert!(last.starts_with("ycsb: 1000000 records need about "), "{last}");
        assert!(
            last.contains("limited, with 2") && last.contains("use a lower recordcount"),
            "{last}"
        );
    }
}

#[test]
fn what_cannot_be_is_one_line_and_leaves_nothing_behind() {
    YCSB.refuses(&[
        ("--compute-nodes 0", 2, &["--compute-nodes", "1 to 58"]),
        ("--compute-nodes 59", 2, &["--compute-nodes", "1 to 58"]),
        ("--memory-nodes 0", 2, &["--memory-nodes", "1 to 1024"]),
        ("--gcl-size 3000", 2, &["--gcl-size", "power of two"]),
        ("--gcl-size 1024", 2, &["--gcl-size 1024", "--gcl-size 4096"]),
        ("--cache-mb 0.01", 2, &["--cache-mb 0.01", "or more"]),
        ("-p recordcuont=10", 2, &["recordcuont", "`recordcount`"]),
        ("-p requestdistribution=normal", 2, &["requestdistribution=normal", "uniform"]),
        ("-P /nowhere/file", 2, &["/nowhere/file"]),
        ("--memory-mb 16 -p recordcount=100000", 1, &["memory exhausted", "--memory-mb 16", "use"]),
        ("load --memory-mb 16 -p recordcount=100000", 1, &["memory exhausted", "--memory-mb 16"]),
    ]);
}
