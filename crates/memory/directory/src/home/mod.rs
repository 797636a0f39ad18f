//! [`Home`]: one line at its home.

mod recovery;
mod state;

use std::collections::VecDeque;

use latchwork_latch::{NodeSet, Want};
use latchwork_strict::strict_check;
use latchwork_verbs::ComputeNodeId;
use smallvec::SmallVec;

use crate::message::{Bytes, Directive, Era, Kind, Message, Party, Reply, Request, Sent, Source};
use crate::rules::{Conflicts, ReaderTakes, Rules};
use state::{Holder, Holders, Recovery, Transition};

/// One line at its home: which nodes hold it. A line without holders needs no entry: the machine is
/// then [`absent`](Home::is_absent), and equivalent to a new one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Home {
    era: Era,
    holders: Holders,
    transition: Option<Transition>,
    queue: VecDeque<(ComputeNodeId, Request)>,
    /// All living nodes that have requested the line.
    known: NodeSet,
    /// The nodes of [`known`](Home::known) that have died since the last recovery.
    dead: NodeSet,
    /// A recovery begins when no request is in progress.
    due: bool,
    /// The line of this requester was to come from a dead node.
    bereft: Option<ComputeNodeId>,
    recovery: Option<Recovery>,
    /// The newest bytes are lost with this node.
    lost: Option<ComputeNodeId>,
}

impl Default for Home {
    fn default() -> Self {
        Home {
            era: Era::default(),
            holders: Holders::None,
            transition: None,
            queue: VecDeque::new(),
            known: NodeSet::EMPTY,
            dead: NodeSet::EMPTY,
            due: false,
            bereft: None,
            recovery: None,
            lost: None,
        }
    }
}

impl Home {
    /// Whether no node holds or requests the line.
    ///
    /// 1. A tenure ends by a directive or by an eviction that the home accepted.
    /// 2. A node evicts only after it has its grant, and no directive of the tenure is open then.
    /// 3. A requester that ends the tenures of others begins its own tenure when they have served.
    /// 4. So when the last tenure ends by an eviction, nothing of any tenure is in flight.
    pub fn is_absent(&self) -> bool {
        self.holders == Holders::None
            && self.transition.is_none()
            && self.queue.is_empty()
            && self.recovery.is_none()
            && self.lost.is_none()
    }

    /// Whether [`Message::Busy`] of this era is about the request that the home serves.
    pub fn heeds(&self, era: Era) -> bool {
        self.transition.is_some() && era == self.era
    }

    /// The exclusive holder, or the node that will be.
    pub fn exclusive(&self) -> Option<ComputeNodeId> {
        match self.holders {
            Holders::Exclusive(holder) => Some(holder.node),
            _ => None,
        }
    }

    /// The nodes that share the line, or will share it.
    pub fn shared(&self) -> NodeSet {
        match self.holders {
            Holders::Shared { nodes, .. } => nodes,
            _ => NodeSet::EMPTY,
        }
    }

    /// The node whose bytes are newer than the home's memory.
    pub fn source(&self) -> Option<ComputeNodeId> {
        match self.holders {
            Holders::None => None,
            Holders::Shared { source, .. } => source.map(|source| source.node),
            Holders::Exclusive(holder) => Some(holder.node),
        }
    }

    /// The dead node with which the newest bytes of the line are lost.
    pub fn lost(&self) -> Option<ComputeNodeId> {
        self.lost
    }

    /// Whether the recovery from the end of this node is in progress, or due.
    pub fn recovers_from(&self, dead: ComputeNodeId) -> bool {
        self.dead.contains(dead)
    }

    /// Takes one message, and appends the messages to send to `out`.
    pub fn step(
        &mut self,
        rules: &Rules,
        from: ComputeNodeId,
        message: Message,
        out: &mut Vec<Sent>,
    ) {
        match message {
            Message::Request(request) => self.request(rules, from, request, out),
            Message::Evict { served } => self.evict(rules, from, served, out),
            Message::Done { era, kept } if era == self.era => {
                self.due |= kept && self.transition.is_some();
                self.done(rules, from, out);
            }
            // It is of an era before a recovery.
            Message::Done { .. } => {}
            Message::Busy { era } => self.locked(era, out),
            Message::Stuck { dead } => self.stuck(rules, dead, out),
            Message::Settled { era } => self.settled(from, era, out),
            Message::Rebased { era, hold, changed } => {
                self.rebased(rules, from, era, (hold, changed), out);
            }
            // A faulty peer sent it.
            Message::Reply(_)
            | Message::Retry
            | Message::Evicted { .. }
            | Message::Directive(_)
            | Message::Line { .. }
            | Message::Gone { .. }
            | Message::Settle { .. }
            | Message::Rebase { .. }
            | Message::Lost { .. } => {}
        }
        strict_check!(self, rules);
    }

