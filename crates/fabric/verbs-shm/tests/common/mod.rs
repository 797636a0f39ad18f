//! What tests with several processes share: a directory of their own, and processes that run this
//! very test program again.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId};
use latchwork_verbs_shm::{Fabric, NodeName};

/// Far more than anything takes, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

pub(crate) fn compute(id: u8) -> NodeName {
    NodeName::Compute(node(id))
}

pub(crate) fn memory(id: u16) -> NodeName {
    NodeName::Memory(MemoryNodeId(id))
}

/// A directory of one test, which is gone afterwards.
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

    /// The names of the files in it.
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

/// Makes all fabrics know each other's nodes.
pub(crate) fn introduce(fabrics: &[(&Fabric, &[NodeName])]) {
    for (i, (fabric, _)) in fabrics.iter().enumerate() {
        for (j, (other, nodes)) in fabrics.iter().enumerate() {
            for &name in nodes.iter().filter(|_| i != j) {
                fabric.add_peer(name, &other.contact(name).unwrap()).unwrap();
            }
        }
    }
}

const ROLE: &str = "LATCHWORK_TEST_ROLE";

/// In a process that was started by [`Process::start`]: what it shall be, and with which arguments.
/// To be called by a test of the name `child`.
pub(crate) fn role() -> Option<Vec<String>> {
    let role = std::env::var(ROLE).ok()?;
    Some(role.split('\n').map(str::to_owned).collect())
}

/// By a child: says something to whoever has started it.
pub(crate) fn say(line: &str) {
    println!("\n@{line}");
    std::io::stdout().flush().unwrap();
}

/// By a child: waits for a line; `None` when whoever has started it is gone.
pub(crate) fn hear() -> Option<String> {
    let mut line = String::new();
    let some = std::io::stdin().read_line(&mut line).unwrap() > 0;
    some.then(|| line.trim_end().to_owned())
}

/// This test program, once more, as something else. Killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Mutex<Receiver<String>>,
}

impl Process {
    /// Starts the test `child` of this program with a role.
    pub(crate) fn start(role: &[&str]) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child", "--exact", "--nocapture", "--test-threads=1"]);
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

    /// The next thing that it says; panics when it says nothing or is gone.
    pub(crate) fn hear(&mut self) -> String {
        self.lines.lock().unwrap().recv_timeout(PATIENCE).expect("a child that says something")
    }

    /// Says that nothing more will be said.
    pub(crate) fn close(&mut self) {
        drop(self.input.take());
    }

    /// Whether it said nothing more and ended well, now that nothing more is said to it.
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
