//! [`Live`]: a process of a run.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use latchwork_files::scratch;
use latchwork_harness::{AppError, COLUMNS, folded_to};
use latchwork_runtime::Time;
use rustix::process::{Pid, Signal, kill_process};

use crate::guard::MARK;
use crate::plan::{HOLDER, Launch};
use crate::silence::Silence;
use crate::tail::Tail;
use crate::{node, signals, tell};

/// The line that tells `cluster attend` the end of the run, in place of the number of a signal.
pub(crate) const OVER: &str = "over";

/// A process that was started. It may have ended.
pub(crate) struct Live {
    pub(crate) launch: Launch,
    child: Child,
    /// The pipe for signals.
    pipe: Option<ChildStdin>,
    said: Tail,
    /// The last line about an error, or else the last line.
    complaint: Complaint,
    pub(crate) is_ready: bool,
    pub(crate) ended: Option<ExitStatus>,
    silence: Silence,
    /// How long the process had not answered when it ended.
    silent: Option<Duration>,
    /// Whether it was killed because it does not answer.
    is_killed: bool,
    /// Whether the end of the run was written to the process's pipe.
    knows_end: bool,
}

#[derive(Default)]
struct Complaint {
    line: String,
    is_own: bool,
}

/// The common environment of all processes of a run.
pub(crate) struct Surroundings<'a> {
    /// The path of this program, for its children.
    pub(crate) own: &'a str,
    pub(crate) mark: &'a str,
    pub(crate) results: &'a Path,
    pub(crate) holder: Option<u32>,
    /// Whether the output of processes is shown.
    pub(crate) is_shown: bool,
}

/// The file of a process's output stream.
pub(crate) fn written(results: &Path, name: &str, stream: &str) -> PathBuf {
    results.join(format!("{name}.{stream}"))
}

/// The command of a process, wrapped so that the process ends when this process ends.
fn wrapped(launch: &Launch, around: &Surroundings<'_>) -> Vec<String> {
    let holder = around.holder.map(|pid| pid.to_string()).unwrap_or_default();
    let enter = launch.enter.iter().map(|word| word.replace(HOLDER, &holder));
    // A whole run in the virtual machine ends its own processes, so it gets SIGTERM.
    let signal = if launch.is_run { Signal::TERM } else { Signal::KILL };
    // Entering other namespaces clears the parent-death signal, so the wrapper comes last.
    enter.chain(node::wrap(around.own, signal.as_raw(), &launch.command)).collect()
}

/// A line of a process with the process's name before it. On a terminal a long line is folded;
/// elsewhere a script may look for it.
fn relay(name: &str, line: &str, is_folded: bool) -> impl Iterator<Item = String> {
    let head = format!("{name} | ");
    let columns = if is_folded { COLUMNS - head.len() } else { usize::MAX };
    let text = folded_to(columns, line);
    let lines = text.lines().map(|line| format!("{head}{line}"));
    lines.collect::<Vec<_>>().into_iter()
}

impl Live {
    pub(crate) fn start(launch: &Launch, around: &Surroundings<'_>) -> Result<Live, AppError> {
        let name = &launch.name;
        let file = |stream| {
            let path = written(around.results, name, stream);
            // A second handle reads the file while the process writes it.
            let made = scratch(&path).map_err(|error| AppError::unwritable(&path, &error))?;
            Ok::<_, AppError>((path, made))
        };
        let ((_, out), (path, err)) = (file("out")?, file("err")?);
        let words = wrapped(launch, around);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(MARK, around.mark).process_group(0).stdout(out).stderr(err);
        command.stdin(if launch.is_attended { Stdio::piped() } else { Stdio::null() });
        let started = command.spawn();
        let mut child = started.map_err(|error| {
            AppError::Failed(format!("{name}: {} cannot be started: {error}", words[0]))
        })?;
        let pipe = child.stdin.take();
        let said = Tail::of(&path).map_err(|error| {
            AppError::Failed(format!("{} cannot be read: {error}", path.display()))
        })?;
        let launch = launch.clone();
        let (complaint, is_ready) = (Complaint::default(), launch.ready.is_none());
        Ok(Live {
            launch,
            child,
            pipe,
            said,
            complaint,
            is_ready,
            ended: None,
            silence: Silence::default(),
            silent: None,
            is_killed: false,
            knows_end: false,
        })
    }

