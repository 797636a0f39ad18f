//! Clusters of stand-ins: scripts that behave like memory nodes and programs, as far as the process
//! that starts them can see.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle, park_timeout};
use std::time::Duration;

use latchwork_runtime::Clock;
use tempfile::TempDir;

pub(crate) const CLUSTER: &str = env!("CARGO_BIN_EXE_cluster");
/// The longest time that any step may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The variable that all processes of a test inherit.
const TEST: &str = "TEST_OF_CLUSTERS";

const MEMNODE: &str = r#"#!/bin/sh
id= shared=
while [ $# -gt 0 ]; do
    case $1 in
        node-id=*) id=${1#*=} ;;
        shm-dir=*) shared=${1#*=} ;;
    esac
    shift
done
[ -z "$shared" ] || echo memory >"$shared/memory-$id"
trap 'exit 0' TERM
echo "memnode: M$id serves 1 MiB over nothing" >&2
while :; do sleep 0.02; done
"#;

const PROGRAM: &str = r#"#!/bin/sh
how=$1 id= json=
while [ $# -gt 0 ]; do
    case $1 in
        node-id=*) id=${1#*=} ;;
        --json) json=$2 ;;
    esac
    shift
done
document() {
    cat >"$json" <<END
{"schema": 1, "app": "program", "version": "0", "git": "unknown", "config": {}, "elapsed_s": 1.0, "ops": 10,
 "throughput_ops_s": 10.0, "counters": {}, "nodes": [], "checks": {"sum": "$1"},
 "latency_us": {"READ": {"count": 9, "mean": 1, "min": 1, "p50": 1.5, "p95": 2, "p99": 2.5, "p999": 3, "max": 4},
                "WRITE": {"count": 1, "mean": 1, "min": 1, "p50": 7, "p95": 7, "p99": 7, "p999": 7, "max": 7}}}
END
}
case $how-$id in
    good-1) document ok; echo "good news" ;;
    good-*) ;;
    unsound-1) document failed ;;
    unsound-*) ;;
    silent-*) ;;
    waits-1) echo begun >&2; until [ -e "$TEST_OF_CLUSTERS/go" ]; do sleep 0.02; done; document ok ;;
    waits-*) ;;
    # Not before another is there to be ended.
    fails-2) until [ -e "$TEST_OF_CLUSTERS/there" ]; do sleep 0.02; done; echo "program: it broke" >&2; exit 3 ;;
    fails-*) trap 'exit 4' TERM; : >"$TEST_OF_CLUSTERS/there"; while :; do sleep 0.02; done ;;
    in-order-1) trap 'document ok; exit 0' TERM INT; echo begun >&2; while :; do sleep 0.02; done ;;
    in-order-*) trap 'exit 0' TERM INT; echo begun >&2; while :; do sleep 0.02; done ;;
    # Fails when the other has been stopped, as one that waits for it does when its lease has ended.
    stopped-1) until [ -e "$TEST_OF_CLUSTERS/stopped" ]; do sleep 0.02; done; echo "program: C2 is gone" >&2; exit 3 ;;
    stopped-*) echo begun >&2; while :; do sleep 0.02; done ;;
    # It hears nothing, and neither does what it has started.
    hangs-*) trap '' TERM INT HUP; sh -c 'while :; do sleep 1; done' & echo begun >&2; while :; do sleep 1; done ;;
esac
"#;

/// The working directory of a test, with the stand-ins.
pub(crate) struct Place {
    pub(crate) directory: TempDir,
}

/// A running command.
pub(crate) struct Running {
    child: Child,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
    /// The mark of this test, so that processes of other tests do not match.
    test: String,
}

/// The end of the command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Writes a script through another process. If this process wrote it, another thread could fork
/// meanwhile, and the child would keep the file open for writing. Such a file cannot be executed.
pub(crate) fn script(path: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut child = command.spawn().expect("a shell");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(text.as_bytes()).expect("a script");
    drop(pipe);
    assert!(child.wait().expect("a shell").success());
}

/// Copies a program through another process, for the same reason.
pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.expect("cp").success());
}

/// The command line of a run with the stand-ins.
fn run(flags: &str, how: &str) -> String {
    // The short limit is only for scripts that ignore requests. All other scripts get the time that
    // they need.
    let patience = if how == "hangs" { 0.2 } else { LIMIT.as_secs_f64() };
    format!("run --bin . --results results --kill-after {patience} {flags} program -- {how}")
}

impl Ended {
    /// What is on standard error, with folded lines joined.
    pub(crate) fn unfolded(&self) -> String {
        self.err.replace("\n  ", " ")
    }
}

