//! Waits of the command itself, before it has started any process.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const CLUSTER: &str = env!("CARGO_BIN_EXE_cluster");

/// Bug: the message for a wait for a FIFO said that a signal ends the wait, but no signal did.
#[test]
fn a_signal_ends_the_wait_for_a_fifo_without_data() {
    for arguments in ["matrix fifo", "run --on ssh --hosts fifo ycsb"] {
        let place = TempDir::new().expect("a directory");
        let fifo = place.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
        // A writer that writes nothing. It opens the FIFO for reading too, so that the open waits
        // for no reader.
        let _writer = OpenOptions::new().read(true).write(true).open(&fifo).expect("a FIFO");
        let mut command = Command::new(CLUSTER);
        command.args(arguments.split_whitespace()).current_dir(&place);
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let told = lines.next().expect("a line").expect("text");
        assert!(told.ends_with("waiting for its writer; a signal ends the wait"), "{told}");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
        // If the command ignored the signal, this would wait until the time limit of the test
        // runner.
        let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(143), "{rest:?}");
        assert!(rest.len() == 1 && rest[0].contains("SIGTERM"), "{rest:?}");
    }
}

#[test]
fn times_may_be_fractions_of_a_second_as_in_all_programs() {
    let place = TempDir::new().expect("a directory");
    let mut command = Command::new(CLUSTER);
    command.args("run --dry-run --member-lease 500ms --drain 10ms --join-wait 1.5 ycsb".split(' '));
    let output = command.current_dir(&place).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    for words in ["--set member-lease=0.5", "--drain 0.01", "--set join-wait=1.5"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// Bug: with a relative directory for temporary files, nodes got relative paths, which they refuse.
#[test]
fn nodes_get_absolute_paths_whatever_the_directory_for_temporary_files() {
    let place = TempDir::new().expect("a directory");
    let mut command = Command::new(CLUSTER);
    command.args(["run", "--dry-run", "ycsb"]).env("TMPDIR", "relative").current_dir(&place);
    let output = command.output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("--join file:/") && !told.contains("file:relative"), "{told}");
}
