//! [`Program`]: the processes of one run, each a child of the test.

use std::io::{BufRead, BufReader, Read};
use std::mem::take;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_runtime::sync::{AtomicU32, Ordering};
use serde_json::Value;

use crate::command;

/// The processes of one run. Dropping the value kills the processes that still run.
pub struct Program {
    processes: Vec<Process>,
}

struct Process {
    child: Child,
    out: Text,
    err: Text,
    document: PathBuf,
}

/// The output of a process, line by line.
struct Text {
    lines: Receiver<String>,
    /// The lines that a wait has read.
    taken: String,
}

/// The end of a process.
#[derive(Debug)]
pub struct Ended {
    /// The exit status; `None` when a signal ended the process.
    pub status: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The JSON document that the process wrote for `--json`, if any.
    pub document: Option<String>,
}

impl Ended {
    /// The lines on standard error, without the lines about waiting for other processes and about
    /// the process's number.
    pub fn said(&self) -> Vec<&str> {
        let meets = |line: &&str| line.contains(" waits for ") || line.contains(" is process ");
        self.err.lines().filter(|line| !meets(line)).collect()
    }
}

impl Program {
    /// Starts the processes, each with its flags.
    pub(crate) fn start(path: &str, flags: &[Vec<String>], directory: &Path) -> Program {
        static DOCUMENTS: AtomicU32 = AtomicU32::new(0);
        let mut program = Program { processes: Vec::new() };
        for flags in flags {
            // Relaxed: the numbers must differ, and they order nothing.
            let number = DOCUMENTS.fetch_add(1, Ordering::Relaxed);
            let document = directory.join(format!("{number}.json"));
            let mut command = command(path);
            command.args(flags).arg("--json").arg(&document);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("the program starts");
            let (out, err) = (Text::of(child.stdout.take()), Text::of(child.stderr.take()));
            program.processes.push(Process { child, out, err, document });
        }
        program
    }

    /// Waits for a new line with this prefix on the standard error of any process. Lines that an
    /// earlier wait has read do not count.
    ///
    /// # Panics
    /// When no process has written such a line within `limit`, or all have ended.
    pub fn wait_for_line(&mut self, beginning: &str, limit: Duration) {
        self.wait_for_line_that(beginning, |_| true, limit);
    }

    /// As [`wait_for_line`](Program::wait_for_line); the line must also satisfy the predicate.
    ///
    /// # Panics
    /// When no process has written such a line within `limit`, or all have ended.
    pub fn wait_for_line_that(
        &mut self,
        beginning: &str,
        is_it: impl Fn(&str) -> bool,
        limit: Duration,
    ) {
        const LOOK: Duration = Duration::from_millis(20);
        let clock = Clock::start();
        let deadline = clock.now() + limit;
        let mut open = self.processes.len();
        while clock.now() < deadline && open > 0 {
            open = self.processes.len();
            for process in &mut self.processes {
                match process.err.take(LOOK) {
                    Ok(line) if line.starts_with(beginning) && is_it(&line) => return,
                    Err(RecvTimeoutError::Disconnected) => open -= 1,
                    _ => {}
                }
            }
        }
        let said: Vec<_> = self.processes.iter().map(|process| &process.err.taken).collect();
        panic!("nobody has said {beginning:?} within {limit:?}: {said:?}");
    }

    /// Sends a signal of this name to a process.
    ///
    /// # Panics
    /// When the process has already ended.
    pub fn signal(&mut self, process: usize, name: &str) {
        let child = &mut self.processes[process].child;
        let over = child.try_wait().expect("a child");
        assert!(over.is_none(), "it has ended before the signal: {over:?}");
        let line = format!("kill -{name} {}", child.id());
        let sent = Command::new("sh").args(["-c", &line]).status().expect("a shell");
        assert!(sent.success(), "the signal can be sent");
    }

    /// Kills a process with a signal that it cannot handle.
    ///
    /// # Panics
    /// When the process has already ended.
    pub fn kill(&mut self, process: usize) {
        let child = &mut self.processes[process].child;
        let over = child.try_wait().expect("a child");
        assert!(over.is_none(), "it has ended before it was killed: {over:?}");
        child.kill().expect("a child");
    }

