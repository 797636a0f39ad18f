//! The program's command line, from outside.

use std::process::Command;

#[test]
fn one_that_is_too_small_for_any_pool_does_not_join() {
    let directory = std::env::temp_dir().join(format!("latchwork-memnode-{}", std::process::id()));
    let join = format!("file:{}", directory.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_memnode"));
    let output = command.args(["--join", &join, "--memory", "1M"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(told.starts_with("memnode: --memory: ") && told.lines().count() == 1, "{told}");
    assert!(told.contains("use --memory 16M or more"), "{told}");
    assert!(!directory.exists(), "there is no cluster of it");
}

#[test]
fn one_that_is_told_no_cluster_says_how_to_name_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_memnode")).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(told.starts_with("memnode: ") && told.lines().count() == 1, "{told}");
    assert!(told.contains("--join file:/DIRECTORY/NAME"), "{told}");
}
