//! Taking shared lines over, with [`Rules::takeover`]. A sharer answers a writer's request with a
//! pledge, and does not release the line. When all answers have arrived, the writer replaces all
//! pledged bits by its own exclusive field with one compare-and-swap.
//!
//! ```text
//!   writer W                       word          sharer P
//!   Operating(AcquireExclusive)    (0, {P, Q})   Rest, shared
//!   Asking ── request ─────────────────────────► copy forbidden, Pledged to W
//!   Asking ◄───────────────────── pledged ──────
//!   Operating(TakeOver{P, Q})      (W, {})
//!   Rest, exclusive ── taken ──────────────────► Rest, holds nothing
//! ```
//!
//! # Why the word stays true
//!
//! A pledge binds until its report. Until then the pledger does not clear its bit, and keeps its
//! frame and its bytes. It starts no operation on the word, does not use its copy, and pledges to
//! no other writer. So, from a pledge of P to W until W clears P's bit or reports:
//!
//! 1. P does not clear its own bit.
//! 2. The exclusive field was zero when P shared the line. The field leaves zero only by a
//!    compare-and-swap (R3).
//! 3. A writer's compare-and-swap expects no bits but its own bit and the bits that were pledged to
//!    that writer. P's bit is pledged to W only.
//! 4. So the compare-and-swap of every writer other than W fails. Only W can clear P's bit, and
//!    until then the exclusive field stays zero and no node writes.
//!
//! Hence:
//!
//! - When W's compare-and-swap succeeds, all bits that it clears were W's own or pledged to W. At
//!   that instant the pledgers hold nothing.
//! - When it fails, or W gives up before, no node has written since the pledge. P's copy is still
//!   valid.
//!
//! A plain acknowledgement would not be enough. Its sender could clear its bit and set it again
//! before W's compare-and-swap. The compare-and-swap would find the word that it expects, and W
//! would write beside a reader.
//!
//! # Why no waits form a circle
//!
//! 1. Writers that want one line are ordered by priority, then by id. A writer's priority stays the
//!    same from its request to the end of the attempt.
//! 2. A pledger queues the requests of writers that come before the writer with its pledge, and a
//!    later request of that writer itself. It refuses the requests of other writers that come
//!    behind.
//! 3. So a writer waits only for writers behind it, or for its own report. A writer that requests
//!    from a writer before it is refused: the refused writer gives its pledges up and backs off.
//! 4. Of two writers with half of the pledges each, the first in the order gets the other half.

use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::ComputeNodeId;

use super::{Line, Phase, Refused, answer};
use crate::message::{Answer, InvalidationRequest, LatchMessage, RequestKind};
use crate::{Action, Hold, LatchWord, LocalCopy, NodeSet, Rules, Seq, WordOp};

impl Line {
    /// Whether the copy is pledged to a writer that has not reported. The copy must not be used,
    /// but its bytes stay.
    pub fn is_pledged(&self) -> bool {
        matches!(self.phase, Phase::Pledged { .. })
    }

    /// The writer to which the copy is pledged.
    pub fn pledged_to(&self) -> Option<ComputeNodeId> {
        if let Phase::Pledged { to, .. } = self.phase { Some(to) } else { None }
    }

    // ---- a sharer -------------------------------------------------------------------------------

    /// Pledges the copy, whose use is already forbidden, to the requester `to`.
    pub(super) fn pledge(&mut self, to: InvalidationRequest, out: &mut Vec<Action>) {
        strict_assert_eq!(self.hold, Hold::Nothing, "use of the copy ends before the pledge");
        strict_assert_ne!(to.from, self.me, "a node pledges its copy to itself");
        strict_assert_eq!(to.kind, RequestKind::Write, "only a writer gets a pledge");
        let InvalidationRequest { from, asked, seq, priority, .. } = to;
        let pausing = self.phase == Phase::Pausing;
        self.phase = Phase::Pledged { to: from, seq, priority, pausing };
        let message = LatchMessage::Pledged { by: self.me, asked, seq };
        out.push(Action::Send { to: from, message });
        for other in std::mem::take(&mut self.remembered) {
            if other == to {
                continue;
            }
            // The writer sent requests to two nodes, and one of them sent its request on to this
            // node.
            let same = other.from == from;
            answer(&other, if same { Answer::Released } else { Answer::Dropped }, out);
        }
    }

