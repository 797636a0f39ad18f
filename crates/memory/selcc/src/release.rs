//! Giving lines back that nobody has asked for: at once where release is not lazy (SEL), and where
//! it is, those that other nodes would take away anyway ([`History`](crate::history::History)).

use std::collections::VecDeque;

use latchwork_cache::{Ownership, Watch};
use latchwork_latch::Hold;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use crate::history::{BET_MISSES, LOOK, TRIAL};
use crate::node::Node;
use crate::record::{Record, ownership};
use crate::settings::{Release, Settings};
use crate::timers::Alarm;
use crate::worker::Inner;

/// Lines that this worker obtained lately, the latest last: until enough others have come, they may
/// be used again at once. The second says whether a line is kept although it is contested.
pub(crate) type Lingering = VecDeque<(GlobalAddr, bool)>;

fn adapts(settings: &Settings) -> bool {
    settings.policy.lazy_release && settings.release == Release::Adaptive
}

/// Whether anything becomes of a line when the access is over for which it was obtained.
pub(crate) fn minds_ends(settings: &Settings) -> bool {
    !settings.policy.lazy_release || adapts(settings)
}

impl Inner {
    /// Gives back a line that nobody uses, where release is not lazy or the line is not wanted.
    /// Where it is reserved or locked, whoever has done that gives it back.
    pub(crate) fn release_eagerly(&self, addr: GlobalAddr, record: &mut Record) {
        let held = record.line.is_at_rest() && record.line.hold() != Hold::Nothing;
        if !held || self.node.settings.policy.lazy_release && !std::mem::take(&mut record.unwanted)
        {
            return;
        }
        let Some(id) = record.frame else { return };
        let frame = self.node.cache.frame(id);
        if frame.is_reserved() || frame.is_kept() {
            return;
        }
        match self.held(id) {
            None => self.releases.borrow_mut().push(addr),
            // Where release is lazy, it is kept after all.
            Some(_) if self.node.settings.policy.lazy_release => {}
            // Nobody else may come by: not if the access was dropped for which the line came.
            Some(until) => self.look_again_when_let_go(addr, record, until),
        }
    }

    /// Sets the alarm for the time when a local writer lets go of the line.
    pub(crate) fn look_again_when_let_go(
        &self,
        addr: GlobalAddr,
        record: &mut Record,
        until: Time,
    ) {
        if record.let_go_at < until {
            record.let_go_at = until;
            self.node.timers.set(until, addr, Alarm::LetGo);
        }
    }

