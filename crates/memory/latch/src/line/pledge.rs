//! Taking shared lines over: a writer that meets sharers asks each for a pledge instead of a
//! release, and then takes the whole word with one compare-and-swap.
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
//! A pledge binds until its report. The pledger's bit stays set; it starts no operation on the
//! word, keeps its frame and its bytes, and pledges to nobody else. So while a pledge to W stands,
//! nobody but W can clear that bit: its owner does nothing, and every other writer's
//! compare-and-swap expects words without it (a writer expects the bits of those who pledged to
//! itself, and its own). A word with a bit that no compare-and-swap expects keeps its exclusive
//! field at zero. Hence
//!
//! - when W's compare-and-swap works, all bits that it clears were pledged to W, and at that
//!   instant their owners hold nothing;
//! - when it fails, or W gives up before, nobody has written since the pledge: the copy is as good
//!   as it was.
//!
//! A plain acknowledgement would not do. Its sender could let go of its bit and set it again before
//! W's compare-and-swap comes, which finds the word that it expects and works beside a reader.
//!
//! # Why nobody waits in a circle
//!
//! Writers that want one line are ordered by priority, then id; a writer's priority stays the same
//! from its question to the end of the attempt. A pledger remembers the questions of writers that
//! come before the one that it has pledged to, and sends away the others. So a writer waits for
//! writers behind it only; one that meets a writer before it is sent away, gives its pledges up and
//! pauses. Of two that hold half of the pledges each, the first in the order gets the other half.

use latchwork_verbs::ComputeNodeId;

use super::{Line, Phase, Refused, answer};
use crate::message::{Answer, Message, Request, RequestKind};
use crate::{Action, Hold, LatchWord, LocalCopy, NodeSet, Rules, Seq, WordOp};

impl Line {
    /// Whether the copy is pledged to a writer that has not reported yet: it may not be used, but
    /// its bytes stay as they are.
    pub fn is_pledged(&self) -> bool {
        matches!(self.phase, Phase::Pledged { .. })
    }

    /// To whom the copy is pledged.
    pub fn pledged_to(&self) -> Option<ComputeNodeId> {
        if let Phase::Pledged { to, .. } = self.phase { Some(to) } else { None }
    }

    // ---- a sharer --------------------------------------------------------------------------------

    /// The copy was forbidden: pledges it to the first of those who asked.
    pub(super) fn pledge(&mut self, to: Request, out: &mut Vec<Action>) {
        let Request { from, asked, seq, priority, .. } = to;
        let pausing = self.phase == Phase::Pausing;
        self.phase = Phase::Pledged { to: from, seq, priority, pausing };
        let message = Message::Pledged { by: self.me, asked, seq };
        out.push(Action::Send { to: from, message });
        for other in std::mem::take(&mut self.remembered) {
            if other == to {
                continue;
            }
            // A writer that had asked two nodes, one of which has handed its question on.
            let same = other.from == from;
            answer(&other, if same { Answer::Released } else { Answer::Dropped }, out);
        }
    }

    /// What a pledger does with a question; `None`: remembers it until the report.
    pub(super) fn answer_of_pledger(&self, request: &Request) -> Option<Answer> {
        let Phase::Pledged { to, seq, priority, .. } = self.phase else {
            return Some(Answer::Dropped);
        };
        match request.kind {
            // It saw the time before a downgrade: its wait is ownership now.
            RequestKind::Read => Some(Answer::Released),
            // The writer itself, by another question of the same attempt, which a node that it had
            // asked has sent on. It waits for all its answers before it reports, so this one may
            // not wait for the report.
            RequestKind::Write if (request.from, request.seq) == (to, seq) => {
                Some(Answer::Released)
            }
            // The writer itself, who asks again: its report is on the way.
            RequestKind::Write if request.from == to => None,
            RequestKind::Write if (request.priority, request.from) > (priority, to) => None,
            RequestKind::Write => Some(Answer::Dropped),
        }
    }

