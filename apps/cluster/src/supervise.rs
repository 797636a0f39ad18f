//! The supervision of a run, from the start of the first process to the end of the last.
//!
//! ```text
//!   steps ──► holder ──► store ──► memory nodes ──► programs ──► all have ended
//!                                                      │              │
//!             a failure, the time limit, a signal ─────┴── SIGTERM, ──┤ to the programs
//!                                                          SIGKILL    │
//!                                                                     ▼
//!                                     memory nodes: SIGTERM, drain; SIGKILL; then the store
//! ```
//!
//! - A stopped process (SIGSTOP) cannot act on a request to end. So the run kills it as soon as the
//!   run waits for its end.
//! - After a failed run the memory nodes do not wait for compute nodes to leave: the programs have
//!   ended, and dead nodes never leave.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, park_timeout};
use std::time::Duration;

use latchwork_harness::AppError;
use latchwork_runtime::{Clock, Time};
use rustix::process::Signal;

use crate::guard::MARK;
use crate::live::{Live, Surroundings};
use crate::node;
use crate::plan::{Plan, Role, Step};
use crate::signals::{self, Signals};

const LOOK: Duration = Duration::from_millis(10);
/// The time that a program has to write its results after a signal has ended its run.
const IN_ORDER: Duration = Duration::from_secs(60);
/// The time that the creation of namespaces may take.
const HOLD: Duration = Duration::from_secs(120);
/// The time that memory nodes have to leave in order after a failed run.
const HASTE: Duration = Duration::from_secs(1);
/// The time that the kernel may take to end processes after SIGKILL.
const FIRM: Duration = Duration::from_secs(20);
/// The exit status after the time limit, as in timeout(1).
pub(crate) const OUT_OF_TIME: u8 = 124;

/// The time limits of a run.
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) grace: Duration,
    pub(crate) drain: Duration,
    pub(crate) kill_after: Duration,
}

/// The state at the end of a run.
pub(crate) struct Over {
    pub(crate) nodes: Vec<Live>,
    pub(crate) status: u8,
    pub(crate) problem: Option<String>,
    pub(crate) elapsed: Duration,
}

/// The reason why a wait ended.
enum Halt {
    Reached,
    /// The node with this index ended too early or with an error.
    Failed(usize),
    Signal(i32),
    Limit,
}

struct Supervisor<'a> {
    nodes: Vec<Live>,
    around: Surroundings<'a>,
    limits: Limits,
    signals: &'a Signals,
    clock: Clock,
    deadline: Time,
}

/// Runs a plan to its end.
///
/// # Errors
/// The error names the process that could not be started. The guard then ends all started
/// processes.
pub(crate) fn run(
    plan: &Plan,
    mut around: Surroundings<'_>,
    limits: Limits,
    signals: &Signals,
) -> Result<Over, AppError> {
    let clock = Clock::start();
    let (begin, deadline) = (clock.now(), clock.now() + limits.time);
    for step in &plan.steps {
        take(step, &around, signals, &clock, deadline)?;
    }
    // The holder ends when its standard input ends. This process has the other end of that pipe.
    let holder = plan.holder.as_ref().map(|command| hold(command, &around)).transpose()?;
    around.holder = holder.as_ref().map(Child::id);
    let mut supervisor = Supervisor { nodes: Vec::new(), around, limits, signals, clock, deadline };
    let halt = supervisor.start(plan)?;
    let (status, problem) = supervisor.judge(halt);
    let late = supervisor.stop_rest(status != 0);
    let (status, problem) = match (status, problem) {
        (0, None) if late.is_some() => (1, late),
        ended => ended,
    };
    if let Some(mut holder) = holder {
        drop(holder.stdin.take());
        let _ = holder.kill();
        let _ = holder.wait();
    }
    let elapsed = supervisor.clock.now() - begin;
    Ok(Over { nodes: supervisor.nodes, status, problem, elapsed })
}

