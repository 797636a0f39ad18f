//! Local accesses come before requests of other nodes, until the [line lease](crate::lease) is
//! over.

use latchwork_latch::Event;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use crate::lease::Lease;
use crate::record::{Outcome, Record, meets};
use crate::worker_core::Inner;

impl Inner {
    /// Whether accesses that wait for the local latch come before requests of other nodes. They do
    /// not if no such access got the latch within [`lapse`](crate::Settings::lapse): then their
    /// thread seems not to run.
    pub(crate) fn is_local_code_first(&self, record: &Record, now: Time) -> bool {
        let node = &*self.node;
        let awaited = record.frame.is_some_and(|id| node.cache.frame(id).is_awaited());
        awaited && record.lease != Lease::Over && {
            let since = record.blocked_since.map_or(now, |since| since.max(record.passed_at));
            since + node.settings.lapse > now
        }
    }

    /// Updates the lease of a line after an event.
    pub(crate) fn see_to_lease(&self, addr: GlobalAddr, record: &mut Record) {
        let node = &*self.node;
        if record.line.is_blocked() {
            record.lease.begin();
        }
        if record.lease.is_used_up(node.settings.lease, node.workers())
            && let Some(id) = record.frame
        {
            record.lease = Lease::Over;
            node.cache.frame(id).give_way(true);
            self.counters.leases_expired.add(1);
            // Accesses that wait for the latch no longer keep requests waiting.
            self.drive(addr, record, Event::Serve);
        }
        if !record.line.is_asked_for() && std::mem::take(&mut record.lease) == Lease::Over {
            self.give_back(addr, record);
        }
    }

    /// Ends the lease after all requests are served: local code uses the ownership that is left,
    /// and requests the rest.
    fn give_back(&self, addr: GlobalAddr, record: &mut Record) {
        if let Some(id) = record.frame {
            let (frame, hold) = (self.node.cache.frame(id), record.line.hold());
            frame.give_way(false);
            for waiter in record.waiters.iter_mut() {
                if meets(hold, waiter.mode) && matches!(waiter.outcome, Outcome::Waiting) {
                    frame.reserve();
                    waiter.end(Outcome::Granted);
                }
            }
        }
        self.want_for_waiters(addr, record);
    }
}