    /// Gives back what [`release_eagerly`](Inner::release_eagerly) found.
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
        adapts(&self.node.settings)
    }

    /// An access for which the line was obtained is over, and that matters ([`minds_ends`]). The
    /// line lingers, or its time is over at once; so is that of one that has lingered.
    pub(crate) fn accessed(&self, addr: GlobalAddr) {
        let node = &*self.node;
        if !node.settings.policy.lazy_release {
            // At once, not with the next sweep: the worker's next access to the line must not find
            // it here.
            self.evict(addr);
            return;
        }
        let sure = self.contested(addr);
        let contested = sure.is_some();
        let keep = sure.is_some_and(|sure| self.handle.random_below(TRIAL << sure) == 0);
        let hurried = || node.history.is_hurried(addr) && self.handle.random_below(LOOK) != 0;
        if contested && !keep && hurried() && (self.release_early(addr) || self.release_soon(addr))
        {
            return;
        }
        let Some(id) = node.cache.find(addr) else { return };
        let frame = node.cache.frame(id);
        if let Some((Watch::Short, _)) = frame.end_watch() {
            self.served_several(addr, frame.state().ownership());
        }
        frame.watch(Watch::Short);
        let mut lingering = self.lingering.borrow_mut();
        lingering.push_back((addr, keep));
        let over =
            if lingering.len() > node.settings.linger { lingering.pop_front() } else { None };
        drop(lingering);
        if let Some((addr, keep)) = over {
            self.has_lingered(addr, keep);
        }
    }

    /// Several accesses waited for the line and it came for all of them. Where it is a copy to
    /// read, the bet is won however soon a writer takes it: what is so popular inside the node is
    /// not to be fetched once more than others ask for it.
    fn served_several(&self, addr: GlobalAddr, hold: Ownership) {
        if hold == Ownership::Shared {
            self.node.history.taken(addr, hold, true);
        }
    }

    /// Whether the line is better given back, and how sure that is.
    fn contested(&self, addr: GlobalAddr) -> Option<u8> {
        let cache = &self.node.cache;
        let id = cache.find(addr)?;
        self.contested_as(addr, cache.frame(id).state().ownership())
    }

    /// As above, of a line that is held so. What is saved is waiting, and costs hits: not for a
    /// worker that has other accesses under way while it waits. Under takeover copies to read stay:
    /// one operation clears them all, and to give them back takes one for each.
    fn contested_as(&self, addr: GlobalAddr, hold: Ownership) -> Option<u8> {
        let stays = match hold {
            // Another worker has given it up in between.
            Ownership::Invalid => true,
            _ if self.waiting.get() > 0 => true,
            Ownership::Shared => self.node.settings.takeover,
            Ownership::Exclusive => false,
        };
        if stays { None } else { self.node.history.contested(addr, hold) }
    }

    fn has_lingered(&self, addr: GlobalAddr, keep: bool) {
        let node = &*self.node;
        // Should the frame have changed hands meanwhile, it is not watched, or another line is a
        // little early.
        let Some(id) = node.cache.find(addr) else { return };
        let Some((_, used)) = node.cache.frame(id).end_watch() else { return };
        if used {
            node.history.lingered(addr, true);
        }
        // One that should go but is in use right now is no bet: it is mostly others who want it.
        if keep || self.contested(addr).is_none() {
            node.cache.frame(id).watch(Watch::Long);
            if node.cache.frame(id).state().ownership() == Ownership::Shared {
                self.bet_on_copy(addr);
            }
        } else if !self.release_early(addr) {
            self.release_soon(addr);
        }
    }

    /// A bet on a copy is over after some misses at the latest, won if the copy was used: else a
    /// lost one would be known as soon as a writer comes, and a won one only when the copy goes,
    /// and there would seem to be few of these.
    fn bet_on_copy(&self, addr: GlobalAddr) {
        let Node { cache, history, .. } = &*self.node;
        let mut bets = self.bets.borrow_mut();
        bets.push_back(addr);
        let over = if bets.len() > BET_MISSES { bets.pop_front() } else { None };
        let Some((addr, id)) = over.and_then(|addr| Some((addr, cache.find(addr)?))) else {
            return;
        };
        let frame = cache.frame(id);
        let hold = frame.state().ownership();
        if hold == Ownership::Shared && frame.end_watch() == Some((Watch::Long, true)) {
            history.taken(addr, hold, true);
        }
    }

    /// A line that was handed over goes when its giver is done (R4). Whether it is one.
    fn release_soon(&self, addr: GlobalAddr) -> bool {
        let mut records = self.node.records.shard(addr).lock();
        let under_way = records.get_mut(&addr).filter(|record| !record.line.is_at_rest());
        under_way.map(|record| record.unwanted = true).is_some()
    }

    /// Gives the line back, unless it is in use or under way.
    fn release_early(&self, addr: GlobalAddr) -> bool {
        let given = self.evict(addr);
        self.counters.early_releases.add(u64::from(given));
        given
    }

    /// Another node has taken the line from this one, which held it so, or its sole right to it.
    pub(crate) fn taken(&self, addr: GlobalAddr, record: &mut Record, held: Hold) {
        if !self.adapts() {
            return;
        }
        // What is left of it goes as a copy would that was read.
        let left = record.line.hold() == Hold::Shared;
        record.unwanted |= left && self.contested_as(addr, Ownership::Shared).is_some();
        match record.frame.and_then(|id| self.node.cache.frame(id).end_watch()) {
            Some((Watch::Short, used)) => self.node.history.lingered(addr, used),
            Some((Watch::Long, used)) => self.node.history.taken(addr, ownership(held), used),
            None => {}
        }
    }
}
