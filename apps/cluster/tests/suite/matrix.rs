//! A matrix of experiments, and its table.

use std::path::Path;

use serde_json::Value;

use crate::common;
use crate::common::Place;

const MATRIX: &str = "
title = 'Stand-ins'
bin = '.'
program = 'program'
memory-nodes = 2
grace = 0
[[cases]]
fabric = ['shm', 'tcp']
arguments = ['good', 'fails']
[[cases]]
fabric = 'tcp'
arguments = 'unsound'
repeat = 2
";

fn matrix(place: &Place, text: &str, flags: &str) -> common::Ended {
    std::fs::write(place.path("some.toml"), text).expect("a file");
    place.start(&format!("matrix some.toml {flags}")).wait()
}

/// Whether a program of some case has written that it has begun.
fn has_begun(place: &Place) -> bool {
    let entries = std::fs::read_dir(place.path("all")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path().join("1/C1.err"))
        .any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("begun")))
}

#[test]
fn it_ends_in_one_table_in_which_failures_are_failures() {
    let place = Place::new();
    let ended = matrix(&place, MATRIX, "--results all");
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    assert_eq!(ended.out, place.read("all/table.md"));
    let lines: Vec<_> = ended.out.lines().collect();
    assert_eq!(lines[..2], ["# Stand-ins", ""]);
    assert_eq!(
        lines[4..6],
        [
            "| program | shm | good | 10 | READ | 1.5 | 2.5 | 1 ok | 1 good |",
            "| program | shm | fails | - | - | - | - | - | **FAILED**, 0 of 1 good: C2 ended with status 3: program: it broke |"
        ]
    );
    assert!(
        lines[8].contains("| **FAILED**: sum | **FAILED**, 0 of 2 good: checks failed |"),
        "{}",
        lines[8]
    );
    assert!(
        ended.err.ends_with("cluster: 4 of 6 runs have no good result; all of it is in all\n"),
        "{}",
        ended.err
    );

    let csv = place.read("all/table.csv");
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(csv.contains("program,shm,good,1,true,0,,1,10,10,READ,1.5,2.5,1,,unknown\n"), "{csv}");
    let json: Value = serde_json::from_str(&place.read("all/table.json")).expect("JSON");
    assert_eq!(json["cases"][0]["runs"][0]["document"]["ops"], 10);
    assert_eq!(json["cases"][1]["runs"][0]["run"]["status"], 3);
    assert_eq!(json["cases"][4]["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_table_that_is_wider_than_a_terminal_is_a_list_there() {
    let place = Place::new();
    matrix(&place, MATRIX, "--results all");
    let mut command = std::process::Command::new(common::CLUSTER);
    command.args(["matrix", "some.toml", "--results", "all", "--table"]);
    command.current_dir(place.directory.path());
    let (_, text) = latchwork_processes::shown(command, common::LIMIT);
    assert_eq!(latchwork_processes::too_wide(&text), [""; 0]);
    let case = "program shm good\n  10 operations/s; READ p50 1.5 us, p99 2.5 us\n  checks 1 ok; runs 1 good\n";
    assert!(text.contains(case), "{text}");
    assert!(text.contains("0 of 1 good: C2 ended with status 3"), "{text}");
}

#[test]
fn a_file_of_experiments_or_of_hosts_is_one_whatever_an_editor_puts_before_it() {
    let place = Place::new();
    let text = format!("\u{feff}{MATRIX}");
    let ended = matrix(&place, &text, "--results all --dry-run");
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let ended = matrix(&place, &MATRIX.replace("grace = 0", "grace = 0\ngrace = 1"), "--dry-run");
    assert!(ended.err.contains("line 7: duplicate key"), "{}", ended.err);
    let spelt =
        MATRIX.replace("grace = 0", "grace = '0s'\nmember-lease = '2m'\nmemory-mb = '64MiB'");
    let ended = matrix(&place, &spelt, "--results all --dry-run");
    assert!(
        ended.out.contains("--set member-lease=120") && ended.out.contains("--memory-mb 64"),
        "{}",
        ended.out
    );
    for (file, problem) in [
        ("/dev/zero", "it is larger than 16 MiB, the most that a matrix may have"),
        ("fifo", "it is a FIFO, and no process has it open for writing"),
    ] {
        let made = std::process::Command::new("mkfifo").arg(place.path("fifo")).output();
        made.expect("coreutils");
        let ended = place.start(&format!("matrix {file}")).wait();
        assert_eq!((ended.status, ended.err.lines().count()), (Some(2), 1), "{}", ended.err);
        assert!(ended.err.contains(problem), "{}", ended.err);
    }
    std::fs::write(place.path("hosts"), "\u{feff}one 127.0.0.1\n").expect("a file");
    let flags = "--on ssh --hosts hosts --bin . --store etcd://127.0.0.1:1 --dry-run";
    let ended = place.start(&format!("run {flags} program -- good")).wait();
    assert!(ended.status == Some(0) && ended.out.contains(" one "), "{} {}", ended.out, ended.err);
}

#[test]
fn existing_results_are_not_run_again_without_a_request() {
    let place = Place::new();
    let good = MATRIX
        .replace("['good', 'fails']", "'good'")
        .replace("'unsound'", "'good'")
        .replace("fabric = 'tcp'", "fabric = 'tcp'\nmemory-mb = '1M'");
    let ended = matrix(&place, &good, "--only shm");
    assert_eq!((ended.status, ended.err.matches(": 10 /s").count()), (Some(0), 1), "{}", ended.err);
    let ended = matrix(&place, &good, "--table");
    assert_eq!((ended.status, ended.out.matches("not run").count()), (Some(1), 2), "{}", ended.out);
    let ended = matrix(&place, &good, "");
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert_eq!(
        (ended.err.matches(": is there").count(), ended.err.matches(": 10 /s").count()),
        (1, 3),
        "{}",
        ended.err
    );
    let ended = matrix(&place, &good, "--again --only shm");
    assert_eq!(ended.err.matches(": is there").count(), 0, "{}", ended.err);
    // A case with the same name and another value of a flag is another case.
    let ended = matrix(&place, &good.replace("grace = 0", "grace = 1"), "--only shm");
    assert_eq!(ended.err.matches(": 10 /s").count(), 1, "{}", ended.err);
}

/// Bug: after a new build in the same directory no case began, because the path of the running
/// program led to no file.
#[test]
fn a_new_build_does_not_disturb_the_cases_that_are_left() {
    let place = Place::new();
    let text = MATRIX.split("[[cases]]").next().unwrap_or_default();
    let cases = "on = ['processes', 'namespaces']\nfabric = 'tcp'\narguments = ['waits', 'good']\n";
    std::fs::write(place.path("some.toml"), format!("{text}[[cases]]\n{cases}")).expect("a file");
    let program = place.path("cluster");
    common::copy(Path::new(common::CLUSTER), &program);
    let running = place.start_program(&program, "matrix some.toml --results all");
    assert!(common::wait_until(|| has_begun(&place)), "the first case");
    std::fs::remove_file(&program).expect("a file");
    common::script(&program, "#!/bin/sh\nexit 9\n");
    std::fs::write(place.path("go"), "").expect("a file");
    let ended = running.wait();
    let mut failed = ended.out.lines().filter(|line| line.contains("FAILED"));
    // Some machines permit no namespaces.
    let others = failed.find(|line| !line.contains("not permitted here"));
    assert!(ended.out.contains("| 1 good |") && others.is_none(), "{}{}", ended.out, ended.err);
}

#[test]
fn a_signal_ends_it_with_a_table_of_what_is_there() {
    let place = Place::new();
    let text = MATRIX.replace("['good', 'fails']", "['good', 'in-order', 'silent']");
    std::fs::write(place.path("some.toml"), text).expect("a file");
    let running = place.start("matrix some.toml --results all --only shm");
    assert!(common::wait_until(|| has_begun(&place)), "the second case");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.status, Some(143), "{}", ended.err);
    assert!(ended.out.contains("| not run |") && ended.out.contains("| 1 good |"), "{}", ended.out);
}
