//! [`Tag`]: the kind of a batch of a worker, encoded in the tag of its completion.

use latchwork_strict::strict_assert;

/// The kind of a batch of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tag {
    /// A batch of the protocol, with the protocol's own tag of 63 bits.
    Protocol(u64),
    /// A message, with the forwarded line if any: the key among the messages in flight.
    Letter(usize),
}

impl Tag {
    pub(crate) fn bits(self) -> u64 {
        match self {
            Tag::Protocol(tag) => {
                strict_assert!(tag >> 63 == 0, "the protocol's tag {tag:#x} loses a bit");
                tag << 1
            }
            Tag::Letter(key) => {
                strict_assert!(key >> 63 == 0, "the key {key:#x} of a message loses a bit");
                (key as u64) << 1 | 1
            }
        }
    }

    pub(crate) fn from_bits(bits: u64) -> Tag {
        match bits & 1 {
            0 => Tag::Protocol(bits >> 1),
            _ => Tag::Letter((bits >> 1) as usize),
        }
    }
}