    /// Reads the process's new output, and whether the process is over. Prints a line about a
    /// process that does not answer.
    pub(crate) fn look(&mut self, is_shown: bool, now: Time) {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(status);
            self.silent = self.silence.before_end(now);
            self.pipe = None;
            let rest = self.said.rest();
            self.heard(rest, is_shown);
            return;
        }
        let lines = self.said.lines();
        self.heard(lines, is_shown);
        if self.ended.is_none()
            && !self.launch.is_attended
            && let Some(line) = self.silence.look(self.child.id(), now)
        {
            tell(&format!("cluster: {} {line}", self.launch.name));
        }
    }

    fn heard(&mut self, lines: Vec<String>, is_shown: bool) {
        for line in lines {
            self.is_ready |= self.launch.ready.is_some_and(|text| line.contains(text));
            if is_shown {
                match self.launch.is_run {
                    true => tell(&line),
                    false if line.is_empty() => {}
                    false => relay(&self.launch.name, &line, io::stderr().is_terminal())
                        .for_each(|line| tell(&line)),
                }
            }
            // A line such as "ycsb: no memory" names the error, so later lines do not replace it.
            let first = line.split_whitespace().next().unwrap_or_default();
            let is_own = first.ends_with(':') && first.len() > 1;
            if !line.trim().is_empty() && (is_own || !self.complaint.is_own) {
                self.complaint = Complaint { line, is_own };
            }
        }
    }

    /// Sends a signal, if the process is not over.
    pub(crate) fn signal(&mut self, signal: i32) {
        if self.ended.is_some() {
            return;
        }
        if let Some(pipe) = &mut self.pipe {
            // A process whose pipe is closed ends soon.
            let _ = writeln!(pipe, "{signal}");
        }
        let is_local = !self.launch.is_attended || signal == Signal::KILL.as_raw();
        if is_local
            && let (Some(pid), Some(signal)) =
                (Pid::from_raw(self.child.id() as i32), Signal::from_named_raw(signal))
        {
            // This program has not waited for the process yet, so the id still belongs to the
            // process.
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills the process if it is stopped, because a stopped process does not act on a request to
    /// end. For a process on another machine, the pipe carries the end of the run, and `cluster
    /// attend` does the same there.
    pub(crate) fn end_if_stopped(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        if self.launch.is_attended {
            if !self.knows_end {
                self.knows_end = true;
                self.pipe.iter_mut().for_each(|pipe| drop(writeln!(pipe, "{OVER}")));
            }
            return;
        }
        if !self.is_killed && self.silence.goes_on(now) {
            tell(&format!("cluster: {} is stopped, and the run is over: killed", self.launch.name));
            self.signal(Signal::KILL.as_raw());
            self.is_killed = true;
        }
    }

    /// The kind of the process's end, in two words.
    pub(crate) fn end(&self) -> String {
        match self.ended {
            None => "still there".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("status {code}"),
                (None, signal) => signals::name(signal.unwrap_or_default()),
            },
        }
    }

    /// Its exit status, as in a shell.
    pub(crate) fn status(&self) -> Option<u8> {
        let status = self.ended?;
        let status = status.code().or(status.signal().map(|signal| 128 + signal))?;
        Some(status as u8)
    }

    /// The report that the process does not answer, or did not when it ended.
    pub(crate) fn silence(&self, now: Time) -> Option<String> {
        if self.ended.is_none() && self.silence.goes_on(now) {
            let seconds = self.silence.before_end(now)?.as_secs();
            return Some(format!("{} has not answered for {seconds} s", self.launch.name));
        }
        self.silent.map(|_| self.complaint())
    }

    /// The report of the process's end, in one line.
    pub(crate) fn complaint(&self) -> String {
        let place = self.launch.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        let end = self.end();
        let how = if end.starts_with("status") { "ended with" } else { "was ended by" };
        let name = &self.launch.name;
        // What it wrote before it was stopped is no reason.
        if let Some(silent) = self.silent {
            let seconds = silent.as_secs();
            return format!("{name}{place} did not answer for {seconds} s, and {how} {end}");
        }
        let line = self.complaint.line.trim();
        let why = if line.is_empty() { String::new() } else { format!(": {line}") };
        format!("{name}{place} {how} {end}{why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_lines_that_fit() {
        let line = "ycsb: node C1: ".to_owned() + &"no memory ".repeat(9);
        let relayed = |is_folded| relay("C58", line.trim(), is_folded).collect::<Vec<_>>();
        let folded = relayed(true);
        assert_eq!(folded.len(), 2, "{folded:?}");
        assert!(folded.iter().all(|line| line.len() <= COLUMNS), "{folded:?}");
        assert!(folded[1].starts_with("C58 |   "), "{folded:?}");
        assert_eq!(relayed(false), [format!("C58 | {}", line.trim())]);
    }
}
