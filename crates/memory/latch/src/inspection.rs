//! What the word says about an operation of which nobody knows whether it was applied.
//!
//! A connection can fail under a batch: then some of its requests have taken effect, up to one of
//! them, and the rest never will. The node reads the word afterwards and looks at its own field.
//! That decides, since from the posting on nothing but the operation itself can have changed that
//! field in a way that hides it:
//!
//! | operation | own field before | applied, if now | who else could change that |
//! | --- | --- | --- | --- |
//! | `AcquireShared` | bit clear | bit set | nobody: R2, and R1 for the node itself |
//! | `Poll` | bit set | no matter: it changes nothing, and the look is as good | |
//! | `AcquireExclusive` | not the holder | the holder | a giver, by a hand-over: only as the answer to a question, and none is out (R5) |
//! | `Upgrade` | not the holder | the holder | as above |
//! | `TakeOver`, `UpgradeOver` | not the holder | the holder | nobody: a pledged bit keeps the exclusive field at zero |
//! | `ReleaseShared` | bit set | bit clear | nobody: R2, and whoever releases has not pledged |
//! | `ReleaseExclusive` | the holder | not the holder | nobody makes it the holder again (R3), as above |
//! | `Downgrade` | the holder | not the holder | as above |
//! | `HandOver` | the holder | not the holder | as above; the receiver may not act on the word before it is settled (R4) |
//!
//! What was not applied can be posted again, with what goes before it in its batch: the node owns
//! what it owned. A compare-and-swap that was not applied to a word on which it would have failed
//! now is as good as refused by that word. `Undo` belongs to a discipline without R1 and R2; there
//! the word cannot tell.

use latchwork_verbs::ComputeNodeId;

use crate::{LatchWord, WordOp};

/// What became of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inspection {
    /// It is over: report it complete, with this as what its atomic returned. For an operation that
    /// reads the line, the line as it was read behind the inspection belongs to it.
    Over {
        /// A word that leads to the same as the one that the atomic did find.
        old: LatchWord,
    },
    /// It was not applied and never will be: post it again.
    Again,
}

