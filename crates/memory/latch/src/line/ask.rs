//! Getting a line: completed operations, invalidation requests to the owners, and their answers.

use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::ComputeNodeId;

use super::{Line, Phase, Refused, answer};
use crate::message::{Answer, GrantMode, InvalidationRequest, LatchMessage, RequestKind};
use crate::{
    Action, Hold, LatchWord, LocalCopy, NodeSet, REMEMBERED_MAX, Rules, Seq, Want, WordOp,
};

impl Line {
    pub(super) fn completed(
        &mut self,
        rules: &Rules,
        op: WordOp,
        old: LatchWord,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if op == WordOp::Undo {
            return;
        }
        debug_assert_eq!(self.phase, Phase::Operating(op), "a completion of an unknown operation");
        self.phase = Phase::Rest;
        match op {
            WordOp::Poll if !self.registered => self.looked(old, copy),
            WordOp::AcquireShared | WordOp::Poll => match old.exclusive() {
                None => {
                    strict_assert!(
                        !old.shared().contains(self.me)
                            || self.registered
                            || op == WordOp::Poll
                            || !rules.registered_wait,
                        "R2: the own bit was set before this addition"
                    );
                    self.registered = false;
                    self.acquired(Hold::Shared, copy);
                }
                Some(holder) => {
                    if rules.registered_wait {
                        strict_assert!(
                            holder != self.me || !rules.registered_wait,
                            "the holder acquires its own line to read"
                        );
                        self.registered = true;
                    } else {
                        out.push(Action::Post(WordOp::Undo));
                    }
                    self.ask(rules, NodeSet::of(holder), RequestKind::Read, copy, out);
                }
            },
            WordOp::AcquireExclusive => {
                strict_assert_eq!(
                    self.hold,
                    Hold::Nothing,
                    "only a node without the line acquires it"
                );
                if old == LatchWord::FREE {
                    self.acquired(Hold::Exclusive, copy);
                } else {
                    self.ask_owners(rules, old, copy, out);
                }
            }
            WordOp::Upgrade => {
                strict_assert_eq!(self.hold, Hold::Shared, "only a sharer upgrades");
                if old == LatchWord::shared_by(self.me) {
                    self.hold = Hold::Exclusive;
                    copy.promote();
                } else if rules.invalidate || !copy.try_invalidate() {
                    self.ask_owners(rules, old, copy, out);
                } else {
                    // Without invalidation requests, no other sharer releases its copy for this
                    // node, and other sharers may try the same upgrade. So this node releases its
                    // own copy.
                    self.hold = Hold::Nothing;
                    self.start(WordOp::ReleaseShared, out);
                }
            }
            WordOp::TakeOver(pledged) | WordOp::UpgradeOver(pledged) => {
                self.took_over(rules, op, pledged, old, copy, out);
            }
            WordOp::ReleaseShared => self.send_away(Answer::Released, out),
            WordOp::ReleaseExclusive => {
                strict_assert_eq!(
                    self.hold,
                    Hold::Nothing,
                    "use of the copy ended before its release"
                );
                self.hold_off_after_release(rules, out);
                self.send_away(Answer::Released, out);
            }
            WordOp::Downgrade | WordOp::DowngradeFor(_) => self.report_settled(out),
            WordOp::HandOver(to) => {
                strict_assert!(to != self.me, "a hand-over to the giver");
                strict_assert!(
                    self.served.iter().any(|&(served, _)| served == to),
                    "the grant names the new holder"
                );
                self.report_settled(out);
                self.pass_on(to, out);
            }
            // What is queued is served next.
            WordOp::Persist => {
                strict_assert!(old.exclusive() == Some(self.me), "only the holder writes back");
            }
            WordOp::Inherit(word) => self.inherited(rules, word, old, out),
            WordOp::Undo => {}
        }
    }

    pub(super) fn acquired(&mut self, hold: Hold, copy: &mut impl LocalCopy) {
        strict_assert_ne!(hold, Hold::Nothing, "an acquired line is held");
        strict_assert!(!self.is_pledged(), "a pledged copy is not acquired");
        self.hold = hold;
        copy.publish(hold);
    }

    fn report_settled(&mut self, out: &mut Vec<Action>) {
        for (to, seq) in self.served.drain(..) {
            strict_assert!(to != self.me, "a node serves its own request");
            out.push(Action::Send { to, message: LatchMessage::Settled { seq } });
        }
    }

    pub(super) fn send_away(&mut self, how: Answer, out: &mut Vec<Action>) {
        for request in std::mem::take(&mut self.remembered) {
            answer(&request, how, out);
        }
    }

