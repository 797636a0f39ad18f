//! The lines with queued requests that wait for local code.

use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_verbs::GlobalAddr;

/// The lines with queued requests that wait for local code.
#[derive(Default)]
pub(crate) struct Blocked {
    lines: Mutex<Vec<GlobalAddr>>,
    count: AtomicUsize,
}

impl Blocked {
    pub(crate) fn add(&self, addr: GlobalAddr) {
        let mut lines = self.lines.lock();
        lines.push(addr);
        self.count.store(lines.len(), Ordering::Relaxed);
    }

    /// Takes all lines.
    pub(crate) fn take(&self) -> Vec<GlobalAddr> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut lines = self.lines.lock();
        self.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *lines)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}
