//! Handles the signals that request the end of a program: SIGTERM, SIGINT, and SIGHUP, which a
//! closed terminal causes.
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
//! In a run of many processes, a signal to one process counts for all: the other processes are
//! notified and react in the same way. A second signal ends only the process that receives it.
//!
//! The signal handler sets flags and writes one byte into a socket. At the second signal the
//! handler ends the process. A thread reads the socket and does all other work. A program that only
//! waits for its end calls [`wait`]. If a preparing program has not ended [`GRACE`] after the
//! signal, the thread ends the process.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use latchwork_strict::strict_assert;
use signal_hook::{flag, low_level::pipe};

use crate::error::AppError;

pub use crate::signal::Signal;

/// The time that a preparing program has to end after a signal, before the process is ended.
pub const GRACE: Duration = Duration::from_secs(3);

/// The stage of the program, which decides the effect of a signal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Preparing,
    Measuring,
    Finishing,
    /// The program releases its lines and leaves the cluster. These steps have deadlines of their
    /// own.
    Leaving,
    /// The program is about to return from its main function.
    Over,
}

/// The effect of a signal.
#[derive(PartialEq, Eq, Debug)]
enum Effect {
    /// Phases fail. If the program does not end within [`GRACE`], the process is ended.
    Abort,
    /// The measured part ends, with a result.
    Drain,
    /// The warm-up ends, and the run ends without a result.
    EndWarmUp,
    /// No effect: the program ends soon anyway, its main thread waits for this signal, or an
    /// earlier signal came.
    Nothing,
}

type Hook = Box<dyn Fn(Signal) -> bool + Send>;

struct State {
    stage: Stage,
    /// The function that ends the measured part. The function returns false if the run was still in
    /// its warm-up.
    hook: Option<Hook>,
    /// Whether a signal ended the measured part or its warm-up.
    ended_early: bool,
    /// The node of the other process that received the signal; `None` if this process received it.
    at: Option<String>,
}

/// The stage of the program, and the received signal. A process has one, `CONTROL`. Tests make
/// their own.
struct Control {
    /// The number of the first signal, or 0. Written under the lock of `state`.
    requested: AtomicU8,
    /// Whether the signal came while the program prepared.
    aborted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

static CONTROL: Control = Control::new();

static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The program's name.
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
        // A poisoned lock is used: one assignment sets each field, so no field is half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requested(&self) -> Option<Signal> {
        // Relaxed: no other read depends on this one.
        Signal::of(usize::from(self.requested.load(Ordering::Relaxed)))
    }

    fn enter(&self, stage: Stage) {
        let mut state = self.state();
        strict_assert!(stage >= state.stage, "a program goes from {:?} to {stage:?}", state.stage);
        state.stage = stage;
        drop(state);
        self.changed.notify_all();
    }

    /// Handles a signal to this process, or to the process of the node `at`. Only the first signal
    /// has an effect here.
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

    /// Records that a signal to the process of node `at` ended the measured part there.
    fn ended_elsewhere(&self, signal: Signal, at: &str) {
        let mut state = self.state();
        state.ended_early = true;
        if self.requested().is_none() {
            self.requested.store(signal.number() as u8, Ordering::Relaxed);
            state.at = Some(at.to_owned());
        }
    }

    /// The error of a program that a signal ended before it had a result. `None` if no signal came.
    fn error(&self) -> Option<AppError> {
        let signal = self.requested()?;
        Some(match self.state().at.clone() {
            Some(node) => AppError::StoppedAt(signal, node),
            None => AppError::Stopped(signal),
        })
    }

    /// Waits until the program is leaving or over, or until the deadline passes. Returns whether
    /// the program is leaving or over.
    fn wait_until_over(&self, deadline: Duration) -> bool {
        let is_running = |state: &mut State| !matches!(state.stage, Stage::Leaving | Stage::Over);
        let waited = self.changed.wait_timeout_while(self.state(), deadline, is_running);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn wait(&self, deadline: Duration) -> Option<Signal> {
        let mut state = self.state();
        if state.stage == Stage::Preparing {
            // The caller ends the program itself, so a signal does not abort it.
            state.stage = Stage::Finishing;
        }
        let none = |_: &mut State| self.requested().is_none();
        drop(self.changed.wait_timeout_while(state, deadline, none));
        self.requested()
    }
}

/// The first signal that this process received or was notified of.
pub fn requested() -> Option<Signal> {
    CONTROL.requested()
}

/// Waits for a signal, for at most `deadline`. This is for programs that run until a signal
/// requests their end. From the first call on, a signal does not abort the program, because the
/// program ends itself.
pub fn wait(deadline: Duration) -> Option<Signal> {
    CONTROL.wait(deadline)
}