    fn request(
        &mut self,
        rules: &Rules,
        from: ComputeNodeId,
        request: Request,
        out: &mut Vec<Sent>,
    ) {
        if let Some(node) = self.lost {
            return out.push(Sent::node(from, Message::Lost { node }));
        }
        if self.is_recovered() {
            return out.push(Sent::node(from, Message::Retry));
        }
        self.known = self.known.with(from);
        let Some(transition) = &self.transition else {
            return self.resolve(rules, from, request, out);
        };
        if transition.locked {
            out.push(Sent::node(from, Message::Busy { era: Era::default() }));
        }
        if rules.conflicts == Conflicts::Poll {
            out.push(Sent::node(from, Message::Retry));
        } else if self.queue.iter().all(|(node, _)| *node != from) {
            self.queue.push_back((from, request));
        }
    }

    /// Begins a tenure of `from`: names it in the entry, and ends the tenures that exclude it.
    fn resolve(
        &mut self,
        rules: &Rules,
        from: ComputeNodeId,
        request: Request,
        out: &mut Vec<Sent>,
    ) {
        let held = matches!(self.holders, Holders::Exclusive(_));
        let moves = held && rules.reader_takes == ReaderTakes::Move;
        let mode = if moves { Want::Exclusive } else { request.mode };
        let reply = match mode {
            Want::Shared => self.share(rules, from),
            Want::Exclusive => self.own(rules, from),
        };
        let direct = |kind, copies| Directive {
            kind,
            era: reply.era,
            copies,
            to: from,
            buffer: request.buffer,
        };
        let mut directives: SmallVec<[(ComputeNodeId, Directive); 2]> = SmallVec::new();
        directives.extend(reply.holder.map(|(node, kind, copies)| (node, direct(kind, copies))));
        directives.extend(reply.others.iter().map(|node| (node, direct(Kind::Invalidate, 0))));
        let directed = directives.iter().fold(NodeSet::EMPTY, |set, (node, _)| set.with(*node));
        let awaited = if rules.is_at_home() { directed } else { NodeSet::of(from) };
        let supplier = reply.holder.filter(|_| reply.source == Source::Holder);
        let supplier = supplier.map(|(node, ..)| node);
        let mut then = None;
        if rules.is_at_home() && !directives.is_empty() {
            for (node, directive) in &directives {
                out.push(Sent::node(*node, Message::Directive(*directive)));
            }
            let plain = Reply { holder: None, others: NodeSet::EMPTY, ..reply };
            then = Some((from, plain, request.buffer)).filter(|(_, reply, _)| {
                // Otherwise the holder answers.
                reply.source != Source::Holder
            });
        } else {
            Self::answer(from, reply, request.buffer, out);
        }
        if !directives.is_empty() && rules.conflicts != Conflicts::Chain {
            self.transition =
                Some(Transition { requester: from, supplier, awaited, then, locked: false });
        }
    }

    fn answer(to: ComputeNodeId, reply: Reply, buffer: u64, out: &mut Vec<Sent>) {
        let bytes = match reply.source {
            Source::Memory => Bytes::Line { buffer },
            Source::Kept { .. } | Source::Holder => Bytes::Nothing,
        };
        out.push(Sent { to: Party::Node(to), bytes, message: Message::Reply(reply) });
    }

    /// Adds a sharer.
    fn share(&mut self, rules: &Rules, from: ComputeNodeId) -> Reply {
        let (nodes, source) = match self.holders {
            Holders::None => (NodeSet::EMPTY, None),
            Holders::Shared { nodes, source } => (nodes, source),
            Holders::Exclusive(holder) => (NodeSet::of(holder.node), Some(holder)),
        };
        let source = source.map(|s| Holder { copies: rules.after_copy(s.copies), ..s });
        self.holders = Holders::Shared { nodes: nodes.with(from), source };
        Reply {
            mode: Want::Shared,
            era: self.era,
            source: if source.is_some() { Source::Holder } else { Source::Memory },
            holder: source.map(|source| (source.node, Kind::Copy, 0)),
            others: NodeSet::EMPTY,
        }
    }

