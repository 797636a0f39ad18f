//! Signals that ask a program to end: SIGTERM, SIGINT, and SIGHUP, which a terminal that is closed
//! sends.
//!
//! ```text
//!   preparing ───────────► measuring ─────────────► finishing
//!   load, recover          the run                  checks, results
//!
//!   first signal:
//!   phases fail with       the run ends now, as     nothing: all of it
//!   AppError::Stopped;     if its time were over;   is about to end
//!   status 128 + number    status as always
//!
//!   second signal:         the process ends at once, with its status
//! ```
//!
//! Of a program that many processes run together, a signal to one is one to all: the others are
//! told, and do the same. Only a second signal is that one process's own.
//!
//! A handler sets flags and writes one byte into a socket, and does nothing else. A thread that
//! sleeps on the other end does the rest. A program that waits for nothing but its end calls
//! [`wait`]; whoever cannot be ended in order, since it has no end to look for one, is ended by the
//! thread after [`GRACE`].

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::AppError;

/// How long a program that prepares has to end in order.
pub const GRACE: Duration = Duration::from_secs(3);

/// A signal that asks a program to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGINT: somebody pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: whoever runs the program wants it to end.
    Terminate,
    /// SIGHUP: the terminal was closed. Who was started to outlive it (`nohup`) is not asked.
    Hangup,
}

impl Signal {
    const ALL: [Signal; 3] = [Signal::Interrupt, Signal::Terminate, Signal::Hangup];

    /// `SIGINT`, `SIGTERM` or `SIGHUP`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::Hangup => "SIGHUP",
        }
    }

    /// The exit status of a program that it ended: 130, 143 or 129, as shells have it.
    pub fn status(self) -> u8 {
        128 + self.number() as u8
    }

    fn number(self) -> i32 {
        match self {
            Signal::Interrupt => SIGINT,
            Signal::Terminate => SIGTERM,
            Signal::Hangup => SIGHUP,
        }
    }

    /// The signal of this name.
    pub(crate) fn named(name: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// The signal with which a program ends that has this exit status.
    pub(crate) fn of_status(status: u8) -> Option<Signal> {
        status.checked_sub(128).and_then(|number| Signal::of(usize::from(number)))
    }

    fn of(number: usize) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.number() as usize == number)
    }
}

/// What the program does, as far as its end is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Preparing,
    Measuring,
    Finishing,
    /// It gives back what others may want, which has deadlines of its own.
    Leaving,
    /// It is about to return from its main function.
    Over,
}

/// What a signal has to do.
#[derive(PartialEq, Eq, Debug)]
enum Effect {
    /// Phases fail; whoever does not look is ended.
    Abort,
    /// The measured part ends, with a result.
    Drain,
    /// The warm-up ends, and the run without a result.
    EndWarmUp,
    /// All ends soon anyway, or somebody waits for this.
    Nothing,
}

type Hook = Box<dyn Fn(Signal) -> bool + Send>;

struct State {
    stage: Stage,
    /// Ends the measured part, and says whether it had begun.
    hook: Option<Hook>,
    /// The measured part ended so.
    ended_early: bool,
    /// Which other process the signal came to, if it did not come to this one.
    at: Option<String>,
}

