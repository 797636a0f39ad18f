//! Helpers of the tests with several processes: a directory for each test, and child processes that
//! run the same test program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId};
use latchwork_verbs_shm::{ShmFabric, ShmNodeName};

/// The time limit of one step, far longer than a step takes even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

pub(crate) fn compute(id: u8) -> ShmNodeName {
    ShmNodeName::Compute(node(id))
}

pub(crate) fn memory(id: u16) -> ShmNodeName {
    ShmNodeName::Memory(MemoryNodeId(id))
}

/// A directory of one test, removed at the end of the test.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let shm = PathBuf::from("/dev/shm");
        let base = if shm.is_dir() { shm } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("latchwork-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    /// The names of the files in the directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Adds all nodes of each fabric as peers of the other fabrics.
pub(crate) fn introduce(fabrics: &[(&ShmFabric, &[ShmNodeName])]) {
    for (i, (fabric, _)) in fabrics.iter().enumerate() {
        for (j, (other, nodes)) in fabrics.iter().enumerate() {
            for &name in nodes.iter().filter(|_| i != j) {
                fabric.add_peer(name, &other.contact(name).unwrap()).unwrap();
            }
        }
    }
}

const ROLE: &str = "LATCHWORK_TEST_ROLE";

/// The role and the arguments of a process that [`Process::start`] started. To be called by a test
/// with the name `child`.
pub(crate) fn role() -> Option<Vec<String>> {
    let role = std::env::var(ROLE).ok()?;
    Some(role.split('\n').map(str::to_owned).collect())
}

/// In a child: sends a line to the parent process.
pub(crate) fn say(line: &str) {
    println!("\n@{line}");
    std::io::stdout().flush().unwrap();
}

/// In a child: waits for a line; `None` when the parent process has ended.
pub(crate) fn hear() -> Option<String> {
    let mut line = String::new();
    let some = std::io::stdin().read_line(&mut line).unwrap() > 0;
    some.then(|| line.trim_end().to_owned())
}

/// A child process with this test program, in another role. Dropping the value kills the process.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Mutex<Receiver<String>>,
}

impl Process {
    /// Starts a test of this program with a role, for example `processes::child`.
    pub(crate) fn start(test: &str, role: &[&str]) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role.join("\n")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix('@')
                    && sender.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Process { child, input, lines: Mutex::new(lines) }
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line of the child. Panics when the child sends no line or has ended.
    pub(crate) fn hear(&mut self) -> String {
        self.lines.lock().unwrap().recv_timeout(PATIENCE).expect("a child that says something")
    }

    /// Closes the input of the child.
    pub(crate) fn close(&mut self) {
        drop(self.input.take());
    }

    /// Closes the input, and checks that the child sends no more lines and ends without an error.
    pub(crate) fn finish(mut self) {
        drop(self.input.take());
        let said = self.lines.lock().unwrap().recv_timeout(PATIENCE);
        assert!(said.is_err(), "unexpected: {said:?}");
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