/// Whether the program must abandon its work: a signal came while the program prepared, or a
/// process of the run cannot continue.
#[inline]
pub fn is_aborted() -> bool {
    CONTROL.aborted.load(Ordering::Relaxed) || GIVEN_UP.load(Ordering::Relaxed)
}

/// Makes [`is_aborted`] true without a signal.
pub(crate) fn give_up() {
    // Relaxed: no other read depends on this flag.
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Fails if a signal came while the program prepared. This is for preparing code without a
/// [`PhaseProgress`](crate::PhaseProgress).
///
/// # Errors
/// [`AppError::Stopped`], [`AppError::StoppedAt`].
pub fn check() -> Result<(), AppError> {
    let aborted = CONTROL.aborted.load(Ordering::Relaxed);
    if aborted { error().map_or(Ok(()), Err) } else { Ok(()) }
}

/// The error for a program that a signal ended before it had a result. `None` if no signal came.
pub fn error() -> Option<AppError> {
    CONTROL.error()
}

/// The program's name.
pub(crate) fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("latchwork")
}

/// Handles a signal to the process of another node of the run. The effect is that of a signal to
/// this process. But the next signal to this process does not end it at once.
pub(crate) fn told(signal: Signal, node: &str) {
    if requested().is_some() {
        return;
    }
    let node = node.to_owned();
    // The handler may have to wait, so it runs on a thread. If no thread can start, this process
    // ignores the signal.
    let attend = move || attend(program(), signal, Some(&node));
    let _ = std::thread::Builder::new().name("signals".into()).spawn(attend);
}

/// Records that a signal to the process of another node ended the measured part early.
pub(crate) fn ended_elsewhere(signal: Signal, node: &str) {
    CONTROL.ended_elsewhere(signal, node);
}

/// The node that received the signal, if it is not this process's node.
pub(crate) fn came_to() -> Option<String> {
    CONTROL.state().at.clone()
}

/// Enters the stage in which the program leaves the cluster. [`GRACE`] does not apply to this
/// stage.
pub(crate) fn leaving() {
    CONTROL.enter(Stage::Leaving);
}

/// The signal that ended the measured part or its warm-up early, if one did.
pub fn ended_early() -> Option<Signal> {
    requested().filter(|_| CONTROL.state().ended_early)
}

/// The measured part of a run lasts until this value is dropped.
pub struct Measuring(());

/// Begins the measured part of a run. Here the measured part includes the warm-up.
///
/// When a signal comes, `end` is called on another thread. `end` must end the run as if its time
/// were over, and must not wait for the end. `end` returns false in the warm-up, when nothing has
/// been measured.
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
        // The hook may hold a large value, so it is dropped outside the lock.
        drop(hook);
    }
}

/// Installs the signal handlers. `program` is the name in messages.
///
/// # Errors
/// When the operating system refuses a socket, a handler or a thread. A signal without a handler
/// then ends the process, as by default. A signal with a handler may have no effect the first time,
/// and ends the process the second time.
pub fn install(program: &'static str) -> io::Result<()> {
    let _ = PROGRAM.set(program);
    latchwork_files::end_waits_when(|| requested().is_some());
    let (mut receiver, sender) = UnixStream::pair()?;
    let (armed, first) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for signal in Signal::ALL {
        let number = signal.number();
        if signal == Signal::Hangup && is_ignored(number) {
            continue;
        }
        // The order matters: at a signal, the first action ends the process if `armed` is set, and
        // the second action sets `armed`. So the second signal ends the process.
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

/// Whether this process ignores the signal of this number, as a process under `nohup` does.
pub fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (number - 1) != 0
}

/// Records that the program is about to return from its main function.
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
        // Nothing to print: the last line of the program reports the end.
        (Effect::Abort | Effect::EndWarmUp | Effect::Nothing, _) => {}
    }
}

/// Prints a line. A failed write is ignored: standard error may be closed.
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
    fn a_program_that_prepares_is_aborted_and_one_that_measures_drains() {
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
    fn a_program_that_finishes_is_left_alone() {
        let control = Control::new();
        control.enter(Stage::Finishing);
        assert_eq!(control.signalled(Signal::Terminate, None), Effect::Nothing);
        assert!(!control.state().ended_early);
    }

    #[test]
    fn a_waiting_caller_is_notified_and_ends_the_program_itself() {
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
    fn a_program_that_gives_back_what_it_has_is_not_cut_short() {
        let control = Control::new();
        control.enter(Stage::Leaving);
        assert!(control.wait_until_over(Duration::ZERO));
    }

    #[test]
    fn a_program_that_does_not_end_in_time_is_found_out() {
        let control = Control::new();
        assert!(!control.wait_until_over(Duration::from_millis(1)));
        control.enter(Stage::Over);
        assert!(control.wait_until_over(Duration::ZERO));
    }
}
