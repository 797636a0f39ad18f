//! [`Line`]: one line at a compute node. This file has its state and its requests; `serve` has the
//! directives, and `recovery` what follows a death.

mod phase;
mod recovery;
mod serve;

use latchwork_latch::{Hold, NodeSet, Want};
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::ComputeNodeId;

use crate::event::{Action, Event, LocalCopy};
use crate::message::{
    Bytes, Directive, Directives, Era, Kind, Message, Party, Reply, Request, Sent, Source,
};
use crate::rules::{Conflicts, Rules};
use phase::{Gathering, Phase, Recovery};

/// One line at a compute node: the node's ownership, and what is in flight.
///
/// A *tenure* is the time in which the home's entry names the node. The machine serves the
/// directives of a tenure after it has used the line once, the end of the tenure last. A directive
/// may arrive before the grant of its tenure. Then the machine keeps it.
///
/// No wait is circular:
///
/// 1. The home orders all tenures of a line. A node waits for earlier tenures only: for their
///    bytes, for the end of them, or for the home's answer, which waits for an earlier tenure.
/// 2. A tenure serves its directives while the node waits for a later tenure of its own.
/// 3. Otherwise a node waits for its own local code, or for the answer of the home to an eviction,
///    which waits for no node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    me: ComputeNodeId,
    hold: Hold,
    /// The era of the tenure of `hold`.
    era: Era,
    /// The number of copies that the tenure of `hold` has served.
    served: u8,
    phase: Phase,
    want: Option<Want>,
    /// A lock of another node keeps the request waiting.
    locked_out: bool,
    directives: Directives,
    recovery: Recovery,
    /// The requesters that know of a lock of this node, or of another node before it.
    told: NodeSet,
}

impl Line {
    /// A line at rest. `era` and `served` are those of the tenure, and matter when there is one.
    #[inline]
    pub fn at_rest(me: ComputeNodeId, hold: Hold, era: Era, served: u8) -> Self {
        Line {
            me,
            hold,
            era,
            served,
            phase: Phase::Rest,
            want: None,
            locked_out: false,
            directives: Directives::new(),
            recovery: Recovery::None,
            told: NodeSet::EMPTY,
        }
    }

    /// The node's ownership of the line.
    #[inline]
    pub fn hold(&self) -> Hold {
        self.hold
    }

    /// The era of the tenure of a line at rest, and the number of copies that it has served.
    #[inline]
    pub fn tenure(&self) -> (Era, u8) {
        (self.era, self.served)
    }