    /// A pledger's answer to a request. `None`: the request is queued until the report.
    pub(super) fn answer_of_pledger(&self, request: &InvalidationRequest) -> Option<Answer> {
        let Phase::Pledged { to, seq, priority, .. } = self.phase else {
            return Some(Answer::Dropped);
        };
        match request.kind {
            // The reader found the exclusive field set. A pledged line has the field at zero, so
            // the reader's registered wait is ownership by now.
            RequestKind::Read => Some(Answer::Released),
            // Another request of the same attempt of the same writer, which another owner has sent
            // on. The writer waits for all answers before it reports. So this request must not wait
            // for the report.
            RequestKind::Write if (request.from, request.seq) == (to, seq) => {
                Some(Answer::Released)
            }
            // A later attempt of the same writer: its report on this pledge is on the way.
            RequestKind::Write if request.from == to => None,
            RequestKind::Write if (request.priority, request.from) > (priority, to) => None,
            RequestKind::Write => Some(Answer::Dropped),
        }
    }

    /// Handles the report of a writer on its pledge.
    pub(super) fn reported(
        &mut self,
        rules: &Rules,
        by: ComputeNodeId,
        seq: Seq,
        taken: bool,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        let pausing = match self.phase {
            Phase::Pledged { to, seq: pledged, pausing, .. } if (to, pledged) == (by, seq) => {
                pausing
            }
            _ => return,
        };
        self.phase = Phase::Rest;
        strict_assert_eq!(self.hold, Hold::Nothing, "a pledged copy was used");
        if taken {
            if pausing {
                self.raise_priority(rules);
            }
            copy.lose();
            self.send_away(Answer::Released, out);
        } else {
            // The pledge was given during a back-off, and the writer was refused too. So the
            // back-off continues. Otherwise each refusal would restart all later writers at once.
            // They would pledge to each other and be refused again.
            if pausing {
                self.phase = Phase::Pausing;
            }
            self.hold = Hold::Shared;
            copy.restore();
        }
    }

    /// Breaks a pledge. No pledger of the discipline does this: [`Rules::binding`] can be off only
    /// for the model, which refutes that.
    pub(super) fn break_pledge(&mut self, copy: &mut impl LocalCopy) {
        if self.is_pledged() {
            self.phase = Phase::Rest;
            self.hold = Hold::Shared;
            copy.restore();
        }
    }

    // ---- the writer -----------------------------------------------------------------------------

    /// Handles a sharer's pledge, which is that sharer's final answer.
    pub(super) fn received_pledge(
        &mut self,
        rules: &Rules,
        by: ComputeNodeId,
        asked: ComputeNodeId,
        seq: Seq,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if self.has_asked(asked, seq)
            && let Phase::Asking { pledged, .. } = &mut self.phase
        {
            *pledged = pledged.with(by);
            strict_assert!(!pledged.contains(self.me), "a node pledges to itself");
        }
        self.answered(rules, asked, seq, Refused::No, copy, out);
    }

    /// Starts the takeover: every node that got a request has pledged or released its copy.
    pub(super) fn take_over(&mut self, pledged: NodeSet, out: &mut Vec<Action>) {
        strict_assert!(
            !pledged.is_empty() && !pledged.contains(self.me),
            "a takeover needs the pledges of others"
        );
        strict_assert_ne!(self.hold, Hold::Exclusive, "the holder takes its own line over");
        let op = match self.hold {
            Hold::Shared => WordOp::UpgradeOver(pledged),
            _ => WordOp::TakeOver(pledged),
        };
        self.start(op, out);
    }

    /// Handles the end of a takeover: the compare-and-swap has found `old`.
    pub(super) fn took_over(
        &mut self,
        rules: &Rules,
        op: WordOp,
        pledged: NodeSet,
        old: LatchWord,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if Some(old) == op.expected(self.me) {
            strict_assert!(!pledged.contains(self.me));
            if self.hold == Hold::Shared {
                self.hold = Hold::Exclusive;
                copy.promote();
            } else {
                self.acquired(Hold::Exclusive, copy);
            }
            return self.report(pledged, true, out);
        }
        // The bit of a dead pledger is cleared without this node, so another writer may come.
        debug_assert!(
            old.exclusive().is_none() || rules.survive,
            "a pledged bit keeps the exclusive field at zero"
        );
        let newcomers = old.shared().without(self.me).less(pledged);
        strict_assert!(!newcomers.contains(self.me));
        // The compare-and-swap found new readers. They get a request as well, and each round leaves
        // fewer nodes that can join. A queued writer comes before this one, so this node gives up.
        let refused = rules.quiet || (rules.survive && old.exclusive().is_some());
        if newcomers.is_empty() || !self.remembered.is_empty() || refused {
            self.give_up(pledged, out);
            return self.pause(rules, out);
        }
        self.question(rules, newcomers, pledged, RequestKind::Write, out);
    }

