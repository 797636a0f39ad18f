//! [`Epoch`], and the word in which a compute node publishes an epoch.

use std::fmt;

use latchwork_strict::strict_assert_eq;

/// A value of the cluster's epoch counter. It starts at 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub(crate) u64);

impl Epoch {
    /// A value above every epoch, which a node without an operation in progress publishes. The
    /// counter counts marks of freed lines, about one in a tick of a node. With a tick of 1 ms, 58
    /// nodes need more than nine years to reach this value.
    pub(crate) const NONE_OLDER: Epoch = Epoch((1 << SlotWord::EPOCH_BITS) - 1);

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Epoch::NONE_OLDER => f.write_str("idle"),
            Epoch(epoch) => write!(f, "e{epoch}"),
        }
    }
}

/// The content of a compute node's slot on memory node 0; 0 while no node is registered there.
///
/// ```text
///  63            44 43                                     0
///  | sequence (20)  | epoch (44); all ones: idle; 0: empty  |
/// ```
///
/// The sequence number makes every word of a node different from its last million words. So an
/// abandoned compare-and-swap that is in flight cannot succeed after a later one has succeeded,
/// unless a million writes have come in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotWord(u64);

impl SlotWord {
    const EPOCH_BITS: u32 = 44;
    const _CHECK: () =
        assert!(Self::EPOCH_BITS < 64 - 16, "the sequence has room for a million writes");
    /// No node is registered.
    pub(crate) const EMPTY: SlotWord = SlotWord(0);

    pub(crate) fn new(epoch: Epoch, sequence: u64) -> SlotWord {
        debug_assert!(epoch.0 > 0 && epoch <= Epoch::NONE_OLDER);
        strict_assert_eq!(
            SlotWord(sequence << Self::EPOCH_BITS | epoch.0).epoch(),
            Some(epoch),
            "the slot keeps the whole bound"
        );
        SlotWord(sequence << Self::EPOCH_BITS | epoch.0)
    }

    pub(crate) fn from_bits(bits: u64) -> SlotWord {
        SlotWord(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The published bound: [`Epoch::NONE_OLDER`] for an idle node, `None` for an empty slot.
    pub(crate) fn epoch(self) -> Option<Epoch> {
        match self.0 & Epoch::NONE_OLDER.0 {
            0 => None,
            epoch => Some(Epoch(epoch)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_number_never_disturbs_the_epoch() {
        for sequence in [0, 1, (1 << 20) - 1, 1 << 20, u64::MAX] {
            for epoch in [Epoch(1), Epoch(77), Epoch::NONE_OLDER] {
                assert_eq!(SlotWord::new(epoch, sequence).epoch(), Some(epoch));
            }
        }
        assert_eq!(SlotWord::EMPTY.epoch(), None);
        assert_ne!(SlotWord::new(Epoch(1), 1), SlotWord::new(Epoch(1), 2));
    }
}