impl Place {
    pub(crate) fn new() -> Place {
        let directory = TempDir::new().expect("a directory");
        fs::create_dir(directory.path().join("tmp")).expect("a directory");
        script(&directory.path().join("memnode"), MEMNODE);
        script(&directory.path().join("program"), PROGRAM);
        Place { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Starts the command in this directory.
    pub(crate) fn start(&self, arguments: &str) -> Running {
        self.start_program(CLUSTER, arguments)
    }

    /// Starts a copy of the command in this directory.
    pub(crate) fn start_program(&self, program: impl AsRef<OsStr>, arguments: &str) -> Running {
        self.start_command(latchwork_processes::command(program), arguments)
    }

    /// Runs a program with the stand-ins, started by a shell with this line.
    pub(crate) fn start_by(&self, line: &str, flags: &str, how: &str) -> Running {
        let mut shell = latchwork_processes::command("sh");
        shell.args(["-c", line, CLUSTER]);
        self.start_command(shell, &run(flags, how))
    }

    fn start_command(&self, mut command: Command, arguments: &str) -> Running {
        let words: Vec<_> = arguments.split_whitespace().collect();
        let test = self.directory.path().display().to_string();
        command.args(words).current_dir(self.directory.path()).env(TEST, &test);
        command.env("TMPDIR", self.path("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let (mut out, mut err) =
            (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let out = thread::spawn(move || {
            let mut text = String::new();
            _ = out.read_to_string(&mut text);
            text
        });
        let err = thread::spawn(move || {
            let mut text = String::new();
            _ = err.read_to_string(&mut text);
            text
        });
        Running { child, out, err, test }
    }

    /// Runs the command to its end, while another one runs.
    pub(crate) fn run_beside(&self, arguments: &str) -> Ended {
        let mut command = Command::new(CLUSTER);
        command.args(arguments.split_whitespace()).current_dir(self.directory.path());
        command.env("TMPDIR", self.path("tmp")).stdin(Stdio::null());
        let output = command.output().expect("the command starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (out, err) = (text(output.stdout), text(output.stderr));
        Ended { status: output.status.code(), out, err }
    }

    /// Runs a program, with the stand-ins.
    pub(crate) fn start_run(&self, flags: &str, how: &str) -> Running {
        self.start(&run(flags, how))
    }

    pub(crate) fn run(&self, flags: &str, how: &str) -> Ended {
        self.start_run(flags, how).wait()
    }

    /// Waits until a file has this text.
    pub(crate) fn wait_for(&self, name: &str, text: &str) {
        let has = || fs::read_to_string(self.path(name)).is_ok_and(|all| all.contains(text));
        assert!(wait_until(has), "{name} does not say {text:?}");
    }
}

pub(crate) fn wait_until(what: impl Fn() -> bool) -> bool {
    let clock = Clock::start();
    let deadline = clock.now() + LIMIT;
    while !what() {
        if clock.now() >= deadline {
            return false;
        }
        park_timeout(Duration::from_millis(5));
    }
    true
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Whether the command has ended, with all processes that write to its output.
    pub(crate) fn is_over(&self) -> bool {
        self.out.is_finished()
    }

    /// Waits until the command and all its processes have ended, and checks that none of them left
    /// a trace.
    pub(crate) fn wait(mut self) -> Ended {
        assert!(wait_until(|| self.is_over()), "it is not over");
        let pid = self.child.id();
        let status = self.child.wait().expect("a child").code();
        // The guard of a killed command ends after all other processes.
        assert!(wait_until(|| self.err.is_finished()), "its guard is not over");
        let (out, err) = (self.out.join().expect("text"), self.err.join().expect("text"));
        let test = self.test.clone();
        assert!(
            wait_until(|| processes(&test).is_empty()),
            "processes are left: {:?}",
            processes(&test)
        );
        let left = || directories(Path::new(&test), pid);
        assert!(wait_until(|| left().is_empty()), "directories are left: {:?}", left());
        Ended { status, out, err }
    }

    /// Waits only until the command itself has ended.
    pub(crate) fn wait_alone(mut self) -> Option<i32> {
        self.child.wait().expect("a child").code()
    }

    /// The processes that the command has started, and the command itself.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes(&self.test)
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.expect("kill").success(), "{name} to {pid}");
}

/// The processes of a test.
pub(crate) fn processes(test: &str) -> Vec<u32> {
    let wanted = format!("{TEST}={test}");
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has).collect()
}

/// The directories that the command with this process id has left: in shared memory, and in the
/// test's directory.
pub(crate) fn directories(test: &Path, pid: u32) -> Vec<String> {
    let names = |place: &Path| {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with("latchwork-cluster-")).collect::<Vec<_>>()
    };
    let mut shared = names(Path::new("/dev/shm"));
    shared.retain(|name| name.split('-').nth(3) == Some(&pid.to_string()));
    [names(&test.join("tmp")), shared].concat()
}
