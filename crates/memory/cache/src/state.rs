//! The state word of a frame: the node's rights on the copy, and the version of the copy.
//!
//! ```text
//!   63                                          3    2      1 0
//!  +---------------------------------------------+-------+-----+
//!  |  counter: changes with the bytes or when    | local | own |
//!  |  the right to read them is lost             | latch |     |
//!  +---------------------------------------------+-------+-----+
//!                              own: 0 invalid, 1 shared, 2 exclusive
//! ```
//!
//! Local readers, local writers and the handlers of invalidations agree, because all of them use
//! this one word. A reader loads the word before and after its read. A writer latches the word by
//! compare-and-swap. The handler of an invalidation takes the ownership away by a compare-and-swap
//! that fails while the latch is held.

/// The node's right to use its copy of a line (the "ownership memo" of SELCC 4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Ownership {
    /// Neither readable nor writable.
    Invalid = 0,
    /// Readable.
    Shared = 1,
    /// Readable and writable.
    Exclusive = 2,
}

/// A value of a frame's state word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameState(u64);

impl FrameState {
    const OWNERSHIP: u64 = 0b011;
    const LATCHED: u64 = 0b100;
    const COUNTER_ONE: u64 = 0b1000;

    /// The state whose word is `bits`.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        FrameState(bits)
    }

    /// The word.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The node's right to use the copy.
    #[inline]
    pub const fn ownership(self) -> Ownership {
        match self.0 & Self::OWNERSHIP {
            0 => Ownership::Invalid,
            1 => Ownership::Shared,
            _ => Ownership::Exclusive,
        }
    }

    /// Whether a local writer holds the latch.
    #[inline]
    pub const fn is_latched(self) -> bool {
        self.0 & Self::LATCHED != 0
    }

    /// Whether an optimistic read may start.
    #[inline]
    pub const fn is_readable(self) -> bool {
        // One comparison for: owned in some mode, and not latched.
        (self.0 & (Self::OWNERSHIP | Self::LATCHED)).wrapping_sub(1) < Self::LATCHED - 1
    }

    /// Whether the local latch can be taken for writing.
    #[inline]
    pub(crate) const fn is_writable(self) -> bool {
        self.0 & (Self::OWNERSHIP | Self::LATCHED) == Ownership::Exclusive as u64
    }

    /// The counter. Two readable states of a frame with equal counters stand for the same bytes.
    #[inline]
    pub const fn counter(self) -> u64 {
        self.0 >> 3
    }

    /// The state while a local writer has the latch.
    #[inline]
    pub const fn latched(self) -> Self {
        FrameState(self.0 | Self::LATCHED)
    }

    /// The state after the writer releases the latch: next counter.
    #[inline]
    pub(crate) const fn unlatched(self) -> Self {
        FrameState((self.0 & !Self::LATCHED).wrapping_add(Self::COUNTER_ONE))
    }

    /// The state with the same bytes under another ownership.
    #[inline]
    pub(crate) const fn with_ownership(self, ownership: Ownership) -> Self {
        FrameState(self.0 & !Self::OWNERSHIP | ownership as u64)
    }

    /// The state with other bytes, or none: next counter under `ownership`.
    #[inline]
    pub const fn replaced(self, ownership: Ownership) -> Self {
        FrameState(self.0.wrapping_add(Self::COUNTER_ONE)).with_ownership(ownership)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_tells_copies_apart_and_survives_a_change_of_ownership() {
        let held = FrameState::from_bits(0).replaced(Ownership::Exclusive);
        assert!(held.is_readable() && held.is_writable());
        assert_eq!(held.with_ownership(Ownership::Shared).counter(), held.counter());
        assert!(!held.with_ownership(Ownership::Shared).is_writable());
        let latched = held.latched();
        assert!(!latched.is_readable() && !latched.is_writable());
        assert_ne!(latched.unlatched().counter(), held.counter());
        assert_eq!(latched.unlatched().ownership(), Ownership::Exclusive);
        assert!(!held.replaced(Ownership::Invalid).is_readable());
    }
}