    fn ask_owners(
        &mut self,
        rules: &Rules,
        word: LatchWord,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        let owners = match word.exclusive() {
            Some(holder) => NodeSet::of(holder),
            None => word.shared(),
        };
        self.ask(rules, owners.without(self.me), RequestKind::Write, copy, out);
    }

    fn ask(
        &mut self,
        rules: &Rules,
        whom: NodeSet,
        kind: RequestKind,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        self.seq = self.seq.next(rules);
        strict_assert!(self.hold != Hold::Exclusive, "the holder asks for its own line");
        self.settled_early = false;
        strict_assert!(
            u32::from(self.seq.0) < rules.seq_modulus,
            "a request number leaves its range"
        );
        if !rules.invalidate {
            // Without messages, a refusal does not show whether the line is locked or only in use.
            // So the line counts as locked.
            return self.locked_out(rules, copy, out);
        }
        if whom.is_empty() || rules.quiet {
            // Under the word discipline, a word that refuses names an owner. So a word without one
            // is damaged. Try again later.
            return self.pause(rules, out);
        }
        self.question(rules, whom, NodeSet::EMPTY, kind, out);
    }

    /// Sends requests under the present number. The nodes of `pledged` have already pledged under
    /// this number.
    pub(super) fn question(
        &mut self,
        rules: &Rules,
        whom: NodeSet,
        pledged: NodeSet,
        kind: RequestKind,
        out: &mut Vec<Action>,
    ) {
        self.phase = Phase::Asking { open: whom, pledged, refused: Refused::No };
        strict_assert!(!whom.is_empty(), "requests go to some node");
        strict_assert!(!pledged.contains(self.me), "a node pledges to itself");
        strict_assert!(whom.less(pledged) == whom, "a node that has pledged is asked again");
        for asked in whom.iter() {
            let request = InvalidationRequest {
                from: self.me,
                asked,
                kind,
                seq: self.seq,
                priority: self.priority_of_requests(rules),
                buffer: 0,
            };
            out.push(Action::Send { to: asked, message: LatchMessage::Request(request) });
        }
    }

    /// Whether this node can give up the access for which requests are open. A registered reader
    /// cannot: its bit is in the word, and the node must handle the bit as long as it is set (R2).
    pub fn can_unask(&self) -> bool {
        matches!(self.phase, Phase::Asking { .. }) && !self.registered
    }

    /// Gives the access up, because the nodes of `unasked` are dead or have left, and no request
    /// reached them. So these nodes do not answer. The other nodes still answer, and the requests
    /// to them stay open until then (R5).
    ///
    /// Until then this node keeps its place in the order of upgrading nodes. A node with an open
    /// request of this node may itself send a request to this node. If each of the two nodes queued
    /// the request of the other node, neither would answer.
    pub(super) fn unask(&mut self, unasked: NodeSet, out: &mut Vec<Action>) {
        let Phase::Asking { open, pledged, refused } = self.phase else { return };
        debug_assert!(!self.registered, "a registered wait is minded until it is ownership");
        self.give_up(pledged, out);
        strict_assert!(
            !self.want.is_some_and(|want| want.is_met_by(self.hold)),
            "an access that has the line is not given up"
        );
        self.want = None;
        let (open, pledged) = (open.less(unasked), NodeSet::EMPTY);
        self.phase = match open.is_empty() {
            true => Phase::Rest,
            false => Phase::Asking { open, pledged, refused },
        };
        self.forget_refusals();
    }

    /// Ends an attempt that met another node's lock, or was refused under rules without messages.
    /// Accesses that do not wait for locks end. If no other access wants the line, the node stops
    /// trying. A registered reader is the exception: its bit becomes ownership, and its node has to
    /// notice that (R2).
    fn locked_out(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        let still = self.want.and_then(|want| copy.locked_out(want));
        let registered = self.registered.then_some(Want::Shared);
        self.want = still.max(registered).filter(|want| !want.is_met_by(self.hold));
        self.met_lock = self.want.is_some();
        if self.met_lock {
            return self.pause(rules, out);
        }
        self.phase = Phase::Rest;
        self.priority = 0;
    }

    /// Begins a back-off. The priority rises only when the back-off ends: two upgrading nodes that
    /// send each other requests must compare the same two priorities. Otherwise each could refuse
    /// the other again and again.
    pub(super) fn pause(&mut self, rules: &Rules, out: &mut Vec<Action>) {
        self.phase = Phase::Pausing;
        strict_assert!(self.want.is_some() || !rules.binding, "a back-off without an access");
        out.push(Action::Pause { priority: self.raised_priority(rules) });
    }

