//! [`Link`]: the numbers in an entry of an inner page.

/// What the entry of an inner page says of its child, besides box and address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// The sequence number that the entry expects.
    pub(crate) expects: u32,
    /// How often the entry's box became larger.
    pub(crate) grows: u32,
}

impl Link {
    pub(crate) fn new(expects: u32) -> Link {
        Link { expects, grows: 0 }
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.expects) | u64::from(self.grows) << 32
    }

    pub(super) fn from_bits(bits: u64) -> Link {
        Link { expects: bits as u32, grows: (bits >> 32) as u32 }
    }
}
