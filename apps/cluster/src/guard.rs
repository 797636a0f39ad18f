//! The guard of a run: it removes everything of a run, however the run ends.
//!
//! ```text
//!   the command ──── a pipe ────► the guard, which no signal of a terminal reaches
//!       │                            │ the pipe is closed: the command is over, in order or not
//!       ▼                            ▼
//!   processes, each with the mark    SIGTERM to all that have the mark, then SIGKILL
//!   files, in directories of that    then the directories are removed
//!   name
//! ```
//!
//! A mark is the name of a run: `latchwork-cluster-NAMESPACE-PID-START-NUMBER`. The owner of a mark
//! is the process that made it. The mark has the owner's PID namespace, process id and start time.
//! So a later process with the same process id is not taken for the owner. If an owner is killed
//! together with its guard, the [next start](sweep) removes its directories.

use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::park_timeout;
use std::time::Duration;

use latchwork_harness::AppError;
use latchwork_runtime::Clock;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use crate::args;
use crate::own::Own;
use crate::proc::{parent, space, started};
use crate::signals::Signals;
use crate::tell;

/// The environment variable with the mark.
pub(crate) const MARK: &str = "CLUSTER_OF_LATCHWORK";

const PREFIX: &str = "latchwork-cluster-";

/// The directory of shared memory.
const SHARED: &str = "/dev/shm";

/// The guard's message to the command: the guard is ready.
const READY: &str = "ready";

/// The command's message to the guard: the command is about to end in order.
const OVER: &str = "over";

/// The time that processes may take to end after SIGKILL. Only the kernel can delay that end.
const FIRM: Duration = Duration::from_secs(20);
/// The time that the command waits for the guard beyond the guard's own limits.
const SLACK: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// The time that a process may take to replace its program. A process that shows no arguments for
/// longer hides them.
const SETTLED: Duration = Duration::from_secs(2);

/// The time that processes have to end if their owner gave no limit.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The directories of a run, watched by a guard.
pub(crate) struct Scratch {
    mark: String,
    /// The first is in `$TMPDIR`. The second, for shared memory, exists only if nodes share memory.
    directories: Vec<PathBuf>,
    own: Own,
    /// The time that processes have to end by themselves.
    patience: Duration,
    guard: Child,
    pipe: Option<ChildStdin>,
}

/// The parent directories of the files of runs.
fn places() -> [PathBuf; 2] {
    let temporary = std::env::temp_dir();
    // The path is absolute, because the nodes that get it may run in another directory.
    [std::path::absolute(&temporary).unwrap_or(temporary), PathBuf::from(SHARED)]
}

/// The directories of a run, by its mark.
pub(crate) fn directories(mark: &str) -> [PathBuf; 2] {
    places().map(|place| place.join(mark))
}

impl Scratch {
    /// Removes what killed runs have left, and creates the directories of a run.
    pub(crate) fn make(patience: Duration, shares_memory: bool) -> Result<Scratch, AppError> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            AppError::Failed(format!("{what}: {error}"))
        };
        let owner = std::process::id();
        let started = started(owner).ok_or_else(|| failed("/proc cannot be read", &owner))?;
        let space = space().ok_or_else(|| failed("/proc cannot be read", &"ns/pid"))?;
        for left in sweep(&places(), &space) {
            // A directory that cannot be removed belongs to another user, so it stays.
            if left.removed.is_ok() {
                tell(&format!("cluster: removed what {} had left", left.mark));
            }
        }
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{PREFIX}{space}-{owner}-{started}-{number}");
        let mut directories = Vec::from(directories(&mark));
        directories.truncate(if shares_memory { 2 } else { 1 });
        let own = Own::open()?;
        let mut guard = Command::new(own.path())
            .arg0("cluster")
            .args(["guard", "--mark", &mark, "--owner", &owner.to_string()])
            .args(["--patience", &patience.as_secs_f64().to_string()])
            .args(&directories)
            .env_remove(MARK)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| failed("the guard cannot be started", &error))?;
        let pipe = guard.stdin.take();
        // From here on the guard runs, so each error below still leads to a cleanup.
        let mut said = String::new();
        if let Some(out) = guard.stdout.take() {
            io::BufReader::new(out)
                .read_line(&mut said)
                .map_err(|error| failed("the guard cannot be heard", &error))?;
        }
        let scratch = Scratch { mark, directories, own, patience, guard, pipe };
        if said.trim_end() != READY {
            return Err(failed("the guard does not watch", &"see above"));
        }
        for directory in &scratch.directories {
            fs::create_dir(directory).map_err(|error| AppError::unwritable(directory, &error))?;
        }
        Ok(scratch)
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// The path of this program, for the processes of the run.
    pub(crate) fn program(&self) -> String {
        self.own.path()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directories[0]
    }

    /// Ends the remaining processes, and waits for their end.
    pub(crate) fn finish(mut self) -> Result<(), AppError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), AppError> {
        let Some(mut pipe) = self.pipe.take() else { return Ok(()) };
        // If the guard is dead, the call of `clean` below does its work.
        let _ = writeln!(pipe, "{OVER}");
        drop(pipe);
        let clock = Clock::start();
        let deadline = clock.now() + self.patience + FIRM + SLACK;
        let ended = loop {
            match self.guard.try_wait() {
                Ok(None) if clock.now() < deadline => park_timeout(LOOK),
                ended => break ended,
            }
        };
        match ended {
            Ok(Some(status)) if status.success() => Ok(()),
            _ => {
                // The guard may be stuck, and two cleaners must not run at the same time.
                let _ = self.guard.kill();
                clean(&self.mark, &self.directories, self.patience)
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tell(&format!("cluster: {error}"));
        }
    }
}