impl Supervisor<'_> {
    /// Starts all processes, and waits for the end of the programs.
    fn start(&mut self, plan: &Plan) -> Result<Halt, AppError> {
        for role in [Role::Store, Role::Memory, Role::Program] {
            for launch in plan.launches.iter().filter(|launch| launch.role == role) {
                if let Some(signal) = self.signals.first() {
                    return Ok(Halt::Signal(signal));
                }
                self.nodes.push(Live::start(launch, &self.around)?);
            }
            if role != Role::Program {
                let ready = |nodes: &[Live]| nodes.iter().all(|node| node.is_ready);
                match self.wait(self.deadline, ready) {
                    Halt::Reached => {}
                    halt => return Ok(halt),
                }
            }
        }
        Ok(self.wait(self.deadline, programs_ended))
    }

    /// Waits until `until` holds, or until an event prevents it.
    fn wait(&mut self, deadline: Time, until: impl Fn(&[Live]) -> bool) -> Halt {
        loop {
            self.look();
            let failed = |node: &Live| match node.launch.role {
                // A store or a memory node ends only on request, so any end is a failure.
                Role::Store | Role::Memory => node.ended.is_some(),
                Role::Program => node.status().is_some_and(|status| status != 0),
            };
            if let Some(at) = self.nodes.iter().position(failed) {
                return Halt::Failed(at);
            }
            if until(&self.nodes) {
                return Halt::Reached;
            }
            if let Some(signal) = self.signals.first() {
                return Halt::Signal(signal);
            }
            if self.clock.now() >= deadline {
                return Halt::Limit;
            }
            park_timeout(LOOK);
        }
    }

    fn look(&mut self) {
        let now = self.clock.now();
        for node in &mut self.nodes {
            node.look(self.around.is_shown, now);
        }
    }

    /// Waits until the processes of these roles have ended, and ignores all other events. Returns
    /// whether all have ended.
    fn outlast(&mut self, roles: &[Role], limit: Duration) -> bool {
        let deadline = self.clock.now() + limit;
        loop {
            self.look();
            let now = self.clock.now();
            let mut left = false;
            for node in self.nodes.iter_mut().filter(|node| roles.contains(&node.launch.role)) {
                node.end_if_stopped(now);
                left |= node.ended.is_none();
            }
            if !left {
                return true;
            }
            if self.clock.now() >= deadline {
                return false;
            }
            park_timeout(LOOK);
        }
    }

    /// The result of the programs. Programs that still run get a request to end.
    fn judge(&mut self, halt: Halt) -> (u8, Option<String>) {
        match halt {
            Halt::Reached => (0, None),
            Halt::Failed(at) => {
                let grace = self.limits.grace;
                // The other programs get time, because their reaction to the failure belongs to the
                // result.
                if !self.outlast(&[Role::Program], grace) {
                    self.end(&[Role::Program], self.limits.kill_after);
                }
                let node = &self.nodes[at];
                let status = node.status().filter(|status| *status != 0).unwrap_or(1);
                let early = match node.launch.role {
                    Role::Program => "",
                    _ => " (before the programs were over)",
                };
                let problem = node.complaint() + early;
                // The others fail because of those that did not answer.
                let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != at);
                let now = self.clock.now();
                let silent = others.filter_map(|(_, other)| other.silence(now));
                let all: Vec<String> = silent.chain([problem]).collect();
                (status, Some(all.join("; ")))
            }
            Halt::Limit => {
                self.end(&[Role::Program], self.limits.kill_after);
                let left = self.nodes.iter().filter(|node| !node.is_ready);
                let waited = left.map(|node| node.launch.name.as_str()).collect::<Vec<_>>();
                let what = match waited.is_empty() {
                    true => String::new(),
                    false => format!(", and these were not ready: {}", waited.join(", ")),
                };
                let limit = self.limits.time.as_secs_f64();
                (OUT_OF_TIME, Some(format!("the time limit of {limit} s is over{what}")))
            }
            Halt::Signal(signal) => {
                self.signal(&[Role::Program], signal);
                if !self.outlast(&[Role::Program], IN_ORDER) {
                    self.end(&[Role::Program], self.limits.kill_after);
                }
                let programs =
                    || self.nodes.iter().filter(|node| node.launch.role == Role::Program);
                let bad = programs().find_map(|node| node.status().filter(|status| *status != 0));
                let none = programs().next().is_none();
                let status = bad.or(none.then_some(128 + signal as u8)).unwrap_or(0);
                let problem = (status != 0).then(|| format!("ended by {}", signals::name(signal)));
                (status, problem)
            }
        }
    }

    fn signal(&mut self, roles: &[Role], signal: i32) {
        for node in self.nodes.iter_mut().filter(|node| roles.contains(&node.launch.role)) {
            node.signal(signal);
        }
    }

    /// Requests the end of the processes, and kills those that have not ended after `patience`.
    fn end(&mut self, roles: &[Role], patience: Duration) -> bool {
        self.signal(roles, Signal::TERM.as_raw());
        if self.outlast(roles, patience) {
            return true;
        }
        self.signal(roles, Signal::KILL.as_raw());
        self.outlast(roles, FIRM);
        false
    }

    /// Ends the processes that served the programs, after these have ended. Returns the error, if
    /// any.
    fn stop_rest(&mut self, has_failed: bool) -> Option<String> {
        if has_failed {
            // Dead nodes never leave, so a memory node would wait until their leases end.
            self.signal(&[Role::Memory], Signal::TERM.as_raw());
            self.outlast(&[Role::Memory], HASTE);
            // The second signal ends the memory node at once.
            self.end(&[Role::Memory], self.limits.kill_after);
        } else {
            self.end(&[Role::Memory], self.limits.drain + self.limits.kill_after);
        }
        let bad = |node: &&Live| node.launch.role == Role::Memory && node.status() != Some(0);
        let problem = self.nodes.iter().find(bad).map(Live::complaint);
        self.end(&[Role::Store], self.limits.kill_after);
        problem
    }
}