    /// Waits until all processes have ended, and returns their ends.
    ///
    /// # Panics
    /// When the output of a process has not ended within `limit`.
    pub fn wait(mut self, limit: Duration) -> Vec<Ended> {
        let clock = Clock::start();
        let deadline = clock.now() + limit;
        let end = |process: &mut Process| {
            // The output ends when the process, and all processes that inherited its pipes, have
            // closed it.
            for text in [&mut process.out, &mut process.err] {
                loop {
                    match text.take(deadline - clock.now()) {
                        Ok(_) => {}
                        Err(RecvTimeoutError::Disconnected) => break,
                        Err(RecvTimeoutError::Timeout) => {
                            panic!("it is not over after {limit:?}, and has said: {}", text.taken)
                        }
                    }
                }
            }
            let (out, err) = (take(&mut process.out.taken), take(&mut process.err.taken));
            let status = process.child.wait().expect("a child").code();
            let document = std::fs::read_to_string(&process.document).ok();
            Ended { status, out, err, document }
        };
        self.processes.iter_mut().map(end).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Only a process that still runs is killed.
            if let Ok(None) = process.child.try_wait() {
                let _ = process.child.kill();
                let _ = process.child.wait();
            }
        }
    }
}

impl Text {
    /// Reads lines to the end of `from`, on a thread of its own.
    fn of(from: Option<impl Read + Send + 'static>) -> Text {
        let (line, lines) = channel();
        thread::spawn(move || {
            let Some(from) = from else { return };
            let mut from = BufReader::new(from);
            let mut bytes = Vec::new();
            // The thread ends at the end of the output, at a read error, or when the receiver is
            // dropped.
            while from.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0)
                && line.send(String::from_utf8_lossy(&bytes).into_owned()).is_ok()
            {
                bytes.clear();
            }
        });
        Text { lines, taken: String::new() }
    }

    /// The next line, within `limit`. Appends the line to `taken`.
    fn take(&mut self, limit: Duration) -> Result<String, RecvTimeoutError> {
        let line = self.lines.recv_timeout(limit)?;
        self.taken.push_str(&line);
        Ok(line)
    }
}

/// The document of a successful run: all processes exited with status 0, and exactly one wrote a
/// document. No check failed in its output. The other processes printed only lines about joining.
///
/// # Panics
/// When the run was different.
pub fn one_document(processes: &[Ended]) -> &str {
    let good = processes.iter().all(|process| process.status == Some(0));
    // The error is in the output of one process only, so the message shows all.
    assert!(good, "{processes:#?}");
    for process in processes {
        if process.document.is_none() {
            assert_eq!(
                (process.out.as_str(), &process.said()[..]),
                ("", &[][..]),
                "it tells nothing"
            );
        }
    }
    let mut tellers =
        processes.iter().filter_map(|process| Some((process.document.as_ref()?, process)));
    let (document, teller) = tellers.next().expect("one tells");
    assert!(tellers.next().is_none(), "one tells");
    assert!(teller.out.contains("[CHECK], ") && !teller.out.contains("FAILED"), "{}", teller.out);
    document
}

/// The document of a run that has outlived the `killed` of its processes, by index. The others
/// ended with status 0, one of them wrote the document, and all checks and accesses are good. The
/// document names the dead, with the recovery from each death.
///
/// # Panics
/// When the run was different.
pub fn document_of_survivors(processes: &[Ended], killed: &[usize]) -> Value {
    let mut documents = Vec::new();
    for (at, process) in processes.iter().enumerate() {
        let status = if killed.contains(&at) { None } else { Some(0) };
        assert_eq!(process.status, status, "process {at}: {}", process.err);
        documents.extend(process.document.as_deref());
    }
    let [document] = documents[..] else { panic!("{} documents", documents.len()) };
    let document: Value = serde_json::from_str(document).expect("a document");
    let checks = document["checks"].as_object().expect("checks");
    assert!(!checks.is_empty() && checks.values().all(|check| check == "ok"), "{checks:?}");
    assert_eq!(document["failures"], Value::Null, "no access of a survivor fails");
    let dead = document["dead"].as_array().expect("the dead");
    assert_eq!(dead.len(), killed.len(), "{dead:?}");
    let recoveries = document["recoveries"].as_array().expect("recoveries");
    for node in dead {
        let of_node = recoveries.iter().find(|recovery| recovery["node"] == *node);
        let recovery = of_node.expect("it is recovered");
        let steps = ["fenced_ms", "claimed_ms", "swept_ms"].map(|step| recovery[step].as_f64());
        assert!(steps.iter().all(Option::is_some) && steps.is_sorted(), "{recovery}");
        let lines = ["lines_released", "lines_reverted"].map(|count| recovery[count].as_u64());
        let [Some(released), Some(reverted)] = lines else { panic!("no counts: {recovery}") };
        assert!(released > 0 && reverted <= released, "{recovery}");
    }
    document
}
