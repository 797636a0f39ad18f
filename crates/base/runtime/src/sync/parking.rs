//! Parking of the calling thread.

use std::thread::{self, Thread};
use std::time::Duration;

/// Blocks the calling thread, which is `me`, until somebody unparks it, or has since it was parked
/// last. May also end for no reason.
pub fn park(me: &Thread) {
    debug_assert_eq!(me.id(), thread::current().id(), "a thread parks itself");
    thread::park();
}

/// As [`park`], for so long at most.
pub fn park_timeout(me: &Thread, timeout: Duration) {
    debug_assert_eq!(me.id(), thread::current().id(), "a thread parks itself");
    thread::park_timeout(timeout);
}