/// `cluster guard`: waits until the owner has ended, and then cleans up.
pub(crate) fn command(guard: &args::Guard) -> Result<u8, AppError> {
    Signals::ignore();
    {
        let mut out = io::stdout().lock();
        let said = writeln!(out, "{READY}").and_then(|()| out.flush());
        said.map_err(|error| AppError::Failed(format!("nobody hears the guard: {error}")))?;
    }
    // A read error counts as the end of the input.
    let lines = io::stdin().lines().map_while(Result::ok).collect::<Vec<_>>();
    if !lines.iter().any(|line| line == OVER) {
        // The kernel closes the pipe of a killed owner shortly before it kills the owner's
        // children. In between, the children could still create files.
        let clock = Clock::start();
        let deadline = clock.now() + FIRM;
        while getppid().is_some_and(|pid| pid.as_raw_nonzero().get() as u32 == guard.owner)
            && clock.now() < deadline
        {
            park_timeout(LOOK);
        }
    }
    clean(&guard.mark, &guard.directories, guard.patience).map(|()| 0)
}

/// Ends all processes with this mark, and removes the directories.
fn clean(mark: &str, directories: &[PathBuf], patience: Duration) -> Result<(), AppError> {
    end_marked(mark, patience)?;
    for directory in directories {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let text = format!("{} cannot be removed: {error}", directory.display());
                return Err(AppError::Failed(text));
            }
            _ => {}
        }
    }
    Ok(())
}

fn end_marked(mark: &str, patience: Duration) -> Result<(), AppError> {
    let clock = Clock::start();
    let begin = clock.now();
    // A process that has started others ends them itself, and its cleanup may need some of them
    // (such as rm). So SIGTERM goes only to the first ancestors.
    let Marked { all, .. } = marked(mark);
    let is_first = |pid: &&u32| parent(**pid).is_none_or(|parent| !all.contains(&parent));
    all.iter().filter(is_first).for_each(|pid| send(*pid, mark, Signal::TERM));
    loop {
        let Marked { all: left, is_sure } = marked(mark);
        if left.is_empty() && (is_sure || clock.now() >= begin + SETTLED) {
            return Ok(());
        }
        if clock.now() >= begin + patience {
            left.iter().for_each(|pid| send(*pid, mark, Signal::KILL));
        }
        if clock.now() >= begin + patience + FIRM {
            return Err(AppError::Failed(format!("these processes cannot be ended: {left:?}")));
        }
        park_timeout(LOOK);
    }
}

fn send(pid: u32, mark: &str, signal: Signal) {
    let Some(raw) = Pid::from_raw(pid as i32) else { return };
    // The process id may belong to another process by now. A descriptor always refers to one
    // process, so the mark is checked after the descriptor is open.
    if let Ok(process) = pidfd_open(raw, PidfdFlags::empty())
        && has_mark(pid, mark) == Some(true)
    {
        let _ = pidfd_send_signal(&process, signal);
    }
}

/// The processes that have inherited a mark.
struct Marked {
    all: Vec<u32>,
    /// Whether each of the other processes was certainly without the mark.
    is_sure: bool,
}

fn marked(mark: &str) -> Marked {
    let mut marked = Marked { all: Vec::new(), is_sure: true };
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else { return marked };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match has_mark(pid, mark) {
            Some(true) if pid != own => marked.all.push(pid),
            Some(_) => {}
            None => marked.is_sure = false,
        }
    }
    marked
}

/// Whether a process has inherited this mark. `None` while the process replaces its program,
/// because it has no environment at that moment.
fn has_mark(pid: u32, mark: &str) -> Option<bool> {
    // The environment of an ended process, or of another user's process, cannot be read.
    let environment = || fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment();
    if variables.is_empty() {
        if is_between_programs(pid) {
            return None;
        }
        // The process may have finished the replacement before the check.
        variables = environment();
    }
    let wanted = format!("{MARK}={mark}");
    Some(variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()))
}

/// Whether the process has memory and no program arguments yet, as in a replacement of its program.
/// Kernel threads and ended processes have no memory.
fn is_between_programs(pid: u32) -> bool {
    let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let memory = read("statm");
    !memory.is_empty() && !memory.starts_with(b"0 ") && read("cmdline").is_empty()
}

