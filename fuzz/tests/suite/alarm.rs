//! The fuzzer finds seeded bugs, and can replay each input that it found.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use latchwork_fuzz::{Corpus, FuzzTarget, rounds};
use tempfile::TempDir;

/// A corpus whose input is one changed byte away from this seeded bug.
fn seeded(bug: &str) -> TempDir {
    let home = TempDir::new().expect("a folder");
    let folder = home.path().join("corpus/planted");
    std::fs::create_dir_all(&folder).expect("made");
    let input = [bug.as_bytes(), b":", &[0; 8]].concat();
    std::fs::write(folder.join("seed"), input).expect("written");
    home
}

fn fuzz(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchwork-fuzz"));
    command.arg("--corpus").arg(home.join("corpus"));
    command.arg("--failures").arg(home.join("failures"));
    command.args(arguments).output().expect("started")
}

fn failures(home: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(home.join("failures")) else { return Vec::new() };
    entries.map(|entry| entry.expect("readable").path()).collect()
}

/// Checks how the fuzzer reports the bug `bug`, and how the replay of its input ends.
fn found(bug: &str, said: &str) {
    let home = seeded(bug);
    let output = fuzz(home.path(), &["--time", "60", "--seed", "1", "planted"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{bug}: {error}");
    let failures = failures(home.path());
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    let bytes = std::fs::read(failure).expect("readable");
    assert!(bytes.starts_with(bug.as_bytes()) && bytes[bug.len() + 1..] != [0; 8], "{bytes:?}");
    let file = failure.to_str().expect("text");
    assert!(error.contains(said) && error.contains(&format!("--replay {file} planted")), "{error}");

    let replayed = fuzz(home.path(), &["--replay", file, "planted"]);
    let error = String::from_utf8_lossy(&replayed.stderr);
    assert_eq!(replayed.status.code(), Some(1), "{bug}: {error}");
    assert!(error.contains(said), "{error}");
}

#[test]
fn a_panic_is_found_and_its_input_replays() {
    found("panic", "planted");
}

#[test]
fn an_input_that_hangs_is_found_and_replays() {
    found("hang", "more than 5s");
}

#[test]
fn an_input_that_takes_all_memory_is_found_and_replays() {
    found("memory", "memory allocation of");
}

#[test]
fn a_clean_target_ends_with_success_and_leaves_nothing() {
    let home = seeded("qqqqqqqqqqqqqqqqqqqqqqqq");
    let output = fuzz(home.path(), &["--time", "1", "planted"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("planted: "), "a line of its own");
    assert_eq!(failures(home.path()), Vec::<PathBuf>::new());
}

#[test]
fn an_unknown_target_is_an_error_that_names_the_known_ones() {
    let output = fuzz(Path::new("."), &["nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("history"), "names");
}

/// An ordinary test finds the bug too, and prints how to replay the input.
#[test]
fn a_panic_in_a_test_names_the_input_that_replays_it() {
    let home = seeded("panic");
    let corpus = Corpus::load(&home.path().join("corpus/planted")).expect("readable");
    let target = FuzzTarget::find("planted").expect("known");
    let failure = rounds(target, &corpus, 1, target.tried).expect_err("planted");
    let file = failure.split("--replay ").nth(1).and_then(|rest| rest.split(' ').next());
    let file = Path::new(file.expect("a command"));
    assert!(std::fs::read(file).expect("saved").starts_with(b"panic:"));
    std::fs::remove_file(file).expect("removed");
}
