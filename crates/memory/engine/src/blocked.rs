//! The lines with queued requests that wait for local code.

use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_check};
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
        strict_assert!(!lines.contains(&addr), "{addr} is in the list of blocked lines already");
        lines.push(addr);
        self.count.store(lines.len(), Ordering::Relaxed);
        strict_check!(self, &lines);
    }

    /// Takes all lines.
    pub(crate) fn take(&self) -> Vec<GlobalAddr> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut lines = self.lines.lock();
        strict_check!(self, &lines);
        self.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *lines)
    }

    /// The count is that of the list. It changes only under the lock of the list.
    fn check(&self, lines: &[GlobalAddr]) {
        let count = self.count.load(Ordering::Relaxed);
        assert_eq!(count, lines.len(), "a sweep would overlook a blocked line");
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Mistake: a step adds a line that is listed already. One sweep would serve the line twice.
    #[test]
    #[should_panic(expected = "in the list of blocked lines already")]
    fn a_line_that_is_listed_twice_is_found() {
        let blocked = Blocked::default();
        blocked.add(GlobalAddr::from_bits(4096));
        blocked.add(GlobalAddr::from_bits(4096));
    }
}
