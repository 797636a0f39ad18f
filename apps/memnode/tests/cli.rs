//! The program's command line, and how it ends, as a user sees it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use latchwork_processes::command;

/// Starts a memory node by this command, and returns the process when it serves.
fn serving(command: &mut Command) -> Child {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let told = child.stderr.as_mut().expect("a pipe");
    BufReader::new(told).read_line(&mut line).expect("text");
    assert!(line.contains("serves 16 MiB"), "{line}");
    child
}

fn signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(killed.expect("it starts").success());
}

/// The exit status. The process must end within a minute.
fn status(mut child: Child) -> Option<i32> {
    for _ in 0..600 {
        if let Some(status) = child.try_wait().expect("it is a child") {
            return status.code();
        }
        thread::park_timeout(Duration::from_millis(100));
    }
    child.kill().expect("it is a child");
    panic!("it does not end");
}

/// Bug: the help was that of compute nodes. It offered a simulated network, said that nodes are of
/// one process without `--join`, and had examples of flags that a memory node does not have.
#[test]
fn help_says_what_holds_for_a_memory_node() {
    let output = command(env!("CARGO_BIN_EXE_memnode")).arg("--help").output().expect("it starts");
    let help = String::from_utf8(output.stdout).expect("text");
    for flag in ["--memory-mb", "--drain", "--fabric", "--join", "--listen", "--set", "--log"] {
        assert!(help.contains(flag), "{flag}: {help}");
    }
    for other in ["simulated", "Without --join", "threads", "THREADS", "evict-batch", "wal"] {
        assert!(!help.contains(other), "{other}: {help}");
    }
    let example = ["--set", "member-lease=20s", "--print-config"];
    assert!(help.contains(example[1]), "{help}");
    let status =
        command(env!("CARGO_BIN_EXE_memnode")).args(example).stdout(Stdio::null()).status();
    assert!(status.expect("it starts").success());
}

#[test]
fn a_closed_terminal_ends_it_in_order_unless_it_is_to_outlive_that() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name).display().to_string();
    let arguments =
        format!("--join file:{} --set shm-dir={} --memory-mb 16M", place("store"), place("shm"));
    let program = env!("CARGO_BIN_EXE_memnode");

    let child = serving(command(program).args(arguments.split(' ')));
    signal(&child, "-HUP");
    assert_eq!(status(child), Some(0));

    // The first node has released the id, because otherwise no node could start under it.
    let line = format!("trap '' HUP; exec {program} {arguments}");
    let mut child = serving(command("sh").args(["-c", &line]));
    signal(&child, "-HUP");
    thread::park_timeout(Duration::from_millis(300));
    assert!(child.try_wait().expect("it is a child").is_none(), "it outlives the terminal");
    signal(&child, "-TERM");
    assert_eq!(status(child), Some(0));
}

#[test]
fn one_that_is_too_small_for_any_pool_does_not_join() {
    let directory = std::env::temp_dir().join(format!("latchwork-memnode-{}", std::process::id()));
    let join = format!("file:{}", directory.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_memnode"));
    let output = command.args(["--join", &join, "--memory-mb", "1"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(told.starts_with("memnode: --memory-mb: ") && told.lines().count() == 1, "{told}");
    assert!(told.contains("use --memory-mb 16 or more"), "{told}");
    assert!(!directory.exists(), "there is no cluster of it");
}

#[test]
fn one_that_has_no_room_says_what_may_have_taken_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name).display().to_string();
    let arguments =
        format!("--join file:{} --set shm-dir={} --memory-mb 9000T", place("store"), place("shm"));
    let output = command(env!("CARGO_BIN_EXE_memnode")).args(arguments.split(' ')).output();
    let output = output.expect("it starts");
    let told = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("are needed") && told.contains("`cluster clean`"), "{told}");
}

#[test]
fn a_node_without_a_cluster_prints_how_to_name_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_memnode")).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(told.starts_with("memnode: ") && told.lines().count() == 1, "{told}");
    assert!(told.contains("--join file:/DIRECTORY/NAME"), "{told}");
}