    /// Whether nothing is outstanding: no request, eviction, back-off, want or directive. Then
    /// [`Line::at_rest`] with the same ownership and tenure is equivalent to this machine.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.phase == Phase::Rest
            && self.want.is_none()
            && self.directives.is_empty()
            && self.recovery == Recovery::None
    }

    /// Whether the node has no copy, and nothing in flight can read or write its frame.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.hold == Hold::Nothing
            && self.want.is_none()
            && matches!(self.phase, Phase::Rest | Phase::Pausing | Phase::Stuck)
    }

    /// Whether the home has to answer a request or an eviction, or has to recover the line before a
    /// request.
    pub fn awaits_home(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Leaving(_))
            || self.recovery != Recovery::None && self.want.is_some()
    }

    /// Whether the line has to come from this node, or this node has to discard its copy.
    pub fn awaits(&self, peer: ComputeNodeId) -> bool {
        match self.phase {
            Phase::Gathering(Gathering { line, sharers, .. }) => {
                line == Some(peer) || sharers.contains(peer)
            }
            _ => false,
        }
    }

    /// Whether local code waits for the line.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.want.is_some()
    }

    /// Whether a request of this node is open, or will be sent.
    #[inline]
    pub fn is_requesting(&self) -> bool {
        self.want.is_some() || !matches!(self.phase, Phase::Rest | Phase::Leaving(_))
    }

    /// Whether [`Message::Busy`] of this era may be about the open request of this node.
    pub fn heeds(&self, era: Era) -> bool {
        match self.phase {
            Phase::Asking | Phase::Pausing => true,
            Phase::Gathering(gathering) => gathering.era == era,
            Phase::Rest | Phase::Leaving(_) | Phase::Stuck => false,
        }
    }

    /// Whether directives wait until local code stops using the line. If so, report
    /// [`Event::Serve`] when local code may have stopped.
    #[inline]
    pub fn is_blocked(&self, rules: &Rules) -> bool {
        self.can_serve() && self.directives.iter().any(|directive| self.is_due(rules, directive))
    }

    /// Whether directives of other nodes are queued.
    #[inline]
    pub fn has_directives(&self) -> bool {
        !self.directives.is_empty()
    }

    /// Takes one event, and appends the resulting actions to `out`.
    pub fn step(
        &mut self,
        rules: &Rules,
        event: Event,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        match event {
            Event::Want(want) => {
                self.want = self.want.max(Some(want));
                if self.locked_out {
                    self.want = self.want.and_then(|want| copy.locked_out(want));
                }
            }
            Event::Evict => {
                self.evict(rules, copy, out);
                return strict_check!(self, rules);
            }
            Event::Received(from, message) => self.received(rules, from, message, copy, out),
            Event::Retry => {
                if self.phase == Phase::Pausing {
                    self.phase = Phase::Rest;
                }
            }
            Event::GiveUp => {
                // What the home has said of a lock ends with the request. A machine at rest that
                // remembered it would refuse each later access, and ask the home about none.
                if self.phase == Phase::Pausing {
                    (self.phase, self.want, self.locked_out) = (Phase::Rest, None, false);
                }
            }
            Event::Serve => {}
            Event::Unsent => {
                if self.phase == Phase::Asking {
                    (self.phase, self.want, self.locked_out) = (Phase::Rest, None, false);
                }
            }
            Event::Dead(dead) => self.died(rules, dead, out),
            Event::Ignored(directive) => self.ignore(rules, directive, out),
        }
        self.go_on(rules, copy, out);
        strict_check!(self, rules);
    }

    /// Serves what can be served, and requests the line for local code that waits.
    fn go_on(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        self.forget_dead();
        self.serve(rules, copy, out);
        if self.gather(rules, copy, out) {
            self.serve(rules, copy, out);
        }
        self.fail_tenure();
        self.refuse_late(rules, out);
        self.pass_lock_on(rules, copy, out);
        self.answer_home(rules, copy, out);
        if self.phase == Phase::Rest
            && self.recovery == Recovery::None
            && let Some(mode) = self.want
        {
            self.phase = Phase::Asking;
            let request = Request { mode, buffer: 0 };
            out.push(Action::Send(Sent::home(Message::Request(request))));
        }
    }

    fn evict(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        if !self.is_at_rest() || self.hold == Hold::Nothing || !copy.try_exclude() {
            return;
        }
        let evict = Message::Evict { served: self.served };
        let bytes = Bytes::Changes;
        out.push(Action::Send(Sent { to: Party::Home, bytes, message: evict }));
        if rules.acknowledged_eviction {
            self.phase = Phase::Leaving(self.hold);
        }
        self.hold = Hold::Nothing;
    }

    fn received(
        &mut self,
        rules: &Rules,
        from: Party,
        message: Message,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        match (message, from) {
            (Message::Reply(reply), _) => self.replied(rules, reply, out),
            (Message::Retry, _) => {
                if self.phase == Phase::Asking {
                    self.phase = Phase::Pausing;
                    out.push(Action::Pause);
                }
            }
            (Message::Evicted { accepted }, _) => {
                if let Phase::Leaving(hold) = self.phase {
                    self.phase = Phase::Rest;
                    if !accepted {
                        self.hold = hold;
                        copy.restore(hold);
                        self.meet_want();
                    }
                }
            }
            (Message::Directive(directive), _) => self.directed(rules, directive, out),
            (Message::Line { mode, era }, _) => self.got_line(mode, era),
            (Message::Done { era, .. }, Party::Node(from)) => {
                if let Phase::Gathering(gathering) = &mut self.phase
                    && gathering.era == era
                {
                    gathering.sharers = gathering.sharers.without(from);
                }
            }
            (Message::Gone { era }, from) => self.gone(from, era),
            (Message::Settle { era, dead, failed }, _) => {
                self.asked(rules, Recovery::Asked { era, dead, failed });
            }
            (Message::Rebase { era, adopt: true }, _) => {
                self.asked(rules, Recovery::Adopt(era));
            }
            (Message::Rebase { era, adopt: false }, _) => {
                self.rebase(rules, era, copy, out);
            }
            (Message::Lost { node }, _) => {
                if self.phase == Phase::Asking {
                    (self.phase, self.want, self.locked_out) = (Phase::Rest, None, false);
                    out.push(Action::Fail(node));
                }
            }
            (Message::Busy { era }, _) => {
                if self.heeds(era) {
                    self.locked_out = true;
                    self.want = self.want.and_then(|want| copy.locked_out(want));
                }
            }
            // A faulty peer sent it.
            (Message::Request(_) | Message::Evict { .. } | Message::Stuck { .. }, _)
            | (Message::Settled { .. } | Message::Rebased { .. }, _)
            | (Message::Done { .. }, Party::Home) => {}
        }
    }

    /// The home has named this node: asks the holders of the line.
    fn replied(&mut self, rules: &Rules, reply: Reply, out: &mut Vec<Action>) {
        if self.phase != Phase::Asking {
            return;
        }
        let Reply { mode, era, source, holder, others } = reply;
        let direct = |kind, copies| {
            let directive = Directive { kind, era, copies, to: self.me, buffer: 0 };
            Message::Directive(directive)
        };
        if let Some((node, kind, copies)) = holder {
            out.push(Action::Send(Sent::node(node, direct(kind, copies))));
        }
        for node in others.iter() {
            let invalidate = direct(Kind::Invalidate, 0);
            out.push(Action::Send(Sent::node(node, invalidate)));
        }
        let (kept, copies) = match source {
            Source::Kept { copies } => (true, copies),
            Source::Memory | Source::Holder => (false, 0),
        };
        let line = holder.filter(|_| source == Source::Holder).map(|(node, ..)| node);
        let invalidated =
            holder.filter(|_| line.is_none()).map_or(NodeSet::EMPTY, |(n, ..)| NodeSet::of(n));
        let sharers = others.union(invalidated);
        let reports = !rules.is_at_home()
            && rules.conflicts != Conflicts::Chain
            && (line.is_some() || !sharers.is_empty());
        self.phase = Phase::Gathering(Gathering {
            mode,
            era,
            line,
            sharers,
            kept,
            copies,
            reports,
            failed: false,
            adopts: false,
        });
    }

    /// The line has come from a holder. Under a home that resolves conflicts, there was no reply.
    fn got_line(&mut self, mode: Want, era: Era) {
        match &mut self.phase {
            Phase::Gathering(gathering) => gathering.line = None,
            Phase::Asking => {
                self.phase = Phase::Gathering(Gathering {
                    mode,
                    era,
                    line: None,
                    sharers: NodeSet::EMPTY,
                    kept: false,
                    copies: 0,
                    reports: false,
                    failed: false,
                    adopts: false,
                });
            }
            Phase::Rest | Phase::Pausing | Phase::Leaving(_) | Phase::Stuck => {}
        }
    }

    /// Begins the use of the new tenure when nothing is missing. Returns whether it began.
    fn gather(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) -> bool {
        let Phase::Gathering(gathering) = self.phase else { return false };
        let Gathering { mode, era, line, sharers, kept, copies, reports, .. } = gathering;
        let owes = kept && copies != self.served && !self.is_recovered(rules);
        if line.is_some() || !sharers.is_empty() || owes {
            return false;
        }
        strict_assert!(
            kept == (self.hold == Hold::Shared),
            "a tenure begins before the one before it has ended: {self:?}"
        );
        self.phase = Phase::Rest;
        (self.era, self.served, self.locked_out) = (era, 0, false);
        self.hold = match mode {
            Want::Shared => Hold::Shared,
            Want::Exclusive => Hold::Exclusive,
        };
        if kept && gathering.adopts {
            copy.adopt();
        }
        match kept {
            true => copy.promote(),
            false => copy.publish(self.hold),
        }
        self.meet_want();
        if reports {
            out.push(Action::Send(Sent::home(Message::Done { era, kept: false })));
        }
        true
    }

    /// Ends the want that the ownership meets.
    fn meet_want(&mut self) {
        self.want = self.want.filter(|want| match want {
            Want::Shared => self.hold == Hold::Nothing,
            Want::Exclusive => self.hold != Hold::Exclusive,
        });
    }

    fn check(&self, rules: &Rules) {
        assert!(u16::from(self.served) < rules.modulus, "a count beyond the modulus: {self:?}");
        assert!(
            self.phase != Phase::Rest || self.want.is_none() || self.recovery != Recovery::None,
            "local code waits and nothing is under way: {self:?}"
        );
        assert!(
            !self.locked_out || !self.is_at_rest(),
            "a line at rest remembers a lock, and would refuse later accesses: {self:?}"
        );
        assert!(
            !matches!(self.phase, Phase::Leaving(_)) || self.hold == Hold::Nothing,
            "local code uses a line that the node gives up: {self:?}"
        );
        assert!(
            self.directives.iter().all(|directive| directive.to != self.me),
            "a node asks itself: {self:?}"
        );
    }
}
