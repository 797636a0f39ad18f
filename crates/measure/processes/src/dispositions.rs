//! Programs start with the dispositions of signals that they have by default.

use std::process::Command;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use latchwork_harness::stop::is_ignored;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// What a test may be started with, and a program must not inherit from it: `nohup` ignores SIGHUP,
/// and a shell that starts a job in the background SIGINT and SIGQUIT.
const SIGNALS: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2];

/// A command whose process ignores no signal, however this process was started. Whatever starts a
/// program for a test takes this, and not `Command::new`.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    reset();
    Command::new(program)
}

/// A signal that is ignored stays ignored in a new program; one that has a handler gets its default
/// back (`execve`). So this process gets handlers that do nothing, which is to this process as if
/// the signals were ignored still.
fn reset() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        for signal in SIGNALS.into_iter().filter(|signal| is_ignored(*signal)) {
            let handled = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
            handled.expect("a signal that can have a handler");
        }
    });
}
