//! Probes of the latch word: whether an operation with an unknown outcome was applied.
//!
//! A connection can fail during a batch. Then a prefix of the requests of the batch has taken
//! effect, and the rest never will. The node reads the word afterwards and looks at its own field:
//! its shared bit, or whether the exclusive field names the node. The field decides: since the post
//! only this operation can have changed the field, and no operation can have undone the change.
//! That follows from the rules R1 to R5 of the [crate], for each operation:
//!
//! 1. `AcquireShared` sets the bit. Only the node sets its bit (R2), and it has no other operation
//!    in flight (R1).
//! 2. `Poll` changes nothing. The probe reads the word in place of `Poll`.
//! 3. `AcquireExclusive` and `Upgrade` make the node the holder. Only a hand-over could do so too.
//!    A hand-over answers a request of the node (R5), and the node has no request open.
//! 4. `TakeOver` and `UpgradeOver` make the node the holder. While a pledged bit stands, the
//!    exclusive field is zero, so no holder can hand over.
//! 5. `ReleaseShared` clears the bit. Only the node clears its bit, or a writer to which the node
//!    has pledged (R2). A node that releases has not pledged.
//! 6. `ReleaseExclusive` and `Downgrade` end the node's time as the holder. Only the holder does so
//!    (R3). The node does not become the holder again by a hand-over, because it has no request
//!    open.
//! 7. `HandOver` makes another node the holder, as in 6. The receiver changes nothing before the
//!    giver has reported (R4).
//! 8. `Inherit` makes the node the holder in place of a dead one. No node hands over to this node,
//!    which has no request open.
//! 9. `Persist` changes nothing in the word, so the word cannot show it. It is posted again with
//!    the same bytes. A second write of them takes nothing away: the node is the holder, so no
//!    other node writes to memory. Newer changes of the node itself are not in memory before this
//!    operation is over (R1).
//!
//! An operation that was not applied can be posted again, with the requests before it in its batch:
//! the node's ownership is unchanged. A compare-and-swap that was not applied, and would fail on
//! the present word, counts as refused by that word. `Undo` breaks R1 and R2, so the word cannot
//! decide about `Undo`.

use latchwork_strict::strict_assert;
use latchwork_verbs::ComputeNodeId;

use crate::{LatchWord, WordOp, WordVerb};

/// The outcome of an operation, as a probe shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordProbe {
    /// The operation is over. Report it complete, with `old` as the value that the atomic verb
    /// returned. If the operation reads the line, use the line as it was read after the probe.
    Over {
        /// A word with the same consequences as the word that the atomic verb found.
        old: LatchWord,
    },
    /// The operation was not applied and never will be, and it could succeed now. Post it again.
    Again,
}

impl WordOp {
    /// The outcome of this operation of `me`, whose completion was ambiguous, when the word is
    /// `now` afterwards. `None` when the word cannot decide.
    pub fn inspect(self, me: ComputeNodeId, now: LatchWord) -> Option<WordProbe> {
        let over = |old| Some(WordProbe::Over { old });
        let bit = now.shared().contains(me);
        let holder = now.exclusive() == Some(me);
        match self {
            // A node becomes the holder of a word without one only by a compare-and-swap that
            // expects this node's bit clear (R3). So if `now` has a holder, the word had one when
            // the bit was set.
            WordOp::AcquireShared if bit => {
                strict_assert!(self.verb(me) == WordVerb::Add(LatchWord::shared_by(me).bits()));
                over(now.plus(LatchWord::shared_by(me).bits().wrapping_neg()))
            }
            WordOp::Poll => over(now),
            WordOp::AcquireExclusive
            | WordOp::Upgrade
            | WordOp::TakeOver(_)
            | WordOp::UpgradeOver(_)
            | WordOp::Inherit(_) => match self.expected(me) {
                Some(expected) if holder => over(expected),
                Some(expected) if now == expected => Some(WordProbe::Again),
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
            _ => Some(WordProbe::Again),
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

    /// All words of the nodes, with any holder and any bits except the bit of the holder itself.
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

    /// Whether the rules permit `by` to apply `op` to `word`. No node hands over to this node,
    /// which has no open request, or to a node that waits to read.
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
            WordOp::ReleaseExclusive | WordOp::Downgrade | WordOp::Persist => holder,
            WordOp::HandOver(to) => {
                holder && to != by && to != node(ME) && !word.shared().contains(to)
            }
            WordOp::Undo | WordOp::DowngradeFor(_) | WordOp::Inherit(_) => false,
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
            WordOp::Persist,
        ];
        all.extend((1..=NODES).map(|to| WordOp::HandOver(node(to))));
        for bits in 1..1 << NODES {
            let pledged = LatchWord::from_bits(bits).shared();
            all.extend([WordOp::TakeOver(pledged), WordOp::UpgradeOver(pledged)]);
        }
        all
    }

    /// Every word that the other nodes can make of `word`, in any number of steps. The nodes of
    /// `frozen` do nothing: they have an unsettled hand-over, or have pledged to this node and so
    /// pledge to no other.
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

    /// The decision is right for every operation of [`operations`] but `Poll`, on every word. The
    /// other nodes take any steps before the operation and after it. The operation is applied, or
    /// its batch fails before it.
    #[test]
    fn the_own_field_tells_what_happened() {
        let me = node(ME);
        let mut looked_at = 0;
        for op in operations().into_iter().filter(|op| !matches!(op, WordOp::Poll)) {
            if matches!(op, WordOp::HandOver(to) if to == me) {
                continue;
            }
            // The receiver may have its grant, but the giver has not reported to it (R4).
            let (pledged, settling) = match op {
                WordOp::HandOver(to) => (NodeSet::EMPTY, NodeSet::of(to)),
                WordOp::TakeOver(pledged) | WordOp::UpgradeOver(pledged) => {
                    (pledged, NodeSet::EMPTY)
                }
                _ => (NodeSet::EMPTY, NodeSet::EMPTY),
            };
            let posted_on = words().filter(|&word| {
                // Only the own field is known when the operation is posted. The rest of the word
                // may change before the operation is applied.
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
                    let WordProbe::Over { old } = told else {
                        assert!(!took, "{story}: again");
                        continue;
                    };
                    let expected = match op {
                        // A registered wait may be ownership by now.
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

    /// A refusal names the present owners, so that the node can send them requests.
    #[test]
    fn an_inspection_names_the_owners_of_now() {
        let me = node(ME);
        for now in words() {
            for op in
                [WordOp::AcquireShared, WordOp::Poll, WordOp::AcquireExclusive, WordOp::Upgrade]
            {
                if let Some(WordProbe::Over { old }) = op.inspect(me, now)
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
    fn an_undo_cannot_be_inspected() {
        assert!(words().all(|now| WordOp::Undo.inspect(node(ME), now).is_none()));
    }
}