    /// The priority in this node's requests. The requests of other nodes are compared with it.
    pub(super) fn priority_of_requests(&self, rules: &Rules) -> u8 {
        if rules.aging { self.priority } else { 0 }
    }

    fn raised_priority(&self, rules: &Rules) -> u8 {
        self.priority.saturating_add(1).min(rules.priority_max)
    }

    pub(super) fn raise_priority(&mut self, rules: &Rules) {
        self.priority = self.raised_priority(rules);
        strict_assert!(
            self.priority <= rules.priority_max,
            "the priority {} leaves its range",
            self.priority
        );
    }

    pub(super) fn received(
        &mut self,
        rules: &Rules,
        message: LatchMessage,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        match message {
            // Under the word discipline no node sends a request back to its requester, so such a
            // request is forged. Without R2 the word can name the reader itself as the holder. The
            // model explores that case, so the machine handles the request there.
            LatchMessage::Request(request) if rules.registered_wait && request.from == self.me => {}
            LatchMessage::Request(request) => self.asked(rules, request, copy, out),
            LatchMessage::Answer { answer: Answer::Queued, .. } => {}
            LatchMessage::Answer { asked, seq, answer } => {
                let refused = match answer {
                    Answer::Dropped => Refused::Dropped,
                    Answer::Busy => Refused::Busy,
                    Answer::Released | Answer::Queued => Refused::No,
                };
                self.answered(rules, asked, seq, refused, copy, out);
            }
            LatchMessage::Grant { asked, seq, mode, travelling } => {
                // A grant for no open request is a peer's late or forged message. The machine
                // ignores the grant, as it ignores other such answers: without an open request, a
                // line need not have a frame.
                if self.hold != Hold::Nothing || !self.has_asked(asked, seq) {
                    return;
                }
                self.registered = false;
                self.unsettled = rules.settle && !self.settled_early;
                self.settled_early = false;
                let hold = match mode {
                    GrantMode::Shared => Hold::Shared,
                    GrantMode::Exclusive => Hold::Exclusive,
                };
                self.acquired(hold, copy);
                debug_assert!(self.remembered.is_empty(), "who holds nothing remembers nothing");
                self.remembered = travelling;
                if rules.quiet {
                    self.send_away(Answer::Dropped, out);
                }
                self.answered(rules, asked, seq, Refused::No, copy, out);
            }
            LatchMessage::Pledged { by, asked, seq } => {
                self.received_pledge(rules, by, asked, seq, copy, out);
            }
            LatchMessage::Taken { by, seq } => self.reported(rules, by, seq, true, copy, out),
            LatchMessage::GaveUp { by, seq } => self.reported(rules, by, seq, false, copy, out),
            LatchMessage::Settled { seq } => {
                if seq != self.seq {
                    return;
                }
                if self.unsettled {
                    self.unsettled = false;
                } else {
                    self.settled_early = matches!(self.phase, Phase::Asking { .. });
                }
            }
        }
    }

    /// Whether request `seq` of this node to `asked` is open.
    pub(super) fn has_asked(&self, asked: ComputeNodeId, seq: Seq) -> bool {
        seq == self.seq && self.is_asking(asked)
    }

    /// Handles the final answer of one of the asked nodes.
    pub(super) fn answered(
        &mut self,
        rules: &Rules,
        asked: ComputeNodeId,
        seq: Seq,
        refused: Refused,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        let Phase::Asking { open, pledged, refused: before } = self.phase else { return };
        if !self.has_asked(asked, seq) {
            return;
        }
        let open = open.without(asked);
        let refused = refused.max(before);
        strict_assert!(refused >= before, "a refusal is forgotten");
        if !open.is_empty() {
            self.phase = Phase::Asking { open, pledged, refused };
        } else if self.want.is_none_or(|want| want.is_met_by(self.hold)) {
            // A grant has met the want, or the access was given up. After a grant `pledged` is
            // empty: a pledged bit keeps the exclusive field at zero, so no holder could grant.
            self.give_up(pledged, out);
            self.phase = Phase::Rest;
            if self.want.is_none() {
                self.forget_refusals();
            }
        } else if refused == Refused::Busy {
            self.give_up(pledged, out);
            self.locked_out(rules, copy, out);
        } else if refused == Refused::Dropped {
            self.give_up(pledged, out);
            self.pause(rules, out);
        } else if !pledged.is_empty() {
            self.take_over(pledged, out);
        } else {
            self.phase = Phase::Rest;
            self.raise_priority(rules);
        }
    }

