//! Parking of the calling thread, by the standard library.

use std::thread::{self, Thread};
use std::time::Duration;

/// Blocks the calling thread, which must be `me`, until its unpark token is set, and takes the
/// token. Returns at once if the token is already set. May also return without a reason.
pub fn park(me: &Thread) {
    debug_assert_eq!(me.id(), thread::current().id(), "a thread parks itself");
    thread::park();
}

/// Like [`park`], for `timeout` at most.
pub fn park_timeout(me: &Thread, timeout: Duration) {
    debug_assert_eq!(me.id(), thread::current().id(), "a thread parks itself");
    thread::park_timeout(timeout);
}
