//! [`Running`]: a program that a test follows, and to which it sends signals.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Ended;

/// How long a program may print nothing before the test fails.
const SILENCE: Duration = Duration::from_secs(120);

/// A running program. Dropping the value kills the program.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    out: Option<JoinHandle<String>>,
    /// Standard error so far.
    pub err: String,
}

impl Running {
    /// Starts a command.
    pub(crate) fn start(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdout: ChildStdout = child.stdout.take().expect("piped");
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text).expect("text")
        });
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (says, lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| says.send(line))
        });
        Running { child, lines, out: Some(out), err: String::new() }
    }

    /// Reads standard error up to a line that shows progress in this phase, with a count above 0.
    ///
    /// # Panics
    /// When no such line comes.
    pub fn reach(&mut self, phase: &str) {
        let begin = format!("{phase}: ");
        self.follow(|line| line.starts_with(&begin) && !line.contains(" %, 0 "));
    }

    /// Reads standard error up to a matching line, and returns that line.
    ///
    /// # Panics
    /// When no such line comes.
    pub fn follow(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.lines.recv_timeout(SILENCE);
            let line = line.unwrap_or_else(|why| panic!("no such line: {why}: {}", self.err));
            self.err += &(line.clone() + "\n");
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Waits for this time while the program runs.
    pub fn leave_alone(&self, time: Duration) {
        let (_says, nothing) = channel::<()>();
        let _ = nothing.recv_timeout(time);
    }

    /// Sends the program a signal of this name.
    ///
    /// # Panics
    /// When the program has ended.
    pub fn signal(&self, name: &str) {
        let line = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &line]).status().expect("a shell");
        assert!(sent.success(), "it still runs: {}", self.err);
    }

    /// Waits until the program has no pending signal. Of two pending signals of one kind, the
    /// system delivers only one.
    ///
    /// # Panics
    /// When a signal stays pending.
    pub fn until_delivered(&self) {
        let status = format!("/proc/{}/status", self.child.id());
        let is_none = |line: &str| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|mask| mask.bytes().all(|digit| digit == b'0'))
        };
        for _ in 0..SILENCE.as_millis() {
            let text = std::fs::read_to_string(&status).expect("a process");
            if text.lines().filter(|line| line.starts_with("ShdPnd:")).all(is_none) {
                return;
            }
            self.leave_alone(Duration::from_millis(1));
        }
        panic!("a signal is still pending: {}", self.err);
    }

    /// Waits for the end of the program.
    ///
    /// # Panics
    /// When the program does not end.
    pub fn end(mut self) -> Ended {
        loop {
            match self.lines.recv_timeout(SILENCE) {
                Ok(line) => self.err += &(line + "\n"),
                // The program has closed standard error, so it ends.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {}", self.err),
            }
        }
        let status = self.child.wait().expect("it ends").code();
        let out = self.out.take().expect("once").join().expect("text");
        Ended { status, out, err: std::mem::take(&mut self.err), document: None }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
