//! [`Tested`]: a program of one process, from its users' view.

use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Ended, Running, command};

/// A program, by the path of its file.
#[derive(Clone, Copy)]
pub struct Tested(pub &'static str);

impl Tested {
    /// A command of the program with these arguments, which blanks separate.
    pub fn command(self, arguments: &str) -> Command {
        let mut command = command(self.0);
        command.args(arguments.split_whitespace()).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    /// When the program cannot start.
    pub fn run(self, arguments: &str) -> Ended {
        Ended::of(&mut self.command(arguments))
    }

    /// Runs the program to its end, with so many MiB of memory for its data.
    ///
    /// # Panics
    /// When the program cannot start.
    pub fn run_within(self, mib: u64, arguments: &str) -> Ended {
        let line = format!(r#"ulimit -d {} && exec "$0" "$@""#, mib << 10);
        let mut shell = command("sh");
        shell.args(["-c", &line, self.0]).args(arguments.split_whitespace());
        Ended::of(shell.stdin(Stdio::null()))
    }

    /// Starts the program.
    ///
    /// # Panics
    /// When the program cannot start.
    pub fn start(self, arguments: &str) -> Running {
        Running::start(&mut self.command(arguments))
    }

    /// Runs the program, which must succeed.
    ///
    /// # Panics
    /// When it fails.
    pub fn good(self, arguments: &str) -> Ended {
        let ended = self.run(arguments);
        ended.assert_good(arguments);
        ended
    }

    /// As [`good`](Tested::good). These checks must have succeeded.
    ///
    /// # Panics
    /// When it fails, or a check does.
    pub fn checked(self, arguments: &str, checks: &[&str]) -> Ended {
        let ended = self.good(arguments);
        for check in checks {
            assert!(ended.out.contains(&format!("[CHECK], {check}, ok")), "{arguments}: {ended:?}");
        }
        ended
    }

    /// Runs the program, which must succeed, and returns the document for `--json -`.
    ///
    /// # Panics
    /// When it fails, or prints anything else.
    pub fn document(self, arguments: &str) -> Value {
        self.good(&format!("{arguments} --json -")).json()
    }

    /// The number of flags that a help text shows, with `--help` and `--version`.
    ///
    /// # Panics
    /// When the program cannot start.
    pub fn flags_of_help(self, arguments: &str) -> usize {
        let is_flag = |line: &&str| {
            let text = line.trim_start();
            line.len() - text.len() <= 6 && text.starts_with('-')
        };
        self.run(arguments).out.lines().filter(is_flag).count()
    }

    /// Runs the program with each of these arguments. It must end with the status and one line that
    /// has all words, print no result, and leave no document behind.
    ///
    /// # Panics
    /// When it ends differently.
    pub fn refuses<S: AsRef<str>>(self, cases: &[(S, i32, &[&str])]) {
        let directory = TempDir::new().expect("a directory");
        let file = directory.path().join("never.json");
        let name = self.0.rsplit('/').next().unwrap_or_default();
        for (arguments, status, words) in cases {
            let arguments = arguments.as_ref();
            let ended = self.run(&format!("{arguments} --json {}", file.display()));
            assert_eq!(ended.status, Some(*status), "{arguments}: {ended:?}");
            assert!(
                ended.out.is_empty() && !ended.err.contains("panicked"),
                "{arguments}: {ended:?}"
            );
            let last = ended.last();
            assert!(last.starts_with(&format!("{name}: ")), "{arguments}: {ended:?}");
            assert!(words.iter().all(|word| last.contains(word)), "{arguments}: {ended:?}");
            assert!(!file.exists(), "{arguments}");
        }
    }
}

impl Ended {
    /// Runs a command to its end.
    ///
    /// # Panics
    /// When the command cannot start.
    pub fn of(command: &mut Command) -> Ended {
        let output = command.output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let (out, err) = (text(output.stdout), text(output.stderr));
        Ended { status: output.status.code(), out, err, document: None }
    }

    /// The program must have succeeded, and so must all its checks.
    ///
    /// # Panics
    /// When it has failed.
    pub fn assert_good(&self, arguments: &str) {
        let is_good = |text: &str| !text.contains("FAILED") && !text.contains("panicked");
        assert!(
            self.status == Some(0) && is_good(&self.out) && is_good(&self.err),
            "{arguments}: {self:?}"
        );
    }

    /// The last line on standard error.
    pub fn last(&self) -> &str {
        self.err.trim_end().lines().last().unwrap_or_default()
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is anything else.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A signal of this name ended the program without a result: the last line says so.
    ///
    /// # Panics
    /// When it ended differently.
    pub fn assert_ended_by(&self, signal: &str, status: i32) {
        assert_eq!(self.status, Some(status), "{self:?}");
        let line = format!(": ended by SIG{signal} before it had a result");
        assert!(self.last().ends_with(&line) && self.out.is_empty(), "{self:?}");
        assert_eq!(self.err.matches(": ended by ").count(), 1, "{self:?}");
    }
}
