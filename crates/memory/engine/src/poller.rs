//! The poller of a worker: the work of each sweep, and the conditions under which the worker parks.

use std::rc::{Rc, Weak};
use std::time::Duration;

use latchwork_runtime::sync::Ordering;
use latchwork_runtime::{Poller, Time};
use latchwork_strict::strict_assert;
use latchwork_verbs::{Inbox as _, Subscription as _};

use crate::inner::{Inner, Kept};
use crate::protocol::CoherenceProtocol;
use crate::rounds::OUT;
use crate::worker_core::Role;

/// How often a handler checks for requests that the workers should have served.
pub(crate) const COVER_INTERVAL: Duration = Duration::from_millis(1);

/// The most additional doorbells at the end of one sweep, for batches that follow from completions.
/// A refused access takes two. The bound returns the worker to the messages of other nodes.
const RINGS_MAX: usize = 4;

impl<P: CoherenceProtocol> Inner<P> {
    /// The time at which this worker must serve the first alarm of the node.
    ///
    /// While workers are awake, they serve the alarms: each worker checks on every sweep. A worker
    /// that parks takes the first alarm as its deadline, and a worker that ends wakes the handler.
    ///
    /// A handler that woke for each alarm would take the core from these workers, and would seldom
    /// sleep where alarms are many. So while a worker is awake, the handler looks only after
    /// [`COVER_INTERVAL`]. That is soon enough if the awake workers do not poll for long, or if a
    /// worker parked just when the handler set an alarm. When all workers are parked, the handler
    /// serves the alarm on time.
    pub(crate) fn next_alarm(&self) -> Option<Time> {
        let alarm = self.node_core.timers.next()?;
        let covers = self.role == Role::Handler && self.node_core.awake.load(Ordering::Relaxed) > 0;
        let cover = if covers { self.core.handle.sweep_time() + COVER_INTERVAL } else { alarm };
        Some(alarm.max(cover))
    }

    fn poll_port(&self) -> bool {
        if self.core.port.in_flight() == 0 {
            return false;
        }
        let mut completions = self.completions.take();
        strict_assert!(completions.is_empty(), "a completion is served within a completion");
        // True also when only the batch of a future completed. A caller that drives that future
        // without a waker needs another sweep before the worker parks.
        let any = self.core.port.poll(&mut |tag, result| completions.push((tag, result)));
        for (tag, result) in completions.drain(..) {
            self.completed(tag, result.map(|outcome| outcome.old[0]));
        }
        self.completions.replace(completions);
        any
    }

    /// Submits the posted batches.
    ///
    /// Some fabrics complete batches as they are submitted. Then the following batches are
    /// submitted in the same step: the invalidation request after a refused operation, or the
    /// message after a hand-over. So these batches do not wait for the next sweep. On other fabrics
    /// the first poll mostly finds no completion.
    fn ring(&self) {
        self.core.port.ring();
        for _ in 0..RINGS_MAX {
            if !self.poll_port() {
                return;
            }
            self.polled_late.set(true);
            self.core.port.ring();
        }
    }
}

/// The poller of a worker: it serves the node on every sweep, as long as the worker lives.
pub(crate) struct Pump<P: CoherenceProtocol> {
    pub(crate) inner: Weak<Inner<P>>,
    pub(crate) kept: Rc<Kept<P>>,
}

impl<P: CoherenceProtocol> Poller for Pump<P> {
    fn poll(&self, _now: Time) -> bool {
        let Some(inner) = self.inner.upgrade() else { return false };
        inner.core.mind_permission();
        let mut any = inner.polled_late.take();
        any |= inner.poll_port();
        any |= inner.inbox.receive(&mut |message| inner.received(&message));
        any |= inner.see_to_the_missed();
        any |= inner.see_to_rounds();
        any |= inner.fire_alarms();
        any |= inner.serve_blocked();
        any |= inner.release_what_is_over();
        any |= inner.evict_if_short();
        any
    }

