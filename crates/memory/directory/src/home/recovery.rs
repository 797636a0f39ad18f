//! The recovery of a line after a death, at its home.
//!
//! 1. The home serves no request and no eviction of the line. It asks all living nodes that may
//!    have a part in the line to complete their requests. A request fails when the line was to come
//!    from a dead node, or from a node whose request has failed.
//! 2. When no request is open, no message between nodes is under way, and the copies are all that
//!    there is. The home gives them a new era. So whatever is still under way to the home is
//!    recognized as old.
//! 3. When there are shared copies only, and no node has the duty to write changes back, that duty
//!    may have died. Then the home gives it to one of the nodes.
//!
//! When there is no copy, and the home's memory was not current, the line is lost.

use latchwork_latch::{Hold, NodeSet};
use latchwork_strict::strict_assert;
use latchwork_verbs::ComputeNodeId;

use super::Home;
use super::state::{Holder, Holders, Recovery, Round};
use crate::message::{Era, Message, Sent};
use crate::rules::{Conflicts, Rules};

impl Home {
    /// The node is dead or has left, and no message of it arrives from here on. Recovers the line
    /// if the node may have had a part in it.
    pub fn died(&mut self, rules: &Rules, dead: ComputeNodeId, out: &mut Vec<Sent>) {
        if !self.known.contains(dead) {
            return;
        }
        self.known = self.known.without(dead);
        self.queue.retain(|(node, _)| *node != dead);
        let is_quiet = self.transition.is_none() && self.recovery.is_none() && !self.due;
        if is_quiet && self.forget(rules, dead) {
            return;
        }
        (self.due, self.dead) = (true, self.dead.with(dead));
        self.leave_transition(rules, dead, out);
        self.recover(rules, out);
    }

    /// Removes the dead node from the entry, if this is all that has to be done.
    fn forget(&mut self, rules: &Rules, dead: ComputeNodeId) -> bool {
        let chained = rules.conflicts == Conflicts::Chain;
        match self.holders {
            Holders::None => true,
            Holders::Exclusive(holder) => holder.node != dead && !chained,
            // In a chain, the dead node may not have asked for a copy that the source counts.
            Holders::Shared { source: Some(source), .. } if source.node == dead || chained => false,
            Holders::Shared { nodes, source } => {
                let nodes = nodes.without(dead);
                self.holders = Holders::shared(nodes, source);
                true
            }
        }
    }

    /// Ends the request in progress, or the part of the dead node in it.
    fn leave_transition(&mut self, rules: &Rules, dead: ComputeNodeId, out: &mut Vec<Sent>) {
        let Some(transition) = &mut self.transition else { return };
        if !rules.is_at_home() {
            // The requester completes its request without the home, or is stuck.
            self.transition = None;
        } else {
            if transition.requester == dead && transition.then.take().is_some() {
                // The home has not answered, so the memory is as it was.
                self.holders = Holders::shared(self.known, None);
            }
            if transition.supplier == Some(dead) {
                self.bereft = Some(transition.requester);
            }
            transition.awaited = transition.awaited.without(dead);
            if transition.awaited.is_empty() {
                self.complete(rules, out);
            }
        }
    }

    /// A node waits for the line, which was to come from the dead node.
    pub(super) fn stuck(&mut self, rules: &Rules, dead: ComputeNodeId, out: &mut Vec<Sent>) {
        if self.recovery.is_some() || self.lost.is_some() || self.is_absent() {
            return;
        }
        self.due = true;
        if self.known.contains(dead) {
            // The home does not know of the death yet. Until then, it refuses requests.
            return self.recover(rules, out);
        }
        self.dead = self.dead.with(dead);
        if !rules.is_at_home() {
            self.transition = None;
        }
        self.recover(rules, out);
    }

    /// Whether the home serves no request, because it recovers the line, or is about to.
    pub(super) fn is_recovered(&self) -> bool {
        self.recovery.is_some() || self.due && self.transition.is_none()
    }

