//! [`Line`]: one node's part in the ownership of one line, as a state machine.
//!
//! This file has the state and the choice of the next operation. `give` gives the line up. `ask`
//! handles completed operations, invalidation requests and answers. `pledge` takes shared lines
//! over. `recover` resolves what a dead node left open. `rename` serves models.

mod ask;
mod give;
mod pledge;
mod recover;
mod rename;
#[cfg(test)]
mod unused;

use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::ComputeNodeId;
use smallvec::SmallVec;

use crate::message::{Answer, InvalidationRequest, LatchMessage, QueuedRequests, RequestKind};
use crate::{Action, Event, Hold, LocalCopy, NodeSet, REMEMBERED_MAX, Rules, Seq, Want, WordOp};

/// The state of the machine between events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// No operation, own request, back-off, hold-off or pledge is outstanding.
    Rest,
    /// An operation on the word is in flight.
    Operating(WordOp),
    /// Invalidation requests are open. The nodes of `open` have not answered. The nodes of
    /// `pledged` wait for a report. `refused` is the strongest refusal so far. Any refusal makes
    /// the attempt fail, unless a grant has met the want.
    Asking { open: NodeSet, pledged: NodeSet, refused: Refused },
    /// The line was refused: a back-off runs before the next attempt.
    Pausing,
    /// The line was released for nodes that must look at the word again. This node holds off, so
    /// that they get to the word first.
    StandingBack,
    /// The copy is pledged to a writer that has not reported. The shared bit stays set. `pausing`:
    /// the pledge was given during a back-off that is not over.
    Pledged { to: ComputeNodeId, seq: Seq, priority: u8, pausing: bool },
}

/// Why an attempt to get the line fails: the strongest reason that an answer gave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Refused {
    /// No answer has refused so far.
    No,
    /// A node has nothing to give, or another access comes before this one.
    Dropped,
    /// A node has locked the line.
    Busy,
}

/// The line machine: one node's part in the ownership of one line.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    me: ComputeNodeId,
    hold: Hold,
    phase: Phase,
    want: Option<Want>,
    /// The own shared bit is set as a registered wait.
    registered: bool,
    /// A grant arrived, and its giver has not reported its operation complete.
    unsettled: bool,
    /// The giver's report arrived before the grant.
    settled_early: bool,
    seq: Seq,
    priority: u8,
    /// This node has met a lock since it began to want the line. The node that locked the line to
    /// read may upgrade that lock, and gives way to no other node. So this node gives way to every
    /// writer, whatever its own priority, while it has no operation in flight and no open request.
    met_lock: bool,
    remembered: QueuedRequests,
    /// The readers that the downgrade in flight serves, or the writer that the hand-over in flight
    /// serves.
    served: SmallVec<[(ComputeNodeId, Seq); 4]>,
}

impl Line {
    /// A line at rest. `seq` is the number of this node's last invalidation request for the line.
    /// `seq` may be any number when all of this node's requests for the line have been answered.
    #[inline]
    pub fn at_rest(me: ComputeNodeId, hold: Hold, seq: Seq) -> Self {
        Line {
            me,
            hold,
            phase: Phase::Rest,
            want: None,
            registered: false,
            unsettled: false,
            settled_early: false,
            seq,
            priority: 0,
            met_lock: false,
            remembered: QueuedRequests::new(),
            served: SmallVec::new(),
        }
    }

    /// The node's ownership of the line.
    #[inline]
    pub fn hold(&self) -> Hold {
        self.hold
    }