    fn flush(&self) {
        if let Some(inner) = self.inner.upgrade() {
            // The tasks of this sweep have run and may have dropped tickets. So requests that
            // waited for these tickets are served now, and not on the next sweep.
            if inner.core.let_go.take() {
                inner.serve_blocked();
            }
            // The evictions leave with the same doorbell as the operations that took the frames.
            inner.evict_if_short();
            inner.ring();
            if inner.core.unfinished() == 0 {
                strict_assert!(
                    inner.core.letters.borrow().is_empty(),
                    "no batch is in flight, and a message waits for its completion"
                );
                // If the poller keeps a worker without a handle, that worker ends here. `inner`
                // still refers to the worker, so the worker is dropped after the borrow of the slot
                // has ended.
                self.kept.take();
            }
        }
    }

    fn is_settled(&self) -> bool {
        let Some(inner) = self.inner.upgrade() else { return true };
        !inner.polled_late.get()
            && inner.node_core.blocked.is_empty()
            && inner.core.releases.borrow().is_empty()
            && !inner.is_short()
    }

    fn next_deadline(&self) -> Option<Time> {
        let inner = self.inner.upgrade()?;
        let alarm = inner.next_alarm();
        inner.reported.set(alarm);
        // The workers serve blocked lines when they drop a ticket. The handler only covers for the
        // workers, so a longer interval is enough for the handler.
        let interval = match inner.role {
            Role::Worker => inner.node_core.settings.serve_interval,
            Role::Handler => COVER_INTERVAL,
        };
        let now = inner.core.handle.sweep_time();
        let serve = (!inner.node_core.blocked.is_empty()).then(|| now + interval);
        let cover = match inner.role {
            Role::Worker => None,
            Role::Handler => inner.node_core.cover.next(now),
        };
        inner.covers.set(cover.is_some());
        [alarm, serve, cover].into_iter().flatten().min()
    }

    fn may_park(&self) -> bool {
        let Some(inner) = self.inner.upgrade() else { return true };
        // A caller that drives a future of the port without a waker needs one more sweep.
        let seen = !inner.polled_late.get();
        let idle = seen && inner.core.port.may_park() && inner.core.releases.borrow().is_empty();
        // A worker that has just ended may have left an alarm since the handler last checked. That
        // worker notifies the handler either before or after the handler announces that it parks.
        // If before, this check sees the alarm. If after, the notification wakes the handler.
        let missed = inner.role == Role::Handler
            && inner
                .next_alarm()
                .is_some_and(|alarm| inner.reported.get().is_none_or(|at| alarm < at));
        // A worker may have requested cover since the deadline was computed. The worker stores the
        // time before it notifies, and this check comes after the announcement. So the handler sees
        // the time or gets the notification.
        let uncovered = inner.role == Role::Handler
            && !inner.covers.get()
            && inner.node_core.cover.next(inner.core.handle.sweep_time()).is_some();
        if !idle || missed || uncovered || !inner.subscription.park() {
            return false;
        }
        inner.parked.set(true);
        let operates = inner.node.protocol.has_older(&inner.in_flight, OUT);
        if inner.core.letters.borrow().is_empty() && !operates {
            inner.core.mark.set_out();
        }
        inner.count_awake(-1);
        // A worker on a contended core parks instead of yielding. So it reaches this point soon
        // after the executor has found that the core is contended.
        let (now, until) = (inner.core.handle.sweep_time(), inner.core.handle.contended_until());
        if inner.role == Role::Worker && now < until {
            inner.node_core.cover(now, until);
        }
        true
    }

    fn doze(&self, time: Duration) -> bool {
        self.inner.upgrade().is_some_and(|inner| inner.core.port.doze(time))
    }

    fn unparked(&self) {
        let Some(inner) = self.inner.upgrade() else { return };
        inner.subscription.unparked();
        if inner.parked.take() {
            inner.core.mark.set(inner.core.marked.get());
            inner.count_awake(1);
        }
    }
}
