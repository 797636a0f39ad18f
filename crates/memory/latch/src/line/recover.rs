//! Resolving what a dead node left open, with [`Rules::survive`].
//!
//! Two events tell the machine of deaths. At [`Event::LetGo`](crate::Event::LetGo) the node begins
//! a round in which it queues no request and sends none. At [`Event::Lost`](crate::Event::Lost) all
//! that living nodes sent each other before that round has arrived. Then:
//!
//! - No request of this node exists at any living node. What is open counts as `Dropped`.
//! - No living giver has a forward in doubt. So an unsettled line came from the dead node.
//! - No compare-and-swap of the dead node can land. So the word says what became of a pledge to it.
//!
//! In each case the word decides, because the dead node's last operation took effect or never will:
//!
//! ```text
//!   this node                 word        then
//!   asked, holds nothing      X(me)       the hand-over landed, its grant is lost: read memory
//!                             0, bit(me)  the downgrade landed, its grant is lost: read memory
//!                             other       refused: try again
//!   unsettled, to write       X(me)       settled
//!                             X(dead)     X(dead) -> X(me)
//!   unsettled, to read        0           settled
//!                             X(dead)     X(dead) -> X(me), then write the line back and downgrade
//!                             X(other)    that reader does so: look again
//!   pledged to the dead node  bit(me)     not taken: share the line as before
//!                             other       taken
//! ```

use latchwork_strict::strict_assert;
use latchwork_verbs::ComputeNodeId;

use super::{Line, Phase, Refused};
use crate::{Action, Hold, LatchWord, LocalCopy, NodeSet, Rules, WordOp};

impl Line {
    /// Whether nothing of this line depends on the dead node `dead` any more, and no operation in
    /// flight names it. Ask after [`Event::Lost`](crate::Event::Lost).
    pub fn is_clear_of(&self, dead: ComputeNodeId) -> bool {
        let names = match self.phase {
            Phase::Operating(op) => op.names(dead),
            Phase::Asking { pledged, .. } => pledged.contains(dead),
            _ => false,
        };
        !self.unsettled && !names && self.pledged_to() != Some(dead)
    }

    /// Whether this node has a forward in flight whose receiver is not settled, and is none of the
    /// dead nodes `gone`. A node ends the first half of its round only without one.
    pub fn gives(&self, gone: NodeSet) -> bool {
        self.served.iter().any(|&(to, _)| !gone.contains(to))
    }

    pub(super) fn lost(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        self.settled_early = false;
        match self.phase {
            // A pledged bit keeps the exclusive field at zero, and so does this node's own bit.
            // Otherwise a hand-over to this node may have landed.
            Phase::Asking { pledged: NodeSet::EMPTY, .. }
                if self.hold == Hold::Nothing && !self.registered =>
            {
                self.phase = Phase::Rest;
                self.start(WordOp::Poll, out);
            }
            Phase::Asking { open, .. } => {
                let seq = self.seq;
                for asked in open.iter() {
                    self.answered(rules, asked, seq, Refused::Dropped, copy, out);
                }
            }
            Phase::Pledged { to, pausing, .. } if rules.gone.contains(to) => {
                self.phase = Phase::Rest;
                if pausing {
                    self.raise_priority(rules);
                }
                if rules.looks && rules.pledger_looks {
                    copy.lose();
                    self.start(WordOp::Poll, out);
                } else {
                    self.hold = Hold::Shared;
                    copy.restore();
                }
            }
            _ => {}
        }
        self.unsettled &= rules.looks;
        let is_orphan = self.unsettled && self.hold == Hold::Shared;
        if is_orphan && !rules.reader_claims && copy.try_invalidate() {
            (self.unsettled, self.hold, self.registered) = (false, Hold::Nothing, true);
            self.start(WordOp::Poll, out);
        }
        if self.unsettled {
            strict_assert!(self.phase == Phase::Rest, "R4: an unsettled line has no operation");
            // Any of them will do as a first guess: the word has the giver's name.
            if let Some(dead) = rules.gone.iter().next() {
                self.start(WordOp::Inherit(LatchWord::exclusively(dead)), out);
            }
        }
    }

    /// Handles the end of a look at the word by a node that is not registered.
    pub(super) fn looked(&mut self, old: LatchWord, copy: &mut impl LocalCopy) {
        if old.exclusive() == Some(self.me) {
            self.acquired(Hold::Exclusive, copy);
        } else if old.shared().contains(self.me) {
            strict_assert!(old.exclusive().is_none(), "a pledged bit stands beside a holder");
            self.acquired(Hold::Shared, copy);
        }
    }

    /// Handles the end of an attempt to take the place of a dead holder: the compare-and-swap of
    /// `word` has found `old`.
    pub(super) fn inherited(
        &mut self,
        rules: &Rules,
        word: LatchWord,
        old: LatchWord,
        out: &mut Vec<Action>,
    ) {
        let reads = self.hold == Hold::Shared;
        match old.exclusive() {
            _ if old == word => {
                self.unsettled = false;
                if reads {
                    self.start(WordOp::Downgrade, out);
                }
            }
            Some(holder) if holder == self.me => self.unsettled = false,
            // The downgrade took effect. A writer never finds this: the field of the dead node
            // stands until this node has claimed.
            None => self.unsettled = false,
            // Readers have joined, or another dead node was the giver.
            Some(holder) if rules.gone.contains(holder) => {
                self.start(WordOp::Inherit(old), out);
            }
            // Another reader writes the line back.
            Some(_) => self.start(WordOp::Inherit(word), out),
        }
    }
}
