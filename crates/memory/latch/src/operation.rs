//! The operations on a latch word, and the atomic verb of each operation.

use latchwork_verbs::ComputeNodeId;

use crate::{LatchWord, NodeSet, Rules};

/// An operation on a line's latch word. A node has at most one in flight per line (rule R1 of the
/// [crate]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WordOp {
    /// Sets the own shared bit, then reads the line.
    AcquireShared,
    /// Reads the word again during a registered wait, then reads the line.
    Poll,
    /// Turns a free word into exclusive ownership, then reads the line.
    AcquireExclusive,
    /// Turns sole shared ownership into exclusive ownership. The copy is valid already.
    Upgrade,
    /// Turns the shared ownership of these nodes into exclusive ownership, then reads the line. All
    /// these nodes have pledged their ownership to this node.
    TakeOver(NodeSet),
    /// Like [`WordOp::TakeOver`], but this node shares the line too: its copy is already valid.
    UpgradeOver(NodeSet),
    /// Clears the own shared bit.
    ReleaseShared,
    /// Writes the changes back, then clears the exclusive field.
    ReleaseExclusive,
    /// Writes the changes back, then turns exclusive into shared ownership.
    Downgrade,
    /// Makes another node the exclusive holder.
    HandOver(ComputeNodeId),
    /// Writes the changes back, and keeps exclusive ownership. Changes nothing in the word: as an
    /// operation on the word, it excludes a later write-back of this node until it is over (R1).
    Persist,
    /// Takes the place of a dead holder in exactly this word, and clears the own bit in it. The
    /// dead node had granted the line to this node, and its own operation never took effect. Only
    /// with [`Rules::survive`](crate::Rules::survive).
    Inherit(LatchWord),
    /// Clears the bit of a refused reader, as SELCC does instead of a registered wait. Only without
    /// [`Rules::registered_wait`](crate::Rules::registered_wait), which the model refutes.
    Undo,
    /// Like [`WordOp::Downgrade`], but also sets the bit of the served reader, as SELCC does. Only
    /// without [`Rules::registered_wait`](crate::Rules::registered_wait).
    DowngradeFor(ComputeNodeId),
}

/// The atomic verb of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordVerb {
    /// Fetch-and-add of this operand, modulo 2^64.
    Add(u64),
    /// Compare-and-swap.
    CompareSwap {
        /// The word must have this value for the swap.
        expected: LatchWord,
        /// The new word.
        desired: LatchWord,
    },
}

impl WordOp {
    /// The atomic verb that `me` posts for this operation.
    ///
    /// Of the shared bits, a verb changes only the bit of `me` (R2). A takeover also clears the
    /// bits that were pledged to `me`. [`WordOp::DowngradeFor`] breaks R2 and also sets the bit of
    /// the reader.
    ///
    /// A verb changes the exclusive field in two ways only: by a compare-and-swap of an exact word
    /// in which the field is zero, or by an addition of the holder (R3).
    pub fn verb(self, me: ComputeNodeId) -> WordVerb {
        let bit = LatchWord::shared_by(me).bits();
        let exclusive = LatchWord::exclusively(me).bits();
        match self {
            WordOp::AcquireShared => WordVerb::Add(bit),
            WordOp::Poll | WordOp::Persist => WordVerb::Add(0),
            WordOp::AcquireExclusive => WordVerb::CompareSwap {
                expected: LatchWord::FREE,
                desired: LatchWord::exclusively(me),
            },
            WordOp::Upgrade => WordVerb::CompareSwap {
                expected: LatchWord::shared_by(me),
                desired: LatchWord::exclusively(me),
            },
            WordOp::TakeOver(pledged) => WordVerb::CompareSwap {
                expected: LatchWord::shared_among(pledged),
                desired: LatchWord::exclusively(me),
            },
            WordOp::UpgradeOver(pledged) => WordVerb::CompareSwap {
                expected: LatchWord::shared_among(pledged.with(me)),
                desired: LatchWord::exclusively(me),
            },
            WordOp::ReleaseShared | WordOp::Undo => WordVerb::Add(bit.wrapping_neg()),
            WordOp::ReleaseExclusive => WordVerb::Add(exclusive.wrapping_neg()),
            WordOp::Downgrade => WordVerb::Add(bit.wrapping_sub(exclusive)),
            WordOp::DowngradeFor(reader) => {
                let reader = LatchWord::shared_by(reader).bits();
                WordVerb::Add(bit.wrapping_add(reader).wrapping_sub(exclusive))
            }
            WordOp::HandOver(to) => {
                WordVerb::Add(LatchWord::exclusively(to).bits().wrapping_sub(exclusive))
            }
            WordOp::Inherit(word) => WordVerb::CompareSwap {
                expected: word,
                desired: LatchWord::from_bits(exclusive | word.shared().without(me).bits()),
            },
        }
    }

    /// Whether the batch reads the line after the atomic verb.
    pub fn reads_line(self) -> bool {
        matches!(
            self,
            WordOp::AcquireShared | WordOp::Poll | WordOp::AcquireExclusive | WordOp::TakeOver(_)
        )
    }

    /// The word on which this compare-and-swap of `me` succeeds; `None` for an addition.
    pub fn expected(self, me: ComputeNodeId) -> Option<LatchWord> {
        match self.verb(me) {
            WordVerb::CompareSwap { expected, .. } => Some(expected),
            WordVerb::Add(_) => None,
        }
    }

    /// Whether the batch writes changes back before the atomic verb. The batch of a hand-over does
    /// so with [`Rules::survive`](crate::Rules::survive) only.
    pub fn writes_back(self, rules: &Rules) -> bool {
        match self {
            WordOp::ReleaseExclusive
            | WordOp::Downgrade
            | WordOp::DowngradeFor(_)
            | WordOp::Persist => true,
            WordOp::HandOver(_) => rules.survive,
            _ => false,
        }
    }

    /// Whether the operation has `id` in the word that it expects or leaves: as the receiver of the
    /// line, as a pledger, or as the dead holder.
    pub fn names(self, id: ComputeNodeId) -> bool {
        match self {
            WordOp::HandOver(to) | WordOp::DowngradeFor(to) => to == id,
            WordOp::TakeOver(pledged) | WordOp::UpgradeOver(pledged) => pledged.contains(id),
            WordOp::Inherit(word) => word.exclusive() == Some(id) || word.shared().contains(id),
            _ => false,
        }
    }
}
