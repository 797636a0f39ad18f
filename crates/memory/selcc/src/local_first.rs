//! Local accesses come before requests of other nodes, until the [line lease](crate::line_lease) is
//! over.

use latchwork_latch::Event;
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;

use crate::counts::LatchCount;
use crate::line::ownership;
use crate::line_lease::Lease;
use crate::selcc::{LatchSite, Selcc};

impl Selcc {
    /// Whether accesses that wait for the local latch come before requests of other nodes. The
    /// accesses do not come first if the line lease is over. Nor do they if no such access got the
    /// latch within [`lapse`](latchwork_engine::NodeSettings::lapse), because their threads are
    /// most likely not running.
    #[inline]
    pub(crate) fn is_local_code_first(&self, site: &LatchSite<'_>, now: Time) -> bool {
        let (node, local) = (&*site.worker.node, &*site.local);
        let awaited = local.frame.is_some_and(|id| node.cache().frame(id).is_awaited());
        awaited && site.line.lease != Lease::Over && {
            let since = local.blocked_since.map_or(now, |since| since.max(local.passed_at));
            since + node.settings().lapse > now
        }
    }

    /// Updates the lease of a line after an event.
    pub(crate) fn see_to_lease(&self, site: &mut LatchSite<'_>) {
        let node = &*site.worker.node;
        if site.line.machine.is_blocked() {
            site.line.lease.begin();
        }
        if site.line.lease.is_used_up(self.settings.lease, node.workers())
            && let Some(id) = site.local.frame
        {
            site.line.lease = Lease::Over;
            node.cache().frame(id).give_way(true);
            LatchCount::LeasesExpired.count(site.worker);
            // Accesses that wait for the latch no longer keep requests waiting.
            self.drive(site, Event::Serve);
        }
        if !site.line.machine.has_requests() && std::mem::take(&mut site.line.lease) == Lease::Over
        {
            self.end_lease(site);
        }
    }

    /// Ends the lease after all requests are answered. The node still has some ownership or none.
    /// Waiting accesses get that ownership, and the node requests the line for the others.
    fn end_lease(&self, site: &mut LatchSite<'_>) {
        strict_assert!(!site.line.machine.has_requests(), "a lease ends before its requests do");
        strict_assert!(site.line.lease == Lease::Off, "the lease goes on after its end");
        if let Some(id) = site.local.frame {
            let frame = site.worker.node.cache().frame(id);
            frame.give_way(false);
            site.local.waiters.grant(frame, ownership(site.line.machine.hold()));
        }
        self.request_for_waiters(site);
    }
}
