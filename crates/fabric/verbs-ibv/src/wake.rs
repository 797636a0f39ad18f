//! [`Wake`]: notifies the worker of an endpoint of an event, also while the worker is parked.

use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_runtime::Notifier;

/// The event flag and the notifier of an endpoint's worker.
pub(crate) struct Wake {
    // Set before the worker is notified. The worker's next poll with batches in flight clears the
    // flag.
    pub(crate) fired: AtomicBool,
    pub(crate) notifier: Option<Notifier>,
}

impl Wake {
    /// Records an event that the worker must handle, and notifies the worker.
    pub(crate) fn fire(&self) {
        // The store comes before the notification, which is a full memory fence. So a worker that
        // is about to park sees the notification, or sees this flag in `may_park`. ([`Notifier`]
        // has the argument.)
        self.fired.store(true, Ordering::Release);
        if let Some(notifier) = &self.notifier {
            notifier.notify();
        }
    }
}
