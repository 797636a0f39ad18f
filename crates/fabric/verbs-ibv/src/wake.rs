//! [`Wake`]: wakes the worker of an endpoint.

use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_runtime::Notifier;

/// Wakes the worker of an endpoint.
pub(crate) struct Wake {
    // Set before the worker is notified; cleared by the worker's next poll with batches in flight.
    pub(crate) fired: AtomicBool,
    pub(crate) notifier: Option<Notifier>,
}

impl Wake {
    /// Records an event that the worker must handle, and notifies the worker.
    pub(crate) fn fire(&self) {
        // The store comes before the notification, which is a full memory fence. A worker that is
        // about to park sees either the notification or this flag. (`Notifier` has the argument;
        // `may_park` reads the flag.)
        self.fired.store(true, Ordering::Release);
        if let Some(notifier) = &self.notifier {
            notifier.notify();
        }
    }
}
