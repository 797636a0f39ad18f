//! The directives of other nodes, and locks that keep them waiting.

use latchwork_latch::{Hold, NodeSet, Want};

use super::Line;
use super::phase::Phase;
use crate::event::{Action, LocalCopy};
use crate::message::{Bytes, Directive, Era, Kind, Message, Party, Sent};
use crate::rules::{Conflicts, Rules};

impl Line {
    /// Keeps a directive until its tenure has been used.
    pub(super) fn directed(&mut self, rules: &Rules, directive: Directive, out: &mut Vec<Action>) {
        let forgets = !rules.remembers_early && directive.kind == Kind::Invalidate;
        if forgets && self.hold == Hold::Nothing {
            self.report(rules, directive, out);
        } else {
            self.directives.push(directive);
        }
    }

    /// Whether the machine may look at its directives: the answer to an eviction decides first
    /// whether there is still a copy.
    pub(super) fn can_serve(&self) -> bool {
        self.hold != Hold::Nothing && !matches!(self.phase, Phase::Leaving(_))
    }

    /// Whether the directive is the next one of the tenure of the present copy.
    pub(super) fn is_due(&self, rules: &Rules, directive: &Directive) -> bool {
        match directive.kind {
            Kind::Copy => directive.era == self.era,
            Kind::Move | Kind::Invalidate => {
                directive.era == Era(rules.after(self.era.0))
                    && (directive.copies == self.served
                        || !rules.ordered
                        || self.is_recovered(rules))
            }
        }
    }

    /// Serves the directives that are due, as far as local code permits.
    pub(super) fn serve(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        while self.can_serve()
            && let Some(at) = self.directives.iter().position(|d| self.is_due(rules, d))
        {
            let directive = self.directives[at];
            let hold = match directive.kind {
                Kind::Copy => Hold::Shared,
                Kind::Move | Kind::Invalidate => Hold::Nothing,
            };
            let may = match (hold, self.hold) {
                (Hold::Nothing, _) => copy.try_exclude(),
                (_, Hold::Exclusive) => copy.try_demote(),
                _ => true,
            };
            if !may {
                return;
            }
            self.directives.remove(at);
            self.told = self.told.without(directive.to);
            self.hold = hold;
            if directive.kind == Kind::Copy {
                self.served = rules.after_copy(self.served);
            }
            self.give(rules, directive, out);
        }
    }

    fn give(&mut self, rules: &Rules, directive: Directive, out: &mut Vec<Action>) {
        let Directive { kind, era, to, buffer, .. } = directive;
        let mode = match kind {
            Kind::Copy => Want::Shared,
            Kind::Move => Want::Exclusive,
            Kind::Invalidate => return self.report(rules, directive, out),
        };
        let line = Bytes::Line { buffer };
        let message = Message::Line { mode, era };
        out.push(Action::Send(Sent { to: Party::Node(to), bytes: line, message }));
        if rules.is_at_home() {
            let bytes = if kind == Kind::Copy { Bytes::Changes } else { Bytes::Nothing };
            let message = Message::Done { era, kept: false };
            out.push(Action::Send(Sent { to: Party::Home, bytes, message }));
        }
    }

    /// Reports to the node that resolves the conflict that the copy is discarded.
    pub(super) fn report(&self, rules: &Rules, directive: Directive, out: &mut Vec<Action>) {
        let Directive { era, to, .. } = directive;
        let to = if rules.is_at_home() { Party::Home } else { Party::Node(to) };
        let message = Message::Done { era, kept: false };
        out.push(Action::Send(Sent { to, bytes: Bytes::Nothing, message }));
    }

    /// Tells the requesters that a lock keeps waiting: a lock of this node, or a lock of a node
    /// before it in the chain. Nodes behind a home that queues learn it from the home.
    pub(super) fn pass_lock_on(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if self.directives.is_empty() {
            return;
        }
        let lock = copy.locked();
        let mut told = NodeSet::EMPTY;
        for directive in &self.directives {
            let here = match directive.kind {
                Kind::Copy => lock == Some(Want::Exclusive),
                Kind::Move | Kind::Invalidate => lock.is_some(),
            };
            if (here || self.locked_out) && !self.told.contains(directive.to) {
                let busy = Message::Busy { era: directive.era };
                out.push(Action::Send(Sent::node(directive.to, busy.clone())));
                if rules.conflicts != Conflicts::Chain {
                    out.push(Action::Send(Sent::home(busy)));
                }
                told = told.with(directive.to);
            }
        }
        self.told = self.told.union(told);
    }
}
