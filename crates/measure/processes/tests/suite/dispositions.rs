//! A program that a test starts ignores no signal, even if the test's own process does.

use std::process::Command;

const CHILD: &str = "LATCHWORK_TEST_OF_DISPOSITIONS";

/// Not a test of its own: a child process that prints its ignored signals.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut grep = latchwork_processes::command("grep");
    let output = grep.args(["SigIgn", "/proc/self/status"]).output().expect("grep");
    println!("{}", String::from_utf8(output.stdout).expect("text"));
}

/// Bug: under `nohup` a test sent SIGHUP to a program that had inherited SIGHUP as ignored, and
/// waited in vain. Fix: tests start programs with the default dispositions.
#[test]
fn a_program_ignores_nothing_that_its_test_was_started_to_ignore() {
    let own = std::env::current_exe().expect("this program");
    let line = "trap '' HUP INT QUIT TERM; exec \"$0\" --exact dispositions::child --nocapture";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", line]).arg(own).env(CHILD, "1").output().expect("a shell");
    let text = String::from_utf8(output.stdout).expect("text");
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("a number");
    // The bit of a signal is one less than its number: SIGHUP 1, SIGINT 2, SIGQUIT 3, SIGTERM 15.
    assert_eq!(mask & (0b111 | 1 << 14), 0, "{text}");
}
