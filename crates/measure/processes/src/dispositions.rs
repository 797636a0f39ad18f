//! Programs that a test starts inherit no ignored signal.

use std::process::Command;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use latchwork_harness::stop::is_ignored;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Signals that a test may ignore, and that a program must not inherit as ignored. `nohup` ignores
/// SIGHUP. A shell that starts a job in the background ignores SIGINT and SIGQUIT.
const SIGNALS: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2];

/// A command whose process does not inherit an ignored SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD,
/// SIGUSR1 or SIGUSR2 from this process. Tests start programs with this function, not with
/// `Command::new`.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    reset();
    Command::new(program)
}

/// Gives each ignored signal of this process a handler that only sets a flag.
///
/// 1. `execve` keeps an ignored signal ignored in the new program. `execve` resets a signal with a
///    handler to its default.
/// 2. So a child of this process starts with the default. For this process itself, the handler has
///    the effect of an ignored signal.
fn reset() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        for signal in SIGNALS.into_iter().filter(|signal| is_ignored(*signal)) {
            let handled = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
            handled.expect("a signal that can have a handler");
        }
    });
}