    fn asked(
        &mut self,
        rules: &Rules,
        request: InvalidationRequest,
        copy: &impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if self.hold != Hold::Nothing && request.kind.is_locked_out_by(copy.locked()) {
            return answer(&request, Answer::Busy, out);
        }
        let keep = match (self.hold, self.phase) {
            (_, Phase::Pledged { .. }) => match self.answer_of_pledger(&request) {
                None => true,
                Some(how) => return answer(&request, how, out),
            },
            // The node gives the line up at this moment. When that operation is complete, a release
            // answers the request, and a hand-over sends it on.
            (Hold::Nothing, Phase::Operating(op)) => {
                matches!(op, WordOp::ReleaseShared | WordOp::ReleaseExclusive | WordOp::HandOver(_))
            }
            // Only for a first request. A repeated request shows that the latch word still names an
            // owner, for example a node that left and returned. So an immediate second look would
            // most likely be refused, too.
            (Hold::Nothing, Phase::Rest) if rules.gives_back && request.priority == 0 => {
                return answer(&request, Answer::Released, out);
            }
            (Hold::Nothing, _) => false,
            (Hold::Shared, _) if self.is_upgrading() => self.must_give_way_to(rules, &request),
            (Hold::Shared | Hold::Exclusive, _) => true,
        };
        if !keep || rules.quiet || self.remembered.len() == REMEMBERED_MAX {
            return answer(&request, Answer::Dropped, out);
        }
        self.remembered.push(request);
        strict_assert!(
            self.remembered.len() <= REMEMBERED_MAX,
            "the queue of requests is longer than its bound"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, QueuedRequests};

    /// A node without a frame for the line: the engine panics at each use of the copy.
    struct NoFrame;

    fn unusable() -> ! {
        panic!("the line has no frame")
    }

    impl LocalCopy for NoFrame {
        fn publish(&mut self, _: Hold) {
            unusable()
        }
        fn promote(&mut self) {
            unusable()
        }
        fn try_suspend(&mut self) -> bool {
            unusable()
        }
        fn restore(&mut self) {
            unusable()
        }
        fn lose(&mut self) {
            unusable()
        }
        fn try_invalidate(&mut self) -> bool {
            unusable()
        }
        fn try_demote(&mut self) -> bool {
            unusable()
        }
    }

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    fn grant(seq: u16, mode: GrantMode) -> Event {
        let (asked, seq, travelling) = (node(2), Seq(seq), QueuedRequests::new());
        Event::Received(LatchMessage::Grant { asked, seq, mode, travelling })
    }

    /// A peer's grant for no open request panicked. The machine took the line, for which no frame
    /// was set aside. Fix: the machine ignores the grant, as it ignores other such answers.
    #[test]
    fn a_grant_for_no_open_request_changes_nothing() {
        let (rules, mut out) = (Rules::DISCIPLINE, Vec::new());
        let mut line = Line::at_rest(node(1), Hold::Nothing, Seq(0));
        for (seq, mode) in
            [(0, GrantMode::Shared), (0, GrantMode::Exclusive), (7, GrantMode::Exclusive)]
        {
            line.step(&rules, grant(seq, mode), &mut NoFrame, &mut out);
            assert_eq!((line.is_at_rest(), line.hold(), out.len()), (true, Hold::Nothing, 0));
        }
        line.step(&rules, Event::Want(Want::Exclusive), &mut NoFrame, &mut out);
        let (op, old) = (WordOp::AcquireExclusive, LatchWord::exclusively(node(3)));
        line.step(&rules, Event::Completed { op, old }, &mut NoFrame, &mut out);
        let before = line.clone();
        // The open request went to node 3.
        line.step(&rules, grant(1, GrantMode::Exclusive), &mut NoFrame, &mut out);
        assert_eq!(line, before);
    }

    /// A request that names its receiver as the requester made the receiver forward the line to
    /// itself. No check compared the two. Fix: the machine ignores the request.
    #[test]
    fn a_request_in_the_name_of_its_receiver_changes_nothing() {
        let mut line = Line::at_rest(node(1), Hold::Exclusive, Seq(0));
        let (kind, priority, buffer) = (RequestKind::Write, 0, 0);
        let (from, asked, seq) = (node(1), node(1), Seq(1));
        let request = InvalidationRequest { from, asked, kind, seq, priority, buffer };
        let (event, mut out) = (Event::Received(LatchMessage::Request(request)), Vec::new());
        line.step(&Rules::DISCIPLINE, event, &mut NoFrame, &mut out);
        assert_eq!((line.is_at_rest(), out.len()), (true, 0));
    }
}