    /// Begins a recovery, if one is due, no request is in progress, and the home knows of a death.
    pub(super) fn recover(&mut self, rules: &Rules, out: &mut Vec<Sent>) {
        if !self.due || self.transition.is_some() {
            return;
        }
        out.extend(self.queue.drain(..).map(|(node, _)| Sent::node(node, Message::Retry)));
        if !self.dead.is_empty() {
            self.begin(rules, out);
        }
    }

    fn begin(&mut self, rules: &Rules, out: &mut Vec<Sent>) {
        strict_assert!(self.transition.is_none(), "a recovery begins within a request: {self:?}");
        self.due = false;
        self.era = Era(rules.after(self.era.0));
        self.recovery = Some(Recovery {
            round: Round::Settle,
            awaited: self.known,
            exclusive: None,
            shared: NodeSet::EMPTY,
            changed: None,
        });
        for node in self.known.iter() {
            let failed = self.bereft == Some(node);
            let settle = Message::Settle { era: self.era, dead: self.dead, failed };
            out.push(Sent::node(node, settle));
        }
        if self.known.is_empty() {
            self.conclude(rules, out);
        }
    }

    pub(super) fn settled(&mut self, from: ComputeNodeId, era: Era, out: &mut Vec<Sent>) {
        let is_meant = |recovery: &&mut Recovery| {
            era == self.era && recovery.round == Round::Settle && recovery.awaited.contains(from)
        };
        let Some(recovery) = self.recovery.as_mut().filter(is_meant) else {
            // A second death has begun the recovery anew, and the demand of the first came late.
            return out.push(Sent::node(from, Message::Rebase { era, adopt: false }));
        };
        recovery.awaited = recovery.awaited.without(from);
        if recovery.awaited.is_empty() {
            (recovery.round, recovery.awaited) = (Round::Rebase, self.known);
            let rebase = Message::Rebase { era, adopt: false };
            out.extend(self.known.iter().map(|node| Sent::node(node, rebase.clone())));
        }
    }

    pub(super) fn rebased(
        &mut self,
        rules: &Rules,
        from: ComputeNodeId,
        era: Era,
        (hold, changed): (Hold, bool),
        out: &mut Vec<Sent>,
    ) {
        let Some(recovery) = self.recovery.as_mut().filter(|_| era == self.era) else { return };
        if recovery.round == Round::Settle || !recovery.awaited.contains(from) {
            return;
        }
        recovery.awaited = recovery.awaited.without(from);
        match hold {
            Hold::Nothing => {}
            Hold::Shared => recovery.shared = recovery.shared.with(from),
            Hold::Exclusive => recovery.exclusive = Some(from),
        }
        if changed {
            recovery.changed = Some(from);
        }
        if recovery.awaited.is_empty() || !rules.hears_all {
            self.conclude(rules, out);
        }
    }

    /// Names the holders anew, or declares the line lost.
    fn conclude(&mut self, rules: &Rules, out: &mut Vec<Sent>) {
        let Some(recovery) = &mut self.recovery else { return };
        let holder = |node| Holder { node, copies: 0 };
        let is_current =
            matches!(self.holders, Holders::None | Holders::Shared { source: None, .. });
        let first = recovery.shared.iter().next();
        self.holders = match (recovery.exclusive, first) {
            (Some(node), _) => Holders::Exclusive(holder(node)),
            (None, Some(node)) => {
                if recovery.changed.is_none() && !is_current && rules.adopts {
                    (recovery.round, recovery.awaited) = (Round::Adopt, NodeSet::of(node));
                    let adopt = Message::Rebase { era: self.era, adopt: true };
                    return out.push(Sent::node(node, adopt));
                }
                // A home that resolves conflicts gets the changes of a shared copy with the answer.
                let source = recovery.changed.filter(|_| !rules.is_at_home()).map(holder);
                Holders::Shared { nodes: recovery.shared, source }
            }
            (None, None) => {
                self.lost = self.dead.iter().next().filter(|_| !is_current);
                Holders::None
            }
        };
        (self.recovery, self.bereft, self.dead) = (None, None, NodeSet::EMPTY);
    }
}