    /// The number of the last invalidation request.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Whether nothing is outstanding: no operation, request, back-off, hold-off, pledge, want or
    /// queued request, and no report of a giver. Then [`Line::at_rest`] with the same hold and
    /// number is equivalent to this machine.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.phase == Phase::Rest
            && self.want.is_none()
            && !self.unsettled
            && self.remembered.is_empty()
    }

    /// Whether the node has no copy, and nothing in flight can write into its frame.
    #[inline]
    pub fn is_idle(&self) -> bool {
        let nothing_comes = matches!(self.phase, Phase::Rest | Phase::StandingBack);
        self.hold == Hold::Nothing && nothing_comes && self.want.is_none()
    }

    /// Whether queued requests wait until local code stops using the line. If so, report
    /// [`Event::Serve`] when local code may have stopped.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        !self.remembered.is_empty() && self.can_serve()
    }

    /// Whether requests of other nodes are queued.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.remembered.is_empty()
    }

    /// The queued requests of other nodes; see [`QueuedRequests`] for their order.
    pub fn remembered(&self) -> &[InvalidationRequest] {
        &self.remembered
    }

    /// Whether local code waits for the line.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.want.is_some()
    }

    /// What local code waits for.
    #[inline]
    pub fn wanted(&self) -> Option<Want> {
        self.want
    }

    /// Whether a request of this node to `peer` is open.
    pub fn is_asking(&self, peer: ComputeNodeId) -> bool {
        matches!(self.phase, Phase::Asking { open, .. } if open.contains(peer))
    }

    /// Whether requests of this node are open, all of them to nodes of this set.
    pub fn only_requests(&self, peers: NodeSet) -> bool {
        matches!(self.phase, Phase::Asking { open, .. } if !open.is_empty() && open.less(peers).is_empty())
    }

    /// Whether a back-off runs before the next attempt. [`Event::Retry`] ends the back-off.
    #[inline]
    pub fn is_pausing(&self) -> bool {
        self.phase == Phase::Pausing
    }

    /// Whether this node holds off after it released the line. [`Event::Retry`] ends the hold-off.
    pub fn stands_back(&self) -> bool {
        self.phase == Phase::StandingBack
    }

    /// Whether [`Event::Persist`] begins a write-back now: this node is the holder, its line is
    /// settled (R4), and nothing else is in flight (R1).
    pub fn can_persist(&self) -> bool {
        self.hold == Hold::Exclusive && self.phase == Phase::Rest && !self.unsettled
    }

    /// The operation in flight, if it writes changes back.
    pub fn writing_back(&self, rules: &Rules) -> Option<WordOp> {
        match self.phase {
            Phase::Operating(op) if op.writes_back(rules) => Some(op),
            _ => None,
        }
    }

    /// Takes one event, and appends the resulting actions to `out`.
    pub fn step(
        &mut self,
        rules: &Rules,
        event: Event,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        let asked = match &event {
            Event::Received(LatchMessage::Request(request)) => Some(*request),
            _ => None,
        };
        match event {
            Event::Want(want) => self.want = self.want.max(Some(want)),
            Event::Evict => {
                self.evict(copy, out);
                return strict_check!(self, rules);
            }
            Event::Persist => {
                if self.can_persist() {
                    self.start(WordOp::Persist, out);
                }
                return strict_check!(self, rules);
            }
            Event::Completed { op, old } => self.completed(rules, op, old, copy, out),
            Event::Received(message) => self.received(rules, message, copy, out),
            Event::Retry => match &mut self.phase {
                Phase::Pausing => {
                    self.phase = Phase::Rest;
                    self.raise_priority(rules);
                }
                Phase::StandingBack => self.phase = Phase::Rest,
                Phase::Pledged { pausing, .. } if *pausing => {
                    *pausing = false;
                    self.raise_priority(rules);
                }
                _ => {}
            },
            Event::Unsent(to) => self.unask(to, out),
            Event::LetGo => self.send_away(Answer::Dropped, out),
            Event::Lost => self.lost(rules, copy, out),
            Event::Serve => {}
        }
        self.advance(rules, copy, out);
        // `Queued` is sent only when the request could not be served at once. So the common case
        // needs one message.
        if let Some(request) = asked.filter(|request| self.remembered.contains(request)) {
            answer(&request, Answer::Queued, out);
        }
        strict_check!(self, rules);
    }

    /// The relations of the fields between two events. Most of them follow from the word
    /// discipline. Under rules that the model refutes, only the first two are checked.
    fn check(&self, rules: &Rules) {
        assert!(self.remembered.len() <= REMEMBERED_MAX, "the queue is longer than its bound");
        assert!(self.priority <= rules.priority_max, "the priority leaves its range");
        if !(rules.settle && rules.registered_wait && rules.binding) {
            return;
        }
        let (hold, phase) = (self.hold, self.phase);
        assert!(
            !self.want.is_some_and(|want| want.is_met_by(hold)),
            "an access still waits for a line that is here: {self:?}"
        );
        assert!(!self.registered || hold == Hold::Nothing, "R2: a registered wait with ownership");
        assert!(!self.unsettled || hold != Hold::Nothing, "R4: a line left unsettled: {self:?}");
        assert!(!self.met_lock || self.want.is_some(), "a met lock outlives its access: {self:?}");
        let needed = match phase {
            Phase::Operating(op) => match op {
                WordOp::AcquireShared | WordOp::Poll | WordOp::AcquireExclusive => Hold::Nothing,
                WordOp::TakeOver(_) => Hold::Nothing,
                WordOp::Upgrade | WordOp::UpgradeOver(_) => Hold::Shared,
                WordOp::Downgrade | WordOp::DowngradeFor(_) => Hold::Shared,
                WordOp::ReleaseShared | WordOp::ReleaseExclusive | WordOp::Undo => Hold::Nothing,
                WordOp::HandOver(_) => Hold::Nothing,
                WordOp::Persist => Hold::Exclusive,
                WordOp::Inherit(_) => hold,
            },
            Phase::Pledged { .. } | Phase::StandingBack => Hold::Nothing,
            Phase::Rest | Phase::Asking { .. } | Phase::Pausing => hold,
        };
        assert_eq!(hold, needed, "the ownership does not fit the phase: {self:?}");
        if let Phase::Asking { open, pledged, .. } = phase {
            assert!(!open.is_empty(), "no open request, and no next step: {self:?}");
            assert!(!open.union(pledged).contains(self.me), "a node asks itself: {self:?}");
        }
        if let Phase::Pledged { to, .. } = phase {
            assert_ne!(to, self.me, "a copy is pledged to its own node");
        }
        let gives = matches!(
            phase,
            Phase::Operating(WordOp::Downgrade | WordOp::DowngradeFor(_) | WordOp::HandOver(_))
        );
        assert!(self.served.is_empty() || gives, "a served node waits for no operation: {self:?}");
        let leaves = matches!(
            phase,
            Phase::Pledged { .. }
                | Phase::Operating(
                    WordOp::ReleaseShared | WordOp::ReleaseExclusive | WordOp::HandOver(_)
                )
        );
        assert!(
            self.remembered.is_empty() || hold != Hold::Nothing || leaves,
            "a node with nothing to give queues a request: {self:?}"
        );
    }

    /// Takes the steps that are possible now: ends a met want, serves queued requests, and starts
    /// the next operation for an unmet want.
    fn advance(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        strict_assert!(self.priority <= rules.priority_max);
        if self.want.is_some_and(|want| want.is_met_by(self.hold)) {
            let starves = rules.aging && rules.starved_at > 0 && self.priority >= rules.starved_at;
            if starves && self.want == Some(Want::Exclusive) {
                copy.set_starved(self.priority);
            }
            strict_assert!(copy.starved() <= rules.priority_max);
            self.want = None;
            self.forget_refusals();
        }
        if !rules.binding && self.want.is_some() {
            self.break_pledge(copy);
        }
        self.serve(rules, copy, out);
        if self.phase != Phase::Rest || self.unsettled {
            return;
        }
        let op = match (self.want, self.hold) {
            (None, _) => return,
            (Some(_), Hold::Nothing) if self.registered => WordOp::Poll,
            (Some(Want::Shared), Hold::Nothing) => WordOp::AcquireShared,
            (Some(Want::Exclusive), Hold::Nothing) => WordOp::AcquireExclusive,
            (Some(Want::Exclusive), Hold::Shared) => {
                if !self.may_upgrade(rules, out) {
                    return;
                }
                WordOp::Upgrade
            }
            (Some(_), _) => return,
        };
        self.start(op, out);
    }

    fn start(&mut self, op: WordOp, out: &mut Vec<Action>) {
        strict_assert!(!self.is_pledged(), "R1: a pledger starts no operation");
        strict_assert!(
            !self.registered || matches!(op, WordOp::Poll | WordOp::Undo),
            "R2: a registered reader only looks at the word"
        );
        debug_assert!(!matches!(self.phase, Phase::Operating(_)), "R1: one operation at a time");
        self.phase = Phase::Operating(op);
        out.push(Action::Post(op));
    }

    /// Whether the node may upgrade its shared line: only when no queued writer comes before this
    /// node. If the node may upgrade, the node refuses all queued requests: their senders must not
    /// wait for this node while this node may wait for them.
    fn may_upgrade(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        if self.remembered.iter().any(|r| self.must_give_way_to(rules, r)) {
            return false;
        }
        for request in std::mem::take(&mut self.remembered) {
            answer(&request, Answer::Dropped, out);
        }
        strict_assert!(self.remembered.is_empty(), "an upgrading node keeps a request");
        true
    }

    /// Whether this node must let the requester write first. Among nodes that share a line and all
    /// want to write it, the order is by priority, then by id. A node that has met a lock comes
    /// last.
    fn must_give_way_to(&self, rules: &Rules, request: &InvalidationRequest) -> bool {
        // A met lock does not count while this node's operation is in flight or its requests are
        // open. The node could not serve a queued request then, so two nodes would wait for each
        // other.
        let by_lock = self.met_lock && matches!(self.phase, Phase::Rest | Phase::Pausing);
        let mine = (self.priority_of_requests(rules), self.me);
        request.kind == RequestKind::Write && (by_lock || (request.priority, request.from) > mine)
    }

    fn is_upgrading(&self) -> bool {
        self.hold == Hold::Shared
            && match self.phase {
                Phase::Operating(op) => {
                    matches!(op, WordOp::Upgrade | WordOp::UpgradeOver(_))
                }
                // Also after the access was given up: this node still waits for the answers. The
                // nodes with its requests place this node in the same order.
                Phase::Asking { .. } => true,
                Phase::Pausing => self.want == Some(Want::Exclusive),
                Phase::Rest | Phase::StandingBack | Phase::Pledged { .. } => false,
            }
    }

    /// Resets the refusals after an access has ended. While requests are open for a line that is
    /// not held exclusively, the priority stays: other nodes compare that priority with their own
    /// until they answer.
    fn forget_refusals(&mut self) {
        self.met_lock = false;
        if self.hold == Hold::Exclusive || !matches!(self.phase, Phase::Asking { .. }) {
            self.priority = 0;
        }
    }
}

fn answer(request: &InvalidationRequest, answer: Answer, out: &mut Vec<Action>) {
    let message = LatchMessage::Answer { asked: request.asked, seq: request.seq, answer };
    out.push(Action::Send { to: request.from, message });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(hold: Hold) -> Line {
        Line::at_rest(ComputeNodeId::new(1).expect("an id"), hold, Seq(0))
    }

    #[test]
    #[should_panic(expected = "R2: a registered wait with ownership")]
    fn a_registration_that_outlives_its_wait_is_found() {
        Line { registered: true, ..line(Hold::Shared) }.check(&Rules::DISCIPLINE);
    }

    #[test]
    #[should_panic(expected = "R4: a line left unsettled")]
    fn a_line_that_leaves_before_it_is_settled_is_found() {
        Line { unsettled: true, ..line(Hold::Nothing) }.check(&Rules::DISCIPLINE);
    }

    #[test]
    #[should_panic(expected = "an access still waits for a line that is here")]
    fn a_wish_that_was_met_and_not_forgotten_is_found() {
        Line { want: Some(Want::Shared), ..line(Hold::Exclusive) }.check(&Rules::DISCIPLINE);
    }
}
