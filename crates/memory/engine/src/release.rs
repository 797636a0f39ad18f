//! Release of lines that no other node has requested. Without lazy release (SEL) a line is released
//! at once. With adaptive release the node releases the lines that other nodes would most likely
//! take anyway ([`History`](crate::line_history::History)).

use latchwork_cache::{FrameWatch, Ownership};
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use crate::alarms::Alarm;
use crate::inner::Inner;
use crate::line_history::{LOOK, PREDICTION_MISSES, TRIAL};
use crate::node_core::NodeCore;
use crate::protocol::{CoherenceProtocol, LineState};
use crate::record::{LocalSide, Record};
use crate::worker_core::WorkerCore;

impl<P: CoherenceProtocol> Inner<P> {
    /// Schedules the release of an unused line, if release is not lazy or the line is marked
    /// `unwanted`. A reserved or locked line is not scheduled: the end of that reservation or lock
    /// decides about the line.
    pub(crate) fn release_eagerly(&self, addr: GlobalAddr, record: &mut Record<P::Line>) {
        let held = record.line.is_at_rest() && record.line.hold() != Ownership::Invalid;
        if !held || self.node_core.lazy_release && !std::mem::take(&mut record.local.unwanted) {
            return;
        }
        let Some(id) = record.local.frame else { return };
        let frame = self.node_core.cache.frame(id);
        if frame.is_reserved() || frame.is_kept() {
            return;
        }
        match self.core.held(id) {
            None => self.core.releases.borrow_mut().push(addr),
            // With lazy release the line is kept after all.
            Some(_) if self.node_core.lazy_release => {}
            // The alarm is needed: if the access that obtained the line was dropped, no other event
            // may come.
            Some(until) => self.core.look_again_when_let_go(addr, &mut record.local, until),
        }
    }

    /// Releases the lines that [`release_eagerly`](Inner::release_eagerly) has found.
    pub(crate) fn release_what_is_over(&self) -> bool {
        if self.core.releases.borrow().is_empty() {
            return false;
        }
        let mut any = false;
        let lines = self.core.releases.take();
        for addr in lines {
            any |= self.evict(addr);
        }
        any
    }

    /// Handles the end of an access that obtained the line, where such ends matter
    /// ([`NodeCore::minds_ends`]). The line is released at once, is marked to be released, or
    /// becomes recent. The oldest recent line may leave the recent lines.
    pub(crate) fn accessed(&self, addr: GlobalAddr) {
        let node = &*self.node_core;
        if !node.lazy_release {
            // Released at once and not on the next sweep: the worker's next access must not find
            // the line here.
            self.evict(addr);
            return;
        }
        let sure = self.core.contested(addr);
        let contested = sure.is_some();
        let keep = sure.is_some_and(|sure| self.core.handle.random_below(TRIAL << sure) == 0);
        let hurried = || node.history.is_hurried(addr) && self.core.handle.random_below(LOOK) != 0;
        if contested && !keep && hurried() && (self.release_early(addr) || self.release_soon(addr))
        {
            return;
        }
        let Some(id) = node.cache.find(addr) else { return };
        let frame = node.cache.frame(id);
        if let Some((FrameWatch::Short, _)) = frame.end_watch() {
            self.core.served_several(addr, frame.state().ownership());
        }
        frame.watch(FrameWatch::Short);
        let mut lingering = self.core.lingering.borrow_mut();
        lingering.push_back((addr, keep));
        let over =
            if lingering.len() > node.settings.linger { lingering.pop_front() } else { None };
        strict_assert!(lingering.len() <= node.settings.linger, "recent lines pile up");
        drop(lingering);
        if let Some((addr, keep)) = over {
            self.has_lingered(addr, keep);
        }
    }

    /// Handles a line that leaves the recent lines: the line is predicted to be used again, or is
    /// released early. `keep`: the line is kept although the line is contested.
    fn has_lingered(&self, addr: GlobalAddr, keep: bool) {
        let node = &*self.node_core;
        // The line may have left and come back, or the frame may change to another line at this
        // moment. Then the frame is not watched, or the watch of the later line ends too early.
        // The history then has one wrong or missing outcome.
        let Some(id) = node.cache.find(addr) else { return };
        let Some((_, used)) = node.cache.frame(id).end_watch() else { return };
        if used {
            node.history.lingered(addr, true);
        }
        // A contested line opens no prediction, even if its use keeps it here: mostly other nodes
        // want it.
        if keep || self.core.contested(addr).is_none() {
            node.cache.frame(id).watch(FrameWatch::Long);
            if node.cache.frame(id).state().ownership() == Ownership::Shared {
                self.core.bet_on_copy(addr);
            }
        } else if !self.release_early(addr) {
            self.release_soon(addr);
        }
    }