fn programs_ended(nodes: &[Live]) -> bool {
    nodes.iter().all(|node| node.launch.role != Role::Program || node.ended.is_some())
}

/// Runs a step to its end.
fn take(
    step: &Step,
    around: &Surroundings<'_>,
    signals: &Signals,
    clock: &Clock,
    deadline: Time,
) -> Result<(), AppError> {
    let failed = |why: String| AppError::Failed(format!("{}: {why}", step.what));
    let input = match &step.input {
        Some(path) => Stdio::from(File::open(path).map_err(|error| failed(error.to_string()))?),
        None => Stdio::null(),
    };
    let words = node::wrap(around.own, Signal::KILL.as_raw(), &step.command);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(MARK, around.mark).process_group(0);
    command.stdin(input).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(format!("it ended with {status}"))),
            Ok(None) => {}
            Err(error) => return Err(failed(error.to_string())),
        }
        let why = match signals.first() {
            Some(signal) => format!("ended by {}", signals::name(signal)),
            None if clock.now() >= deadline => "the time limit is over".to_owned(),
            None => {
                park_timeout(LOOK);
                continue;
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        return Err(failed(why));
    }
}

/// Starts the holder of the network namespaces, and waits until they exist.
fn hold(command: &[String], around: &Surroundings<'_>) -> Result<Child, AppError> {
    let failed =
        |why: String| AppError::Failed(format!("network namespaces cannot be made: {why}"));
    let words = node::wrap(around.own, Signal::KILL.as_raw(), command);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(MARK, around.mark).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let out = child.stdout.take();
    let (said, hears) = channel();
    // The thread ends when the process closes its output.
    thread::spawn(move || {
        let line = out.and_then(|out| BufReader::new(out).lines().next()?.ok());
        let _ = said.send(line);
    });
    match hears.recv_timeout(HOLD) {
        Ok(Some(line)) if line == crate::plan::NAMESPACES => Ok(child),
        _ => {
            let _ = child.kill();
            let _ = child.wait();
            Err(failed("see above".to_owned()))
        }
    }
}