/// Where the program stands, and what was asked of it. There is one in a process; tests have their
/// own.
struct Control {
    /// The number of the first signal, or 0. Written under the lock of `state`.
    requested: AtomicU8,
    /// It came while the program prepared.
    aborted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

static CONTROL: Control = Control::new();

static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// What the program is called.
static PROGRAM: OnceLock<&'static str> = OnceLock::new();

impl Control {
    const fn new() -> Control {
        let state = State { stage: Stage::Preparing, hook: None, ended_early: false, at: None };
        Control {
            requested: AtomicU8::new(0),
            aborted: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requested(&self) -> Option<Signal> {
        // Nothing else is read because of it.
        Signal::of(usize::from(self.requested.load(Ordering::Relaxed)))
    }

    fn enter(&self, stage: Stage) {
        self.state().stage = stage;
        self.changed.notify_all();
    }

    /// The first signal came: to this process, or to that of another node.
    fn signalled(&self, signal: Signal, at: Option<&str>) -> Effect {
        let mut state = self.state();
        if self.requested().is_some() {
            return Effect::Nothing;
        }
        self.requested.store(signal.number() as u8, Ordering::Relaxed);
        state.at = at.map(str::to_owned);
        let effect = match state.stage {
            Stage::Preparing => {
                self.aborted.store(true, Ordering::Relaxed);
                Effect::Abort
            }
            Stage::Measuring => {
                state.ended_early = true;
                match state.hook.as_ref().is_none_or(|hook| hook(signal)) {
                    true => Effect::Drain,
                    false => Effect::EndWarmUp,
                }
            }
            Stage::Finishing | Stage::Leaving | Stage::Over => Effect::Nothing,
        };
        self.changed.notify_all();
        effect
    }

    /// Elsewhere the measured part of the run that this process has a part in was ended early, by a
    /// signal to that node.
    fn ended_elsewhere(&self, signal: Signal, at: &str) {
        let mut state = self.state();
        state.ended_early = true;
        if self.requested().is_none() {
            self.requested.store(signal.number() as u8, Ordering::Relaxed);
            state.at = Some(at.to_owned());
        }
    }

    /// What a program ends with that a signal ended before it had a result.
    fn error(&self) -> Option<AppError> {
        let signal = self.requested()?;
        Some(match self.state().at.clone() {
            Some(node) => AppError::StoppedAt(signal, node),
            None => AppError::Stopped(signal),
        })
    }

    /// Waits until the program is over, or about to be, or so long; whether it is.
    fn wait_until_over(&self, deadline: Duration) -> bool {
        let is_running = |state: &mut State| !matches!(state.stage, Stage::Leaving | Stage::Over);
        let waited = self.changed.wait_timeout_while(self.state(), deadline, is_running);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn wait(&self, deadline: Duration) -> Option<Signal> {
        let mut state = self.state();
        if state.stage == Stage::Preparing {
            // From here on it is the caller who ends the program.
            state.stage = Stage::Finishing;
        }
        let none = |_: &mut State| self.requested().is_none();
        drop(self.changed.wait_timeout_while(state, deadline, none));
        self.requested()
    }
}

/// The first signal that came, if one did.
pub fn requested() -> Option<Signal> {
    CONTROL.requested()
}

/// Waits for a signal until `deadline` has passed. To be called by programs that run until they are
/// asked to end: from the first call on they, and nobody else, see to it that they do.
pub fn wait(deadline: Duration) -> Option<Signal> {
    CONTROL.wait(deadline)
}

/// Whether what is under way is to be given up: a signal came while the program prepared, or the
/// program is run by many processes and another cannot go on.
#[inline]
pub fn is_aborted() -> bool {
    CONTROL.aborted.load(Ordering::Relaxed) || GIVEN_UP.load(Ordering::Relaxed)
}

/// What is under way is to be given up, without a signal.
pub(crate) fn give_up() {
    // Nothing else is read because of it.
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Fails where a signal came while the program prepared. For whoever prepares without a
/// [`Phase`](crate::Phase).
///
/// # Errors
/// [`AppError::Stopped`], [`AppError::StoppedAt`].
pub fn check() -> Result<(), AppError> {
    let aborted = CONTROL.aborted.load(Ordering::Relaxed);
    if aborted { error().map_or(Ok(()), Err) } else { Ok(()) }
}

/// What a program ends with that a signal ended before it had a result, if one came.
pub fn error() -> Option<AppError> {
    CONTROL.error()
}

/// What the program is called.
pub(crate) fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("latchwork")
}

/// A signal came to the process of another node, with which this one runs a program: as if it had
/// come here, but that it is not the first of two.
pub(crate) fn told(signal: Signal, node: &str) {
    if requested().is_some() {
        return;
    }
    let node = node.to_owned();
    // It may have to wait. Without a thread this process is asked in vain, and ends with the
    // others' part of the run.
    let attend = move || attend(program(), signal, Some(&node));
    let _ = std::thread::Builder::new().name("signals".into()).spawn(attend);
}

/// As [`ended_early`], because of a signal to the process of another node.
pub(crate) fn ended_elsewhere(signal: Signal, node: &str) {
    CONTROL.ended_elsewhere(signal, node);
}

/// The node that the signal came to, if that is not this process's.
pub(crate) fn came_to() -> Option<String> {
    CONTROL.state().at.clone()
}

/// From here on the program gives back what others may want, and ends: it is not cut short.
pub(crate) fn leaving() {
    CONTROL.enter(Stage::Leaving);
}

/// The signal that ended the measured part early, if one did.
pub fn ended_early() -> Option<Signal> {
    requested().filter(|_| CONTROL.state().ended_early)
}

/// The measured part of a run goes on while this is there.
pub struct Measuring(());

/// Begins the measured part of a run, its warm-up included: a signal calls `end`, on another
/// thread, which has to end it as if its time were over, and must not wait for that. `end` returns
/// whether anything is measured: in the warm-up nothing is.
pub fn measuring(end: impl Fn(Signal) -> bool + Send + 'static) -> Measuring {
    let mut state = CONTROL.state();
    state.stage = Stage::Measuring;
    state.hook = Some(Box::new(end));
    drop(state);
    tracing::info!("a run is measured, its warm-up included");
    Measuring(())
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let mut state = CONTROL.state();
        state.stage = Stage::Finishing;
        let hook = state.hook.take();
        drop(state);
        // What it holds may be large.
        drop(hook);
    }
}

/// From here on signals are taken; `program` is who tells of them.
///
/// # Errors
/// When the operating system refuses: signals then end the process, as they do by default.
pub(crate) fn install(program: &'static str) -> io::Result<()> {
    let _ = PROGRAM.set(program);
    latchwork_files::end_waits_when(|| requested().is_some());
    let (mut receiver, sender) = UnixStream::pair()?;
    let (armed, first) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for signal in Signal::ALL {
        let number = signal.number();
        if signal == Signal::Hangup && is_ignored(number) {
            continue;
        }
        // They act in this order. The first signal arms what the second one does.
        flag::register_conditional_shutdown(number, i32::from(signal.status()), armed.clone())?;
        flag::register(number, armed.clone())?;
        flag::register_usize(number, first.clone(), number as usize)?;
        pipe::register(number, sender.try_clone()?)?;
    }
    let listen = move || {
        let mut byte = [0];
        loop {
            match receiver.read(&mut byte) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => return,
            }
            if let Some(signal) = Signal::of(first.load(Ordering::SeqCst)) {
                attend(program, signal, None);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen)?;
    Ok(())
}

/// Whether this process ignores the signal of this number, as one does that was started by `nohup`.
pub fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (number - 1) != 0
}

/// The program is about to return from its main function, with a status of its own.
pub(crate) fn over() {
    CONTROL.enter(Stage::Over);
}

fn attend(program: &str, signal: Signal, at: Option<&str>) {
    let name = signal.name();
    match (CONTROL.signalled(signal, at), at) {
        (Effect::Drain, None) => tell(&format!(
            "{program}: {name}: the run ends here; what was measured is checked and told. A second signal ends the program at once"
        )),
        (Effect::Drain, Some(node)) => tell(&format!(
            "{program}: {name} at node {node}: the run ends here; what was measured is checked and told"
        )),
        (Effect::Abort, _) if !CONTROL.wait_until_over(GRACE) => {
            if let Some(error) = error() {
                tell(&format!("{program}: {error}"));
            }
            std::process::exit(i32::from(signal.status()));
        }
        // Of a run without a result the program's last line tells.
        (Effect::Abort | Effect::EndWarmUp | Effect::Nothing, _) => {}
    }
}

/// Nobody may be reading any more, which is no reason to panic.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_one_of_shells() {
        assert_eq!(Signal::ALL.map(Signal::status), [130, 143, 129]);
        for signal in Signal::ALL {
            assert_eq!(Signal::of(signal.number() as usize), Some(signal));
        }
        assert_eq!(Signal::of(0), None);
    }