    /// Marks a line that is not at rest, to be released when it is at rest. For example, a line
    /// that came by hand-over is released when it is settled (R4). Returns whether the line was
    /// marked.
    fn release_soon(&self, addr: GlobalAddr) -> bool {
        let mut records = self.node.records.shard(addr).lock();
        let under_way = records.get_mut(&addr).filter(|record| !record.line.is_at_rest());
        under_way.map(|record| record.local.unwanted = true).is_some()
    }

    /// Releases the line early, unless it is in use or has an operation outstanding.
    fn release_early(&self, addr: GlobalAddr) -> bool {
        let given = self.evict(addr);
        self.core.counters.early_releases.add(u64::from(given));
        given
    }
}

impl WorkerCore {
    /// Sets an alarm for the time at which a local writer releases the latch.
    pub fn look_again_when_let_go(&self, addr: GlobalAddr, local: &mut LocalSide, until: Time) {
        if local.let_go_at < until {
            strict_assert!(
                local.frame.is_some(),
                "a writer holds the latch of a line without a frame"
            );
            local.let_go_at = until;
            self.node.timers.set(until, addr, Alarm::LetGo);
        }
    }

    /// Handles an access to a line that an earlier access of this node made recent. For a shared
    /// copy the prediction counts as right, however soon a writer takes the copy: several accesses
    /// of the node have shared the cost of one fetch.
    fn served_several(&self, addr: GlobalAddr, hold: Ownership) {
        if hold == Ownership::Shared {
            self.node.history.taken(addr, hold, true);
        }
    }

    /// The certainty that an early release of the line is better. `None`: the line stays.
    fn contested(&self, addr: GlobalAddr) -> Option<u8> {
        let cache = &self.node.cache;
        let id = cache.find(addr)?;
        self.contested_as(addr, cache.frame(id).state().ownership())
    }

    /// Like [`contested`](WorkerCore::contested), for a line with the ownership `hold`. Two kinds
    /// of lines stay, whatever their history:
    ///
    /// - lines of a worker with other waiting accesses, because an early release saves waiting and
    ///   costs hits;
    /// - shared copies under takeover, because one operation clears all copies, and early releases
    ///   take one operation for each.
    fn contested_as(&self, addr: GlobalAddr, hold: Ownership) -> Option<u8> {
        let stays = match hold {
            // Another worker has released the line in the meantime.
            Ownership::Invalid => true,
            _ if self.waiting.get() > 0 => true,
            Ownership::Shared => self.node.clears_copies_at_once,
            Ownership::Exclusive => false,
        };
        if stays { None } else { self.node.history.contested(addr, hold) }
    }

    /// Opens a prediction for a shared copy. The prediction ends at the latest after
    /// [`PREDICTION_MISSES`] later predictions of this worker for shared copies. If the copy was
    /// used by then, the prediction counts as right. If not, it does not count.
    ///
    /// Without this end, a wrong prediction would end as soon as a writer comes, and a right
    /// prediction much later, when the copy leaves. So right predictions would seem rare.
    fn bet_on_copy(&self, addr: GlobalAddr) {
        let NodeCore { cache, history, .. } = &*self.node;
        let mut bets = self.predictions.borrow_mut();
        bets.push_back(addr);
        let over = if bets.len() > PREDICTION_MISSES { bets.pop_front() } else { None };
        strict_assert!(bets.len() <= PREDICTION_MISSES, "predictions do not end");
        let Some((addr, id)) = over.and_then(|addr| Some((addr, cache.find(addr)?))) else {
            return;
        };
        let frame = cache.frame(id);
        let hold = frame.state().ownership();
        if hold == Ownership::Shared && frame.end_watch() == Some((FrameWatch::Long, true)) {
            history.taken(addr, hold, true);
        }
    }

    /// Handles the loss of a line, or of its exclusive ownership, to another node. The node owned
    /// the line as `held` before, and as `left` afterwards.
    pub fn taken(&self, addr: GlobalAddr, local: &mut LocalSide, held: Ownership, left: Ownership) {
        strict_assert!(left < held, "{addr} was lost, and the node has as much of it as before");
        if !self.node.adapts() {
            return;
        }
        // The remaining shared copy goes early if a shared copy of this line would.
        let left = left == Ownership::Shared;
        local.unwanted |= left && self.contested_as(addr, Ownership::Shared).is_some();
        match local.frame.and_then(|id| self.node.cache.frame(id).end_watch()) {
            Some((FrameWatch::Short, used)) => self.node.history.lingered(addr, used),
            Some((FrameWatch::Long, used)) => self.node.history.taken(addr, held, used),
            None => {}
        }
    }
}
