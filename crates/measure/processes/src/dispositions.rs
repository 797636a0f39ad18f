//! Programs start with the default dispositions of signals.

use std::process::Command;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use latchwork_harness::stop::is_ignored;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Signals that a test may ignore, and that a program must not inherit as ignored. `nohup` ignores
/// SIGHUP. A shell that starts a job in the background ignores SIGINT and SIGQUIT.
const SIGNALS: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2];

/// A command whose process inherits none of these signals as ignored, however this process was
/// started. Tests start programs with this function, and not with `Command::new`.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    reset();
    Command::new(program)
}

/// Gives this process handlers that do nothing for its ignored signals.
///
/// 1. An ignored signal stays ignored in a new program. A signal with a handler gets its default
///    back (`execve`).
/// 2. For this process, a handler that does nothing has the effect of an ignored signal.
fn reset() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        for signal in SIGNALS.into_iter().filter(|signal| is_ignored(*signal)) {
            let handled = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
            handled.expect("a signal that can have a handler");
        }
    });
}
