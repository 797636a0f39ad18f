//! The part of a node in the recovery of a line after a death.

use latchwork_latch::Hold;
use latchwork_verbs::ComputeNodeId;

use super::Line;
use super::phase::{Phase, Recovery};
use crate::event::{Action, LocalCopy};
use crate::message::{Bytes, Directive, Era, Kind, Message, Party, Sent};
use crate::rules::Rules;

impl Line {
    /// Serves the dead node no more, and tells the home of a wait for it. The wait goes on until
    /// the home asks the node to settle: the memory may still get the dead node's changes.
    pub(super) fn died(&mut self, rules: &Rules, dead: ComputeNodeId, out: &mut Vec<Action>) {
        self.told = self.told.without(dead);
        let is_of = |directive: &Directive| directive.to == dead;
        while let Some(at) = self.directives.iter().position(is_of) {
            let directive = self.directives.remove(at);
            self.ignore(rules, directive, out);
        }
        if self.awaits(dead) {
            out.push(Action::Send(Sent::home(Message::Stuck { dead })));
        }
    }

    /// The requester of the directive is dead, so the copy stays.
    pub(super) fn ignore(&self, rules: &Rules, directive: Directive, out: &mut Vec<Action>) {
        if rules.is_at_home() {
            // The home knows by the report that the directive is no longer under way.
            let done = Message::Done { era: directive.era, kept: true };
            out.push(Action::Send(Sent::home(done)));
        }
    }

    /// Waits no longer for nodes that are dead.
    pub(super) fn forget_dead(&mut self) {
        let Recovery::Asked { dead, .. } = self.recovery else { return };
        if let Phase::Gathering(gathering) = &mut self.phase {
            let living = gathering.sharers.less(dead);
            // The dead sharer may have had the duty to write the changes back.
            gathering.adopts |= living != gathering.sharers;
            gathering.sharers = living;
            gathering.failed |= gathering.line.is_some_and(|node| dead.contains(node));
        }
    }

    /// Ends a tenure whose line does not come, when no directive of this node is under way any
    /// more.
    pub(super) fn fail_tenure(&mut self) {
        if let Phase::Gathering(gathering) = self.phase
            && gathering.failed
            && gathering.sharers.is_empty()
        {
            self.get_stuck();
        }
    }

    fn get_stuck(&mut self) {
        self.phase = Phase::Stuck;
        self.locked_out = false;
    }

    /// The line does not come from the holder.
    pub(super) fn gone(&mut self, from: Party, era: Era) {
        if let Phase::Gathering(gathering) = &mut self.phase
            && gathering.era == era
            && gathering.line.is_some_and(|line| from == Party::Node(line))
        {
            gathering.failed = true;
        }
    }

    /// Refuses directives of tenures that have failed, or that ended before their directives
    /// came.
    /// Without deaths there are none: a tenure ends after its last directive.
    pub(super) fn refuse_late(&mut self, rules: &Rules, out: &mut Vec<Action>) {
        let coming = match self.phase {
            Phase::Rest | Phase::Pausing | Phase::Stuck => None,
            Phase::Gathering(gathering) => Some(gathering.era).filter(|_| !gathering.failed),
            // The directive may be of the tenure that begins, or of the one that is restored.
            Phase::Asking | Phase::Leaving(_) => return,
        };
        let present = Some(self.era).filter(|_| self.hold != Hold::Nothing);
        let is_of = |kind: Kind, era: Era, tenure: Option<Era>| {
            tenure.is_some_and(|tenure| match kind {
                Kind::Copy => era == tenure,
                Kind::Move | Kind::Invalidate => era == Era(rules.after(tenure.0)),
            })
        };
        let mut at = 0;
        while let Some(&directive) = self.directives.get(at) {
            if is_of(directive.kind, directive.era, present)
                || is_of(directive.kind, directive.era, coming)
            {
                at += 1;
                continue;
            }
            self.directives.remove(at);
            match directive.kind {
                Kind::Invalidate => self.report(rules, directive, out),
                Kind::Copy | Kind::Move => {
                    let gone = Message::Gone { era: directive.era };
                    out.push(Action::Send(Sent::node(directive.to, gone)));
                }
            }
        }
    }

    /// Takes a demand of the home. A demand of an earlier recovery may arrive late.
    pub(super) fn asked(&mut self, rules: &Rules, asked: Recovery) {
        let Some(era) = asked.era() else { return };
        let is_new = |known: Era| rules.follows(era.0, known.0);
        let holds = self.hold != Hold::Nothing || matches!(self.phase, Phase::Leaving(_));
        let is_late = matches!(asked, Recovery::Asked { .. }) && holds && !is_new(self.era);
        if self.recovery.era().is_none_or(is_new) && !is_late {
            self.recovery = asked;
        }
    }

    /// Whether the home recovers the line, and the tenure is of an era before. A copy that a dead
    /// reader was to get is never served, and a living reader that comes too late tries again.
    pub(super) fn is_recovered(&self, rules: &Rules) -> bool {
        self.recovery.era().is_some_and(|era| rules.follows(era.0, self.era.0))
    }

    /// Answers the home, when nothing is under way that the answer has to wait for.
    pub(super) fn answer_home(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        match self.recovery {
            Recovery::Asked { era, failed, .. } => {
                // With a copy, the line has come before the holder died.
                if failed && self.phase == Phase::Asking && self.hold == Hold::Nothing {
                    self.get_stuck();
                }
                if matches!(self.phase, Phase::Rest | Phase::Pausing | Phase::Stuck) {
                    self.recovery = Recovery::Settled(era);
                    out.push(Action::Send(Sent::home(Message::Settled { era })));
                }
            }
            Recovery::Adopt(era) if !matches!(self.phase, Phase::Leaving(_)) => {
                self.recovery = Recovery::None;
                if self.hold != Hold::Nothing {
                    copy.adopt();
                }
                self.answer_rebase(rules, era, copy, out);
            }
            _ => {}
        }
    }

    /// The copy is of the home's new era, so that nothing late of the eras before concerns it.
    pub(super) fn rebase(
        &mut self,
        rules: &Rules,
        era: Era,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if self.recovery != Recovery::Settled(era) {
            return;
        }
        self.recovery = Recovery::None;
        if self.hold != Hold::Nothing && rules.follows(era.0, self.era.0) {
            (self.era, self.served) = (era, 0);
        }
        if self.phase == Phase::Stuck {
            self.phase = Phase::Rest;
        }
        self.answer_rebase(rules, era, copy, out);
    }

    fn answer_rebase(&self, rules: &Rules, era: Era, copy: &impl LocalCopy, out: &mut Vec<Action>) {
        let hold = self.hold;
        let changed = hold != Hold::Nothing && copy.is_changed();
        // A home that resolves conflicts has all changes in its memory while the line is shared.
        let writes = changed && hold == Hold::Shared && rules.is_at_home();
        let bytes = if writes { Bytes::Changes } else { Bytes::Nothing };
        let message = Message::Rebased { era, hold, changed };
        out.push(Action::Send(Sent { to: Party::Home, bytes, message }));
    }
}