    /// The writer has reported.
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
        if taken {
            if pausing {
                self.raise_priority(rules);
            }
            copy.lose();
            self.send_away(Answer::Released, out);
        } else {
            // A writer that stood back for one that was refused as well was refused itself: its
            // pause goes on. Else each refusal would start all writers behind, at once, which
            // pledge to each other, and so on.
            if pausing {
                self.phase = Phase::Pausing;
            }
            self.hold = Hold::Shared;
            copy.restore();
        }
    }

    /// What no pledger may do, and the model refutes.
    pub(super) fn break_pledge(&mut self, copy: &mut impl LocalCopy) {
        if self.is_pledged() {
            self.phase = Phase::Rest;
            self.hold = Hold::Shared;
            copy.restore();
        }
    }

    // ---- the writer ------------------------------------------------------------------------------

    /// A sharer has pledged its copy: its final answer.
    pub(super) fn received_pledge(
        &mut self,
        rules: &Rules,
        by: ComputeNodeId,
        asked: ComputeNodeId,
        seq: Seq,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if let Phase::Asking { open, pledged, .. } = &mut self.phase
            && seq == self.seq
            && open.contains(asked)
        {
            *pledged = pledged.with(by);
        }
        self.answered(rules, asked, seq, Refused::No, copy, out);
    }

    /// Everybody has pledged, or let go.
    pub(super) fn take_over(&mut self, pledged: NodeSet, out: &mut Vec<Action>) {
        let op = match self.hold {
            Hold::Shared => WordOp::UpgradeOver(pledged),
            _ => WordOp::TakeOver(pledged),
        };
        self.start(op, out);
    }

    /// The compare-and-swap of a takeover has found `old`.
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
            if self.hold == Hold::Shared {
                self.hold = Hold::Exclusive;
                copy.promote();
            } else {
                self.acquired(Hold::Exclusive, copy);
            }
            return self.report(pledged, true, out);
        }
        debug_assert!(old.exclusive().is_none(), "a pledged bit keeps the exclusive field at zero");
        let newcomers = old.shared().without(self.me).less(pledged);
        // Readers that joined are asked as well, and each makes the rest smaller; but a writer that
        // comes before this one has waited long enough.
        if newcomers.is_empty() || !self.remembered.is_empty() {
            self.give_up(pledged, out);
            return self.pause(rules, out);
        }
        self.question(rules, newcomers, pledged, RequestKind::Write, out);
    }

    /// The pledges come to nothing: the copies are their owners' again.
    pub(super) fn give_up(&mut self, pledged: NodeSet, out: &mut Vec<Action>) {
        self.report(pledged, false, out);
    }

    fn report(&self, pledged: NodeSet, taken: bool, out: &mut Vec<Action>) {
        let (by, seq) = (self.me, self.seq);
        for to in pledged.iter() {
            let message =
                if taken { Message::Taken { by, seq } } else { Message::GaveUp { by, seq } };
            out.push(Action::Send { to, message });
        }
    }

    /// Gives up the pledges that this node has, because it will not go on: one of its questions
    /// cannot be delivered. Not while the takeover itself is in flight: then nobody knows.
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

    /// A frame that nobody uses.
    struct Unused;

    impl LocalCopy for Unused {
        fn publish(&mut self, _: Hold) {}
        fn promote(&mut self) {}
        fn try_suspend(&mut self) -> bool {
            true
        }
        fn restore(&mut self) {}
        fn lose(&mut self) {}
        fn try_invalidate(&mut self) -> bool {
            true
        }
        fn try_demote(&mut self) -> bool {
            true
        }
    }

    /// Of two sharers one is gone, and the question never got there. The other one answers all the
    /// same, and gets its copy back: else it would keep it for a writer that has given up. The
    /// writer is at rest then, with the copy that it had.
    #[test]
    fn who_could_not_ask_everybody_gives_back_what_the_others_pledge() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        let (me, gone, sharer) = (node(1), node(2), node(3));
        let rules = Rules { takeover: true, ..Rules::DISCIPLINE };
        let mut line = Line::at_rest(me, Hold::Shared, Seq(0));
        let mut out = Vec::new();
        line.step(&rules, Event::Want(crate::Want::Exclusive), &mut Unused, &mut out);
        let all = [me, gone, sharer].map(LatchWord::shared_by).map(LatchWord::bits);
        let old = LatchWord::from_bits(all.iter().sum());
        line.step(&rules, Event::Completed { op: WordOp::Upgrade, old }, &mut Unused, &mut out);
        assert!(line.is_asking(gone) && line.is_asking(sharer) && line.can_unask());
        out.clear();
        let unsent = Event::Unsent(NodeSet::of(gone));
        line.step(&rules, unsent, &mut Unused, &mut out);
        assert_eq!((out.len(), line.is_wanted()), (0, false));
        assert!(!line.is_at_rest() && !line.is_asking(gone) && line.is_asking(sharer), "{line:?}");
        let pledged = Message::Pledged { by: sharer, asked: sharer, seq: line.seq() };
        line.step(&rules, Event::Received(pledged), &mut Unused, &mut out);
        let gave_up = Message::GaveUp { by: me, seq: line.seq() };
        assert_eq!(out, [Action::Send { to: sharer, message: gave_up }]);
        assert_eq!((line.is_at_rest(), line.hold()), (true, Hold::Shared));
    }

    /// A writer asked two sharers. One became the owner, handed the line on, and sent the writer's
    /// question after it: the new owner has both. It must not keep the second until the report, for
    /// which the writer waits for the answer to it.
    #[test]
    fn a_pledger_keeps_no_other_question_of_the_attempt_that_it_has_pledged_to() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        let (me, other, writer) = (node(1), node(2), node(3));
        let mut line = Line::at_rest(me, Hold::Shared, Seq(0));
        let mut ask = |asked, seq| {
            let (kind, priority, buffer) = (RequestKind::Write, 0, 0);
            let request = Request { from: writer, asked, kind, seq: Seq(seq), priority, buffer };
            let mut out = Vec::new();
            let event = Event::Received(Message::Request(request));
            let rules = Rules { takeover: true, ..Rules::DISCIPLINE };
            line.step(&rules, event, &mut Unused, &mut out);
            out
        };
        let says = |message| Action::Send { to: writer, message };
        let pledged = says(Message::Pledged { by: me, asked: me, seq: Seq(7) });
        assert!(ask(me, 7).contains(&pledged));
        let answered = |answer, asked, seq| says(Message::Answer { asked, seq: Seq(seq), answer });
        assert_eq!(ask(other, 7), [answered(Answer::Released, other, 7)]);
        // One of a later attempt has overtaken the report of this one.
        assert_eq!(ask(me, 8), [answered(Answer::Queued, me, 8)]);
    }
}
