//! The program from its users' view: accepted flags, output, and exit status.

use crate::SIM;
use crate::common::{directory, sim, text};

/// Flags for a world that ends within moments.
const SMALL: &str =
    "--workload lines --compute-nodes 3 --threads 1 --inflight 2 --operations 20 --nic rough";

fn value<'a>(out: &'a str, key: &str) -> &'a str {
    let line = out.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{out}"));
    line[key.len()..].trim()
}

#[test]
fn help_describes_the_commands() {
    let out = text(&sim("--help").stdout) + &text(&sim("run --help").stdout);
    for word in ["run", "hunt", "shrink", "--seed", "--scenario", "--faults", "--nic", "--diagram"]
    {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert!(sim("--version").status.success());
}

/// Bug: two outputs, or an output and the scenario, had the same file, and the later one replaced
/// the earlier one with exit status 0.
#[test]
fn one_file_under_two_flags_is_refused_before_any_work() {
    let directory = directory("one-file");
    let (scenario, out) = (directory.join("s.toml"), directory.join("out"));
    let printed = sim(&format!("run --seed 9 {SMALL} --print-scenario")).stdout;
    std::fs::write(&scenario, &printed).expect("written");
    let (name, out, dotted) =
        (scenario.display(), out.display(), directory.join("./out").display().to_string());
    for (arguments, first, second) in [
        (format!("--scenario {name} --json {name}"), "--scenario", "--json"),
        (format!("--json {out} --log {out}"), "--json", "--log"),
        (format!("--diagram {out} --log {dotted}"), "--log", "--diagram"),
        ("--json - --log -".to_owned(), "--json -", "--log -"),
        ("--diagram - --log /dev/stdout".to_owned(), "--log /dev/stdout", "--diagram -"),
    ] {
        let told = sim(&format!("run {SMALL} {arguments}"));
        let err = text(&told.stderr);
        assert_eq!(told.status.code(), Some(2), "{arguments}: {err}");
        let named = err.contains(first) && err.contains(second);
        assert!(named && err.lines().count() == 1, "{arguments}: {err}");
        assert_eq!(std::fs::read(&scenario).expect("it is there"), printed);
        assert!(!directory.join("out").exists(), "{arguments}");
    }
}

#[test]
fn the_faults_of_a_world_fit_a_terminal() {
    for seed in 1..=8 {
        let out = text(&sim(&format!("run --seed {seed} --operations 3")).stdout);
        let longest = out.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{out}");
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    let runs: Vec<String> = ["7", "7", "8"]
        .into_iter()
        .map(|seed| {
            let output = sim(&format!("run --seed {seed}"));
            assert!(output.status.success(), "{}", text(&output.stdout));
            value(&text(&output.stdout), "event hash").to_owned()
        })
        .collect();
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[test]
fn a_world_is_the_same_from_flags_from_a_file_and_with_a_log() {
    let directory = directory("same");
    let flags = format!("run --seed 9 {SMALL} --faults delay=1/20,repeat=1/30");
    let plain = text(&sim(&flags).stdout);
    let file = directory.join("scenario.toml");
    let scenario = text(&sim(&format!("{flags} --print-scenario")).stdout);
    std::fs::write(&file, scenario).expect("written");
    let (log, picture) = (directory.join("events.log"), directory.join("diagram.mmd"));
    let (file, log, picture) = (file.display(), log.display(), picture.display());
    let told = sim(&format!("run --scenario {file} --log {log} --diagram {picture}"));
    let out = text(&told.stdout);
    assert!(told.status.success(), "{out}");
    for key in ["world", "event hash", "operations", "faults", "checks"] {
        assert_eq!(value(&out, key), value(&plain, key));
    }
    let log = std::fs::read_to_string(directory.join("events.log")).expect("a log");
    for words in ["post  #", "AcquireExclusive + READ", "grant", "FAULT: delayed by", "C3.0"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let picture = std::fs::read_to_string(directory.join("diagram.mmd")).expect("a diagram");
    assert!(picture.starts_with("sequenceDiagram\n    participant C1\n"), "{picture}");
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_world_is_the_same_whether_it_is_checked_or_not() {
    let hash = |more: &str| {
        let output = sim(&format!("run --seed 5 {SMALL} --protocol selcc --gcl-size 2048 {more}"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        value(&text(&output.stdout), "event hash").to_owned()
    };
    let all = hash("");
    assert_eq!(hash("--checks end"), all);
    assert_eq!(hash("--checks none"), all);
    assert_eq!(hash("--checks none --elide-payloads"), all);
}

#[test]
fn every_offered_size_of_a_line_runs() {
    let directory = directory("sizes");
    for size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        let flags = format!("run --seed 1 --gcl-size {size} --operations 20");
        let output = sim(&flags);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{size}: {out}{err}");
        // The output folds long lines, so the test joins the words.
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("frames of {size} bytes")), "{out}");
        let file = directory.join("scenario.toml");
        let scenario = text(&sim(&format!("{flags} --print-scenario")).stdout);
        std::fs::write(&file, scenario).expect("written");
        let again = sim(&format!("run --scenario {}", file.display()));
        assert_eq!(value(&text(&again.stdout), "event hash"), value(&out, "event hash"));
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_log_and_a_diagram_can_be_of_one_line() {
    let flags = format!("run --seed 9 {SMALL} --memory-nodes 1 --log -");
    let all = text(&sim(&flags).stdout);
    let mut named = all.lines().filter_map(|line| line.split_once("line ")?.1.split(' ').next());
    let name = format!("line {}", named.next_back().expect("a line"));
    let flags = format!("{flags} --about");
    let output = sim_with(&flags, &name);
    let out = text(&output.stdout);
    let (_, log) = out.split_once(" what\n").expect("a log behind the report");
    assert!(log.lines().count() > 20, "{out}");
    let about = |line: &str| line.contains(&format!("{name} ")) || line.contains(" * ");
    assert!(log.lines().all(about), "{log}");
    let output = sim_with(&flags, "line 4711");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("\"line 4711\": no such line was seen"));
}

fn sim_with(arguments: &str, last: &str) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sim"));
    command.args(arguments.split_whitespace()).arg(last).output().expect("the program starts")
}

#[test]
fn the_document_is_complete_and_alone_on_standard_output() {
    let out = text(&sim(&format!("run --seed 3 {SMALL} --faults delay=1/5 --json -")).stdout);
    let document: serde_json::Value = serde_json::from_str(&out).expect("nothing but JSON");
    assert_eq!((&document["schema"], &document["app"]), (&1.into(), &"sim".into()));
    assert_eq!(document["config"]["compute_nodes"], 3);
    assert_eq!(document["config"]["faults"]["delay_one_in"], 5);
    assert_eq!(document["checks"]["world"], "ok");
    assert!(document["event_hash"].as_str().is_some_and(|hash| hash.starts_with("0x")));
    for counter in ["events", "verbs", "virtual_time_ns", "fault_delayed"] {
        assert!(document["counters"][counter].as_u64() > Some(0), "{counter}: {out}");
    }
    let out = text(&sim("hunt --worlds 5 --from-seed 20 --time 60 --compute-nodes 2 --workload lines --nic calm --protocol selcc --faults none --json -").stdout);
    let document: serde_json::Value = serde_json::from_str(&out).expect("nothing but JSON");
    assert_eq!(document["config"]["from_seed"], 20);
    assert_eq!(document["counters"]["worlds"], 5);
    assert_eq!(document["counters"]["worlds_lines"], 5);
    assert_eq!(document["checks"]["worlds"], "ok");
}

/// Bug: a hunt that was stopped printed nothing of what it had run.
#[test]
fn a_hunt_that_is_stopped_says_what_it_ran_and_where_to_go_on() {
    let mut running = SIM.start(&format!("hunt --from-seed 100 --time 600 --jobs 1 {SMALL}"));
    running.follow(|line| line.contains("hunt: from seed 100, "));
    running.signal("INT");
    let ended = running.end();
    ended.assert_good("a hunt that is stopped");
    let number = |of: &str, before: &str| -> Option<u64> {
        let (_, rest) = ended.out.split_once(of)?;
        rest.split_once(before)?.0.trim().parse().ok()
    };
    let worlds = number("worlds      ", ":").expect("how many worlds");
    let next = number("stopped     by SIGINT; go on with --from-seed ", "\n");
    assert_eq!(next, Some(100 + worlds), "{}", ended.out);
}

#[test]
fn a_hunt_that_finds_nothing_says_what_it_ran() {
    let output = sim(&format!(
        "hunt --worlds 12 --from-seed 100 --time 60 {SMALL} --protocol selcc --faults pause=2 --jobs 2"
    ));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(value(&out, "worlds").starts_with("12: "), "{out}");
    assert!(value(&out, "worlds").contains("seeds 100 to 111"), "{out}");
    assert_eq!(value(&out, "workloads"), "lines 12");
    assert_eq!(value(&out, "faults"), "pauses 24");
    assert_eq!(value(&out, "checks"), "ok: no world failed");
    assert!(err.contains("hunt: from seed 100, 2 worlds at a time"), "{err}");
}

#[test]
fn what_cannot_be_is_one_line() {
    let directory = directory("wrong");
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let key = put("key.toml", "seed = 4\n\ncompute_notes = 3\n");
    let range = put("range.toml", "seed = 4\ncompute_nodes = 80\n");
    let toml = put("toml.toml", "seed = 4\n[workload.lines\n");
    let sense = put("sense.toml", "compute_nodes = 2\n[faults]\ndeaths = 2\n");
    let profile = put("profile.toml", "name = \"x\"\nlink_speed = \"fast\"\n");
    let lost = directory.join("lost").join("events.log").display().to_string();
    for (arguments, words) in [
        (format!("run --scenario {key}"), &["key.toml", "line 3", "compute_notes"][..]),
        (format!("run --scenario {range}"), &["range.toml", "line 2", "compute_nodes", "1 to 58"]),
        (format!("run --scenario {toml}"), &["toml.toml", "line 2"]),
        (format!("shrink {sense}"), &["sense.toml", "line 3", "deaths"]),
        ("run --scenario /nowhere/at-all.toml".to_owned(), &["/nowhere/at-all.toml"]),
        (format!("run --nic {profile}"), &["profile.toml:2:", "link_speed"]),
        ("run --nic token-ring".to_owned(), &["--nic", "token-ring", "rough"]),
        ("run --compute-nodes 2 --faults kill=2".to_owned(), &["deaths", "0 to 1"]),
        ("run --faults delay=5".to_owned(), &["delay=5", "delay=1/5"]),
        ("run --elide-payloads".to_owned(), &["elide_payloads", "checks = \"none\""]),
        ("run --sead 5".to_owned(), &["--sead", "--seed"]),
        (format!("run --log {lost}"), &["--log", "events.log", "directory does not exist"]),
        (format!("run --diagram {lost}"), &["--diagram", "lost first"]),
        (format!("hunt --time 5 --out {key}"), &["--out", "key.toml is no directory"]),
        (format!("shrink --seed 7 --out {key}"), &["--out", "key.toml is no directory"]),
        ("run --json /nowhere/r.json".to_owned(), &["--json", "directory does not exist"]),
        ("hunt --plant weeds".to_owned(), &["--plant", "no-settling"]),
        ("hunt --time 5 --compute-nodes 2 --faults kill=2".to_owned(), &["deaths", "0 to 1"]),
        (format!("shrink --seed 7 {SMALL} --faults none"), &["seed 7", "nothing to shrink"]),
        (String::new(), &["say what to do", "hunt"]),
    ] {
        let output = sim(&arguments);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {err}");
        let last = err.trim_end().lines().last().unwrap_or_default();
        assert_eq!(err.trim_end().lines().count(), 1, "{arguments}: {err}");
        assert!(last.starts_with("sim: "), "{arguments}: {err}");
        assert!(words.iter().all(|word| last.contains(word)), "{arguments}: {err}");
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn files_are_bounded_never_waited_for_and_never_replaced_by_another_kind() {
    let directory = directory("kinds");
    let path = |name: &str| directory.join(name).display().to_string();
    let made = std::process::Command::new("mkfifo").arg(path("fifo")).status();
    assert!(made.expect("coreutils").success());
    for (arguments, problem) in [
        (format!("--scenario {}", path("fifo")), "no process has it open for writing"),
        (
            "--scenario /dev/zero".to_owned(),
            "it is larger than 1 MiB, the most that a scenario may",
        ),
        ("--nic /dev/zero".to_owned(), "it is larger than 1 MiB, the most that a NIC profile may"),
        (format!("--log {}", path("fifo")), "no process has it open for reading"),
        (format!("--diagram {}", path("fifo")), "no process has it open for reading"),
        (format!("--json {}", path("fifo")), "no process has it open for reading"),
    ] {
        let output = sim(&format!("run {SMALL} {arguments}"));
        let err = text(&output.stderr);
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{arguments}: {err}");
        assert!(err.contains(problem), "{arguments}: {err}");
    }
    let (target, link) = (directory.join("target"), directory.join("link"));
    std::fs::write(&target, "old").expect("written");
    std::os::unix::fs::symlink("target", &link).expect("a link");
    assert!(sim(&format!("run {SMALL} --log {}", link.display())).status.success());
    assert!(link.is_symlink() && std::fs::metadata(&target).expect("it is there").len() > 100);
    std::fs::remove_dir_all(&directory).expect("it is there");
}

#[test]
fn a_scenario_may_have_an_editors_mark_and_no_key_twice() {
    let directory = directory("mark");
    let file = directory.join("scenario.toml");
    let scenario = sim(&format!("run --seed 9 {SMALL} --print-scenario")).stdout;
    std::fs::write(&file, [b"\xef\xbb\xbf", &*scenario].concat()).expect("written");
    let run = format!("run --scenario {}", file.display());
    let plain = text(&sim(&format!("run --seed 9 {SMALL}")).stdout);
    assert_eq!(value(&text(&sim(&run).stdout), "event hash"), value(&plain, "event hash"));
    let scenario = text(&scenario).replacen("seed = 9\n", "seed = 9\nseed = 8\n", 1);
    std::fs::write(&file, scenario).expect("written");
    let err = text(&sim(&run).stderr);
    assert!(err.contains("duplicate key") && err.contains("line 2"), "{err}");
    std::fs::remove_dir_all(&directory).expect("it is there");
}

#[test]
fn what_is_printed_of_worlds_fits_a_terminal() {
    let faults = "--faults delay=1/20,repeat=1/30,pause=2,delay-us=2ms --gcl-size 1K";
    for arguments in [
        format!("run --seed 9 {SMALL} {faults}"),
        format!("hunt --time 60s --worlds 5 --jobs 1 --from-seed 1 {SMALL}"),
        "calibrate --nic connectx5".to_owned(),
    ] {
        let output = sim(&arguments);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{arguments}: {out}{}", text(&output.stderr));
        let wide: Vec<_> = out.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, [""; 0], "{arguments}");
    }
}