impl WordOp {
    /// What became of this operation of `me`, whose completion was ambiguous, when the word is
    /// `now` after it. `None` when the word cannot tell.
    pub fn inspect(self, me: ComputeNodeId, now: LatchWord) -> Option<Inspection> {
        let over = |old| Some(Inspection::Over { old });
        let bit = now.shared().contains(me);
        let holder = now.exclusive() == Some(me);
        match self {
            // While the own bit is set, nobody becomes the holder of a word without one (R3). So a
            // holder now means that there has been one since the bit was set.
            WordOp::AcquireShared if bit => {
                over(now.plus(LatchWord::shared_by(me).bits().wrapping_neg()))
            }
            WordOp::Poll => over(now),
            WordOp::AcquireExclusive
            | WordOp::Upgrade
            | WordOp::TakeOver(_)
            | WordOp::UpgradeOver(_) => match self.expected(me) {
                Some(expected) if holder => over(expected),
                Some(expected) if now == expected => Some(Inspection::Again),
                _ => over(now),
            },
            WordOp::ReleaseShared if !bit => over(now),
            WordOp::ReleaseExclusive
            | WordOp::Downgrade
            | WordOp::DowngradeFor(_)
            | WordOp::HandOver(_)
                if !holder =>
            {
                over(now)
            }
            WordOp::Undo => None,
            _ => Some(Inspection::Again),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{NodeSet, WordVerb};

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    const ME: u8 = 2;
    const NODES: u8 = 4;

    /// All words of the nodes, with any holder and any bits but the holder's own.
    fn words() -> impl Iterator<Item = LatchWord> {
        (0..=NODES).flat_map(|x| (0..1u64 << NODES).map(move |bits| (x, bits))).filter_map(
            |(x, bits)| {
                let holder = ComputeNodeId::new(x);
                let word = holder.map_or(LatchWord::FREE, LatchWord::exclusively).plus(bits);
                let waits_for_itself = holder.is_some_and(|holder| word.shared().contains(holder));
                (!waits_for_itself).then_some(word)
            },
        )
    }

    fn applied(op: WordOp, by: ComputeNodeId, word: LatchWord) -> LatchWord {
        match op.verb(by) {
            WordVerb::Add(add) => word.plus(add),
            WordVerb::CompareSwap { expected, desired } if word == expected => desired,
            WordVerb::CompareSwap { .. } => word,
        }
    }

    /// Whether the discipline lets `by` apply `op` to `word`. Nobody hands over to a node that asks
    /// for nothing, as this one does, or that waits to read.
    fn may(op: WordOp, by: ComputeNodeId, word: LatchWord) -> bool {
        let bit = word.shared().contains(by);
        let holder = word.exclusive() == Some(by);
        match op {
            WordOp::AcquireShared => !bit && !holder,
            WordOp::Poll => bit && !holder,
            WordOp::AcquireExclusive => !bit && !holder,
            WordOp::Upgrade => bit && word.exclusive().is_none(),
            WordOp::TakeOver(pledged) | WordOp::UpgradeOver(pledged) => {
                let upgrades = matches!(op, WordOp::UpgradeOver(_));
                let stand = pledged.less(word.shared()).is_empty() && !pledged.contains(by);
                // This node has not pledged: it has an operation in flight.
                stand
                    && !pledged.contains(node(ME))
                    && upgrades == bit
                    && word.exclusive().is_none()
            }
            WordOp::ReleaseShared => bit && word.exclusive().is_none(),
            WordOp::ReleaseExclusive | WordOp::Downgrade => holder,
            WordOp::HandOver(to) => {
                holder && to != by && to != node(ME) && !word.shared().contains(to)
            }
            WordOp::Undo | WordOp::DowngradeFor(_) => false,
        }
    }

    fn operations() -> Vec<WordOp> {
        let mut all = vec![
            WordOp::AcquireShared,
            WordOp::Poll,
            WordOp::AcquireExclusive,
            WordOp::Upgrade,
            WordOp::ReleaseShared,
            WordOp::ReleaseExclusive,
            WordOp::Downgrade,
        ];
        all.extend((1..=NODES).map(|to| WordOp::HandOver(node(to))));
        for bits in 1..1 << NODES {
            let pledged = LatchWord::from_bits(bits).shared();
            all.extend([WordOp::TakeOver(pledged), WordOp::UpgradeOver(pledged)]);
        }
        all
    }

    /// Every word that the others can make of `word`, in any number of steps. Those of `frozen` do
    /// nothing: they were handed the line and are not settled, or have pledged to this node; and so
    /// they pledge to nobody else.
    fn reachable(word: LatchWord, frozen: NodeSet) -> BTreeSet<LatchWord> {
        let (mut all, mut open) = (BTreeSet::from([word]), vec![word]);
        let others = || (1..=NODES).map(node).filter(|&by| by != node(ME) && !frozen.contains(by));
        let takes = |op| match op {
            WordOp::TakeOver(pledged) | WordOp::UpgradeOver(pledged) => pledged,
            _ => NodeSet::EMPTY,
        };
        let operations: Vec<WordOp> =
            operations().into_iter().filter(|&op| takes(op).less(frozen) == takes(op)).collect();
        while let Some(word) = open.pop() {
            let steps = others().flat_map(|by| operations.iter().map(move |&op| (by, op)));
            for (by, op) in steps {
                let next = applied(op, by, word);
                if may(op, by, word) && all.insert(next) {
                    open.push(next);
                }
            }
        }
        all
    }

    /// What the machine does when an operation has found `old`.
    #[derive(PartialEq, Eq, Debug)]
    enum Outcome {
        Done,
        Refused,
    }

    fn outcome(op: WordOp, old: LatchWord) -> Outcome {
        let done = match op {
            WordOp::AcquireShared | WordOp::Poll => old.exclusive().is_none(),
            WordOp::AcquireExclusive => old == LatchWord::FREE,
            WordOp::Upgrade | WordOp::TakeOver(_) | WordOp::UpgradeOver(_) => {
                op.expected(node(ME)) == Some(old)
            }
            _ => true,
        };
        if done { Outcome::Done } else { Outcome::Refused }
    }

    /// Every operation on every word, applied or cut off, before and after anything that the others
    /// may do: the decision is the truth.
    #[test]
    fn the_own_field_tells_what_happened() {
        let me = node(ME);
        let mut looked_at = 0;
        for op in operations().into_iter().filter(|op| !matches!(op, WordOp::Poll)) {
            if matches!(op, WordOp::HandOver(to) if to == me) {
                continue;
            }
            // The receiver has its grant already, perhaps, and is not settled (R4).
            let (pledged, settling) = match op {
                WordOp::HandOver(to) => (NodeSet::EMPTY, NodeSet::of(to)),
                WordOp::TakeOver(pledged) | WordOp::UpgradeOver(pledged) => {
                    (pledged, NodeSet::EMPTY)
                }
                _ => (NodeSet::EMPTY, NodeSet::EMPTY),
            };
            let posted_on = words().filter(|&word| {
                // The precondition is about the own field, which stays; the claims may be in vain.
                may(op, me, word)
            });
            let found: BTreeSet<LatchWord> =
                posted_on.flat_map(|word| reachable(word, pledged)).collect();
            for found in found {
                let effect = applied(op, me, found);
                let took = effect != found;
                let frozen = if took { settling } else { NodeSet::EMPTY };
                let behind = reachable(effect, frozen.union(pledged)).into_iter();
                let cut = reachable(found, pledged).into_iter().map(|now| (now, false));
                for (now, took) in behind.map(|now| (now, took)).chain(cut) {
                    looked_at += 1;
                    let story = format!("{op:?} on {found:?}, taken: {took}, now {now:?}");
                    let told = op.inspect(me, now).expect("the word can tell");
                    let Inspection::Over { old } = told else {
                        assert!(!took, "{story}: again");
                        continue;
                    };
                    let expected = match op {
                        // A wait that was registered may be ownership by now.
                        WordOp::AcquireShared if took => outcome(op, now),
                        _ if took => Outcome::Done,
                        _ => Outcome::Refused,
                    };
                    assert_eq!(outcome(op, old), expected, "{story}");
                }
            }
        }
        assert!(looked_at > 2000, "{looked_at}");
    }

    /// A refusal names those who own the line now, so that they can be asked.
    #[test]
    fn what_is_told_names_the_owners_of_now() {
        let me = node(ME);
        for now in words() {
            for op in
                [WordOp::AcquireShared, WordOp::Poll, WordOp::AcquireExclusive, WordOp::Upgrade]
            {
                if let Some(Inspection::Over { old }) = op.inspect(me, now)
                    && outcome(op, old) == Outcome::Refused
                {
                    assert_eq!(old.exclusive(), now.exclusive(), "{op:?} {now:?}");
                    assert_eq!(
                        old.shared().without(me),
                        now.shared().without(me),
                        "{op:?} {now:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_undo_cannot_be_told() {
        assert!(words().all(|now| WordOp::Undo.inspect(node(ME), now).is_none()));
    }
}