/// A leftover directory of a run.
pub(crate) struct Left {
    pub(crate) mark: String,
    pub(crate) directory: PathBuf,
    pub(crate) removed: Result<(), AppError>,
}

/// Removes the directories of all runs of this machine that were killed together with their guard.
pub(crate) fn sweep_all() -> Vec<Left> {
    // Without a PID namespace the owner of a mark cannot be checked.
    space().map_or_else(Vec::new, |space| sweep(&places(), &space))
}

fn sweep(places: &[PathBuf], space: &str) -> Vec<Left> {
    let names = places.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let mut dead: Vec<(String, PathBuf)> = Vec::new();
    for entry in names {
        if let Ok(name) = entry.file_name().into_string()
            && is_dead(&name, space)
        {
            dead.push((name, entry.path()));
        }
    }
    let clean = |(mark, directory): (String, PathBuf)| {
        let removed = clean(&mark, std::slice::from_ref(&directory), PATIENCE);
        Left { mark, directory, removed }
    };
    dead.into_iter().map(clean).collect()
}

/// Whether this is the mark of a run of this PID namespace whose owner has ended.
fn is_dead(name: &str, space: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let parts: Vec<_> = rest.split('-').collect();
    let [of, pid, began, _number] = parts[..] else { return false };
    let (Ok(pid), Ok(began)) = (pid.parse(), began.parse()) else { return false };
    of == space && started(pid) != Some(began)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_are_dead_whose_owner_is_no_more() {
        let own = std::process::id();
        let began = started(own).expect("a start");
        let space = space().expect("a namespace");
        let name = |space: &str, pid: u32, began: u64| format!("{PREFIX}{space}-{pid}-{began}-0");
        assert!(!is_dead(&name(&space, own, began), &space), "this one lives");
        assert!(is_dead(&name(&space, own, began - 1), &space), "another had the number before");
        assert!(!is_dead(&name("1", own, began - 1), &space), "numbers of elsewhere mean nothing");
        assert!(!is_dead(&format!("{PREFIX}other"), &space));
        assert!(!is_dead("other", &space));
    }

    #[test]
    fn the_next_start_removes_what_the_dead_have_left() {
        let place = tempfile::TempDir::new().expect("a directory");
        let space = space().expect("a namespace");
        let own = std::process::id();
        let began = started(own).expect("a start");
        let living = place.path().join(format!("{PREFIX}{space}-{own}-{began}-7"));
        let dead = place.path().join(format!("{PREFIX}{space}-{own}-{}-7", began - 1));
        let other = place.path().join("other");
        for directory in [&living, &dead, &other] {
            fs::create_dir_all(directory.join("store")).expect("a directory");
        }
        let left = sweep(&[place.path().to_owned()], &space);
        assert!(matches!(&left[..], [left] if left.directory == dead && left.removed.is_ok()));
        assert_eq!([living.is_dir(), dead.is_dir(), other.is_dir()], [true, false, true]);
    }

    #[test]
    fn a_process_that_exchanges_its_program_is_not_overlooked() {
        let mark = format!("{PREFIX}of-programs-{}", std::process::id());
        let own = std::env::current_exe().expect("this program's name");
        for _ in 0..100 {
            let mut command = Command::new("sleep");
            let mut child = command.arg("60").env(MARK, &mark).spawn().expect("a program");
            // The call returns shortly before the child leaves this process's memory, and with it
            // an environment without the mark.
            let program = format!("/proc/{}/exe", child.id());
            while fs::read_link(&program).is_ok_and(|program| program == own) {}
            let found = has_mark(child.id(), &mark);
            child.kill().and_then(|()| child.wait()).expect("it ends");
            assert_ne!(found, Some(false));
        }
        assert_eq!(has_mark(std::process::id(), &mark), Some(false));
    }

    #[test]
    fn what_is_asked_to_end_cleans_up_with_the_help_of_others() {
        // Bug: the guard also ended the processes that a script had started for its cleanup, so the
        // script left its files. Scripts remove files by rm.
        let place = tempfile::TempDir::new().expect("a directory");
        let script = "trap 'exit 0' TERM; sh -c 'trap \"exit 1\" TERM; echo >begun; sleep 0.2; echo >tidied'; :";
        let mark = format!("{PREFIX}of-a-test-{}", std::process::id());
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&place).env(MARK, &mark).stdin(Stdio::null());
        let mut child = command.spawn().expect("a shell");
        // A thread waits for the child at once, as a parent does for its command.
        let reaper = std::thread::spawn(move || child.wait());
        let clock = Clock::start();
        let deadline = clock.now() + FIRM;
        while !place.path().join("begun").exists() && clock.now() < deadline {
            park_timeout(LOOK);
        }
        clean(&mark, &[], FIRM).expect("it ends");
        assert!(place.path().join("tidied").exists());
        assert!(reaper.join().is_ok_and(|ended| ended.is_ok()));
    }
}
