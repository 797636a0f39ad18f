//! Giving lines back that nobody has asked for: at once where release is not lazy (SEL), and where it is, those
//! that other nodes would take away anyway ([`History`](crate::history::History)).

use std::collections::VecDeque;

use latchwork_latch::Hold;
use latchwork_verbs::GlobalAddr;

use crate::history::TRIAL;
use crate::record::Record;
use crate::settings::Release;
use crate::worker::Inner;

/// Lines that this worker obtained lately, the latest last: until enough others have come, they may be
/// used again at once.
pub(crate) type Lingering = VecDeque<GlobalAddr>;

impl Inner {
    /// Without lazy release, a line that nobody uses is given back.
    pub(crate) fn release_eagerly(&self, addr: GlobalAddr, record: &Record) {
        let held = record.line.is_at_rest() && record.line.hold() != Hold::Nothing;
        if self.node.settings.policy.lazy_release || !held {
            return;
        }
        // Where a local writer holds it, an alarm says when it does not.
        let in_use = |id| self.node.cache.frame(id).is_reserved() || self.held(id).is_some();
        if !record.frame.is_some_and(in_use) {
            self.releases.borrow_mut().push(addr);
        }
    }

    /// Gives back what [`release_eagerly`](Inner::release_eagerly) and [`obtained`](Inner::obtained) found.
    pub(crate) fn release_what_is_over(&self) -> bool {
        if self.releases.borrow().is_empty() {
            return false;
        }
        let mut any = false;
        let lines = self.releases.take();
        for addr in lines {
            any |= self.evict(addr);
        }
        any
    }

    fn adapts(&self) -> bool {
        self.node.settings.policy.lazy_release && self.node.settings.release == Release::Adaptive
    }

    /// A line has come to this node. Decides about the one that came some lines ago: to be given back, or to
    /// be kept and watched.
    pub(crate) fn obtained(&self, addr: GlobalAddr) {
        if !self.adapts() {
            return;
        }
        let mut lingering = self.lingering.borrow_mut();
        lingering.push_back(addr);
        if lingering.len() <= self.node.settings.linger {
            return;
        }
        let Some(over) = lingering.pop_front() else { return };
        let contested = self.node.history.is_contested(over);
        if contested && self.handle.random_below(TRIAL) != 0 {
            self.counters.early_releases.add(1);
            self.releases.borrow_mut().push(over);
        } else if let Some(id) = self.node.cache.find(over) {
            // Should the frame have changed hands meanwhile, another line is watched a little early.
            self.node.cache.frame(id).watch();
        }
    }

    /// Another node has taken the line from this one, or its sole right to it.
    pub(crate) fn taken(&self, addr: GlobalAddr, record: &Record) {
        if !self.adapts() {
            return;
        }
        let watched = record.frame.and_then(|id| self.node.cache.frame(id).end_watch());
        if let Some(used) = watched {
            self.node.history.taken(addr, used);
        }
    }
}
