//! Waits of tests, in real time.

use std::time::Duration;

/// Waits until a condition holds, for at most [`LONG`].
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = now();
    while !condition() {
        assert!(begin.elapsed() < LONG, "waited {LONG:?} for {what}");
        sleep(Duration::from_millis(1));
    }
}

/// Puts the thread to sleep.
#[allow(clippy::disallowed_methods, reason = "other processes are a matter of real time")]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// The present time, for measurements.
#[allow(clippy::disallowed_methods, reason = "other processes are a matter of real time")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// A limit for one step of a test. No step takes this long, even on a very busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);