    #[test]
    fn who_prepares_is_aborted_and_who_measures_drains() {
        let control = Control::new();
        assert_eq!(control.signalled(Signal::Terminate, None), Effect::Abort);
        assert!(control.aborted.load(Ordering::Relaxed));
        assert_eq!(control.requested(), Some(Signal::Terminate));

        let control = Control::new();
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        control.state().hook = Some(Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            true
        }));
        control.enter(Stage::Measuring);
        assert_eq!(control.signalled(Signal::Interrupt, None), Effect::Drain);
        assert_eq!(control.signalled(Signal::Terminate, None), Effect::Nothing, "the first counts");
        assert_eq!(control.requested(), Some(Signal::Interrupt));
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        assert!(control.state().ended_early && !control.aborted.load(Ordering::Relaxed));
    }

    #[test]
    fn a_signal_in_the_warm_up_ends_a_run_that_has_no_result() {
        let control = Control::new();
        control.state().hook = Some(Box::new(|_| false));
        control.enter(Stage::Measuring);
        assert_eq!(control.signalled(Signal::Terminate, None), Effect::EndWarmUp);
    }

    #[test]
    fn who_finishes_is_left_alone() {
        let control = Control::new();
        control.enter(Stage::Finishing);
        assert_eq!(control.signalled(Signal::Terminate, None), Effect::Nothing);
        assert!(!control.state().ended_early);
    }

    #[test]
    fn whoever_waits_is_told_and_ends_the_program_itself() {
        let control = Control::new();
        assert_eq!(control.wait(Duration::from_millis(1)), None, "it has a deadline");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| control.wait(Duration::from_secs(60)));
            assert_eq!(control.signalled(Signal::Interrupt, None), Effect::Nothing);
            assert_eq!(waiter.join().expect("no panic"), Some(Signal::Interrupt));
        });
    }

    #[test]
    fn a_signal_to_another_node_is_one_to_this_and_only_the_first_counts() {
        let control = Control::new();
        assert_eq!(control.signalled(Signal::Terminate, Some("C2")), Effect::Abort);
        assert_eq!(control.signalled(Signal::Interrupt, None), Effect::Nothing);
        let error = control.error().expect("it came");
        assert_eq!(error.status(), 143);
        assert_eq!(error.to_string(), "ended by SIGTERM at node C2 before it had a result");
    }

    #[test]
    fn a_part_that_was_over_already_is_one_of_a_run_that_ended_early() {
        let control = Control::new();
        control.enter(Stage::Finishing);
        control.ended_elsewhere(Signal::Interrupt, "C3");
        assert!(control.state().ended_early && !control.aborted.load(Ordering::Relaxed));
        assert_eq!(control.requested(), Some(Signal::Interrupt));
    }

    #[test]
    fn who_gives_back_what_it_has_is_not_cut_short() {
        let control = Control::new();
        control.enter(Stage::Leaving);
        assert!(control.wait_until_over(Duration::ZERO));
    }

    #[test]
    fn who_does_not_end_in_time_is_found_out() {
        let control = Control::new();
        assert!(!control.wait_until_over(Duration::from_millis(1)));
        control.enter(Stage::Over);
        assert!(control.wait_until_over(Duration::ZERO));
    }
}