    /// Reports the pledges as unused: the pledgers may use their copies again.
    pub(super) fn give_up(&mut self, pledged: NodeSet, out: &mut Vec<Action>) {
        self.report(pledged, false, out);
    }

    fn report(&self, pledged: NodeSet, taken: bool, out: &mut Vec<Action>) {
        let (by, seq) = (self.me, self.seq);
        strict_assert!(!pledged.contains(self.me), "a node reports to itself");
        for to in pledged.iter() {
            let message = if taken {
                LatchMessage::Taken { by, seq }
            } else {
                LatchMessage::GaveUp { by, seq }
            };
            out.push(Action::Send { to, message });
        }
    }

    /// Gives up the pledges to this node, because one of its requests cannot be delivered. Does
    /// nothing while the takeover is in flight, because the outcome is unknown then.
    pub fn abandon_pledges(&mut self, out: &mut Vec<Action>) {
        if let Phase::Asking { pledged, .. } = &mut self.phase {
            let pledged = std::mem::take(pledged);
            self.give_up(pledged, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::line::unused::Unused;

    /// Of two sharers, one is dead or has left, and the request to it was not sent. The other
    /// sharer pledges and gets its copy back. Otherwise it would keep the pledge for a writer that
    /// has given up. At the end the writer is at rest, with its old copy.
    #[test]
    fn a_writer_that_could_not_ask_all_gives_back_what_the_others_pledge() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        let (me, gone, sharer) = (node(1), node(2), node(3));
        let rules = Rules { takeover: true, ..Rules::DISCIPLINE };
        let mut line = Line::at_rest(me, Hold::Shared, Seq(0));
        let mut out = Vec::new();
        line.step(&rules, Event::Want(crate::Want::Exclusive), &mut Unused::default(), &mut out);
        let all = [me, gone, sharer].map(LatchWord::shared_by).map(LatchWord::bits);
        let old = LatchWord::from_bits(all.iter().sum());
        line.step(
            &rules,
            Event::Completed { op: WordOp::Upgrade, old },
            &mut Unused::default(),
            &mut out,
        );
        assert!(line.is_asking(gone) && line.is_asking(sharer) && line.can_unask());
        out.clear();
        let unsent = Event::Unsent(NodeSet::of(gone));
        line.step(&rules, unsent, &mut Unused::default(), &mut out);
        assert_eq!((out.len(), line.is_wanted()), (0, false));
        assert!(!line.is_at_rest() && !line.is_asking(gone) && line.is_asking(sharer), "{line:?}");
        let pledged = LatchMessage::Pledged { by: sharer, asked: sharer, seq: line.seq() };
        line.step(&rules, Event::Received(pledged), &mut Unused::default(), &mut out);
        let gave_up = LatchMessage::GaveUp { by: me, seq: line.seq() };
        assert_eq!(out, [Action::Send { to: sharer, message: gave_up }]);
        assert_eq!((line.is_at_rest(), line.hold()), (true, Hold::Shared));
    }

    /// A writer sent requests to two sharers. One became the owner, handed the line on, and sent
    /// the writer's request on. So the new owner has both requests. The new owner must not queue
    /// the second request until the report: the writer does not report before that request is
    /// answered.
    #[test]
    fn a_pledger_keeps_no_other_question_of_the_attempt_that_it_has_pledged_to() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        let (me, other, writer) = (node(1), node(2), node(3));
        let mut line = Line::at_rest(me, Hold::Shared, Seq(0));
        let mut ask = |asked, seq| {
            let (kind, priority, buffer) = (RequestKind::Write, 0, 0);
            let request =
                InvalidationRequest { from: writer, asked, kind, seq: Seq(seq), priority, buffer };
            let mut out = Vec::new();
            let event = Event::Received(LatchMessage::Request(request));
            let rules = Rules { takeover: true, ..Rules::DISCIPLINE };
            line.step(&rules, event, &mut Unused::default(), &mut out);
            out
        };
        let says = |message| Action::Send { to: writer, message };
        let pledged = says(LatchMessage::Pledged { by: me, asked: me, seq: Seq(7) });
        assert!(ask(me, 7).contains(&pledged));
        let answered =
            |answer, asked, seq| says(LatchMessage::Answer { asked, seq: Seq(seq), answer });
        assert_eq!(ask(other, 7), [answered(Answer::Released, other, 7)]);
        // A request of a later attempt has overtaken the report on this pledge.
        assert_eq!(ask(me, 8), [answered(Answer::Queued, me, 8)]);
    }
}