    /// Makes `from` the exclusive holder.
    fn own(&mut self, rules: &Rules, from: ComputeNodeId) -> Reply {
        let (nodes, source) = match self.holders {
            Holders::None => (NodeSet::EMPTY, None),
            Holders::Shared { nodes, source } => (nodes, source),
            Holders::Exclusive(holder) => (NodeSet::of(holder.node), Some(holder)),
        };
        let other = source.filter(|source| source.node != from);
        self.era = Era(rules.after(self.era.0));
        self.holders = Holders::Exclusive(Holder { node: from, copies: 0 });
        let keeps = nodes.contains(from);
        let kind = if keeps { Kind::Invalidate } else { Kind::Move };
        let others = other.map_or(nodes, |source| nodes.without(source.node));
        Reply {
            mode: Want::Exclusive,
            era: self.era,
            source: match (keeps, source) {
                (true, Some(Holder { node, copies })) if node == from => Source::Kept { copies },
                (true, _) => Source::Kept { copies: 0 },
                (false, Some(_)) => Source::Holder,
                (false, None) => Source::Memory,
            },
            holder: other.map(|source| (source.node, kind, source.copies)),
            others: others.without(from),
        }
    }

    fn evict(&mut self, rules: &Rules, from: ComputeNodeId, served: u8, out: &mut Vec<Sent>) {
        let is_stable = self.transition.is_none() || !rules.stable_owner;
        let accepted = is_stable && !self.is_recovered() && self.release(rules, from, served);
        if rules.acknowledged_eviction {
            out.push(Sent::node(from, Message::Evicted { accepted }));
        }
    }

    /// Ends the tenure of `from`, unless directives of the tenure are open. Returns whether the
    /// tenure ended. The changes of the node, if it had any, are in the home's memory.
    fn release(&mut self, rules: &Rules, from: ComputeNodeId, served: u8) -> bool {
        let is_free = |holder: Holder| holder.copies == served || !rules.stable_owner;
        self.holders = match self.holders {
            Holders::Exclusive(holder) if holder.node == from && is_free(holder) => Holders::None,
            Holders::Shared { nodes, source } if nodes.contains(from) => {
                let own = source.filter(|source| source.node == from);
                if !own.is_none_or(is_free) {
                    return false;
                }
                let nodes = nodes.without(from);
                let source = source.filter(|source| source.node != from);
                Holders::shared(nodes, source)
            }
            _ => return false,
        };
        true
    }

    /// Counts a report that the request in progress awaits. After the last one, serves the queue.
    fn done(&mut self, rules: &Rules, from: ComputeNodeId, out: &mut Vec<Sent>) {
        let Some(transition) = &mut self.transition else { return };
        transition.awaited = transition.awaited.without(from);
        if transition.awaited.is_empty() {
            self.complete(rules, out);
        }
    }

    fn complete(&mut self, rules: &Rules, out: &mut Vec<Sent>) {
        let then = self.transition.take().and_then(|transition| transition.then);
        if let Some((to, reply, buffer)) = then {
            Self::answer(to, reply, buffer, out);
        }
        if let Holders::Shared { source, .. } = &mut self.holders
            && rules.is_at_home()
            && !self.due
        {
            // The holder has written its changes back. A dead holder may not have.
            *source = None;
        }
        self.recover(rules, out);
        while self.transition.is_none()
            && let Some((from, request)) = self.queue.pop_front()
        {
            self.resolve(rules, from, request, out);
        }
    }

    /// Passes on that a lock keeps the request in progress waiting, and so all queued ones.
    fn locked(&mut self, era: Era, out: &mut Vec<Sent>) {
        let is_meant = self.heeds(era);
        let Some(transition) = self.transition.as_mut().filter(|_| is_meant) else { return };
        if !std::mem::replace(&mut transition.locked, true) {
            let busy = Message::Busy { era: Era::default() };
            out.extend(self.queue.iter().map(|(node, _)| Sent::node(*node, busy.clone())));
        }
    }

    fn check(&self, rules: &Rules) {
        assert!(u16::from(self.era.0) < rules.modulus, "an era beyond the modulus: {self:?}");
        assert!(
            self.queue.is_empty() || self.transition.is_some(),
            "nothing ends a wait: {self:?}"
        );
        match self.holders {
            Holders::None => {}
            Holders::Shared { nodes, source } => assert!(
                !nodes.is_empty() && source.is_none_or(|source| nodes.contains(source.node)),
                "the bytes are at a node without a copy: {self:?}"
            ),
            Holders::Exclusive(holder) => {
                assert_eq!(holder.copies, 0, "an exclusive holder serves copies: {self:?}");
            }
        }
        if let Some(transition) = &self.transition {
            assert!(
                !transition.awaited.is_empty(),
                "a request in progress waits for nothing: {self:?}"
            );
            assert_ne!(rules.conflicts, Conflicts::Chain, "a chain waits at its home: {self:?}");
        }
    }
}
