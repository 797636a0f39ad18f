//! Signals that request the end of a program: SIGTERM, SIGINT, and SIGHUP, which a closed terminal
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
//! In a program of many processes, a signal to one process counts for all: the other processes are
//! notified, and do the same. Only a second signal ends just the one process.
//!
//! A handler sets flags and writes one byte into a socket. At the second signal it ends the process
//! instead. A thread on the other end of the socket does the rest. A program that waits only for
//! its end calls [`wait`]. If a preparing program does not end in order, because it never checks
//! for an end, the thread ends it after [`GRACE`].

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use latchwork_strict::strict_assert;
use signal_hook::{flag, low_level::pipe};

use crate::error::AppError;

pub use crate::signal::Signal;

/// The time that a preparing program has to end in order.
pub const GRACE: Duration = Duration::from_secs(3);

/// The stage of the program with regard to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Preparing,
    Measuring,
    Finishing,
    /// The program releases what other nodes may need, within deadlines of its own.
    Leaving,
    /// The program is about to return from its main function.
    Over,
}

/// The effect of a signal.
#[derive(PartialEq, Eq, Debug)]
enum Effect {
    /// Phases fail; a program that does not check is ended.
    Abort,
    /// The measured part ends, with a result.
    Drain,
    /// The warm-up ends, and the run ends without a result.
    EndWarmUp,
    /// The program ends soon anyway, it waits for this signal, or an earlier signal came.
    Nothing,
}

type Hook = Box<dyn Fn(Signal) -> bool + Send>;

struct State {
    stage: Stage,
    /// Ends the measured part. Returns false if the run was still in its warm-up.
    hook: Option<Hook>,
    /// A signal ended the measured part or its warm-up.
    ended_early: bool,
    /// The node of the other process that received the signal; `None` if this process received it.
    at: Option<String>,
}

/// The stage of the program, and the received signal. One process has one; tests have their own.
struct Control {
    /// The number of the first signal, or 0. Written under the lock of `state`.
    requested: AtomicU8,
    /// The signal came while the program prepared.
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
        // A panic under the lock leaves a usable state: each field is set by one assignment.
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

    /// Handles the first signal, to this process or to that of another node.
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

    /// Records that a signal to the node `at` ended the measured part of the common run there.
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
            // From here on the caller ends the program.
            state.stage = Stage::Finishing;
        }
        let none = |_: &mut State| self.requested().is_none();
        drop(self.changed.wait_timeout_while(state, deadline, none));
        self.requested()
    }
}

/// The first signal, if one came.
pub fn requested() -> Option<Signal> {
    CONTROL.requested()
}

/// Waits for a signal until `deadline` has passed. For programs that run until a signal requests
/// their end. From the first call on, a first signal does not abort the program: the program ends
/// itself.
pub fn wait(deadline: Duration) -> Option<Signal> {
    CONTROL.wait(deadline)
}

/// Whether the work in progress must be abandoned. Either a signal came while the program prepared,
/// or another process of the same program cannot continue.
#[inline]
pub fn is_aborted() -> bool {
    CONTROL.aborted.load(Ordering::Relaxed) || GIVEN_UP.load(Ordering::Relaxed)
}

/// Abandons the work in progress, without a signal.
pub(crate) fn give_up() {
    // Relaxed: no other read depends on this flag.
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Fails if a signal came while the program prepared. For code that prepares without a
/// [`PhaseProgress`](crate::PhaseProgress).
///
/// # Errors
/// [`AppError::Stopped`], [`AppError::StoppedAt`].
pub fn check() -> Result<(), AppError> {
    let aborted = CONTROL.aborted.load(Ordering::Relaxed);
    if aborted { error().map_or(Ok(()), Err) } else { Ok(()) }
}

/// The error of a program that a signal ended before it had a result, if a signal came.
pub fn error() -> Option<AppError> {
    CONTROL.error()
}

/// The program's name.
pub(crate) fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("latchwork")
}

/// Handles a signal to the process of another node of the same program. The effect is that of a
/// signal to this process, except that it does not count as the first of two.
pub(crate) fn told(signal: Signal, node: &str) {
    if requested().is_some() {
        return;
    }
    let node = node.to_owned();
    // The handler may have to wait, so it runs on a thread. Without a thread this process ignores
    // the signal, and ends with the other processes' part of the run.
    let attend = move || attend(program(), signal, Some(&node));
    let _ = std::thread::Builder::new().name("signals".into()).spawn(attend);
}

/// As [`ended_early`], because of a signal to the process of another node.
pub(crate) fn ended_elsewhere(signal: Signal, node: &str) {
    CONTROL.ended_elsewhere(signal, node);
}

/// The node that received the signal, if it is not this process's node.
pub(crate) fn came_to() -> Option<String> {
    CONTROL.state().at.clone()
}

/// From here on the program releases what other nodes may need, and ends. The grace period does not
/// apply to it.
pub(crate) fn leaving() {
    CONTROL.enter(Stage::Leaving);
}

/// The signal that ended the measured part or its warm-up early, if one did.
pub fn ended_early() -> Option<Signal> {
    requested().filter(|_| CONTROL.state().ended_early)
}

/// The measured part of a run goes on while this value exists.
pub struct Measuring(());

/// Begins the measured part of a run, its warm-up included.
///
/// A signal calls `end` on another thread. `end` has to end the run as if its time were over,
/// without waiting for the end. `end` returns whether anything is measured; in the warm-up it
/// returns false.
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

/// From here on the process handles signals; `program` is the name in its messages.
///
/// # Errors
/// When the operating system refuses. Signals without a handler then end the process as by default.
/// A signal with a handler may have no effect at first, and ends the process the second time.
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
        // The first two actions run in this order, so that the first signal arms the end of the
        // process by the second signal.
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

/// The program is about to return from its main function, with its own status.
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
        // The program's last line reports a run without a result.
        (Effect::Abort | Effect::EndWarmUp | Effect::Nothing, _) => {}
    }
}

/// The reader may have closed standard error, which is no reason to panic.
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
