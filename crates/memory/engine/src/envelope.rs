//! The envelope of a message about a line (the words that the engine writes), and the messages that
//! belong to the engine.
//!
//! ```text
//!  word 0:  kind 8 | of the kind
//!  word 1:  address of the line
//!  word 2:  worker of the sender 16 | number 48
//!  word 3 and on: of the kind
//!
//!  probe, probe reply: word 3  message number of the forward in question
//!  probe reply: word 0, bit 32  whether the forward has arrived
//!  user message: words 1 to 13 belong to the layers above
//! ```
//!
//! All other kinds belong to the protocol. Unused words are zero: a fabric need not transfer zeros
//! at the end.

use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{GlobalAddr, Message as Wire};

use crate::deduplicate::MessageNumber;

/// The words of a message. The engine writes the address and the message number, the protocol the
/// rest.
pub type Body = [u64; Wire::WORDS];

const DOUBT: u64 = 5;
const VERDICT: u64 = 6;
/// Not a message of the protocol: the words after word 0 belong to the layers above.
pub(crate) const MAIL: u64 = 10;

const ADDR: usize = 1;
const STAMP: usize = 2;

/// The first word after the envelope. Each kind has its own use of it.
pub const REST: usize = 3;

const _: () = assert!(DOUBT != VERDICT && DOUBT != MAIL && VERDICT != MAIL, "kinds differ");
const _: () = assert!(DOUBT < 1 << 8 && VERDICT < 1 << 8 && MAIL < 1 << 8, "a kind is a byte");
const _: () = assert!(0 < ADDR && ADDR < STAMP && STAMP < REST, "fields of an envelope overlap");
const _: () = assert!(REST < Wire::WORDS, "a message has no room behind its envelope");

/// A message about a line, by the part of the node that handles it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Envelope {
    /// A message of the protocol.
    Line,
    /// A probe: whether the forward with this message number has arrived. If it has not, it never
    /// counts from now on.
    PendingProbe(MessageNumber),
    /// The probe reply.
    Verdict {
        /// The message number of the forward.
        of: MessageNumber,
        /// Whether the forward has arrived.
        arrived: bool,
    },
}

impl Envelope {
    /// Reads the envelope of a message, and its message number. `None` when the message has no
    /// envelope: a user message, or a message that a peer of another version may send.
    pub fn open(wire: &Wire) -> Option<(GlobalAddr, Envelope, MessageNumber)> {
        let head = wire.body[0];
        if head == MAIL {
            return None;
        }
        let stamp = MessageNumber::from_bits(wire.body[STAMP])?;
        let envelope = match head & 0xff {
            DOUBT => Envelope::PendingProbe(MessageNumber::from_bits(wire.body[REST])?),
            VERDICT => {
                let (of, arrived) =
                    (MessageNumber::from_bits(wire.body[REST])?, head >> 32 & 1 != 0);
                Envelope::Verdict { of, arrived }
            }
            _ => Envelope::Line,
        };
        Some((GlobalAddr::from_bits(wire.body[ADDR]), envelope, stamp))
    }

    /// The message number of the probed forward, if `body` is a probe.
    pub(crate) fn probed(body: &Body) -> Option<MessageNumber> {
        if body[0] == DOUBT { MessageNumber::from_bits(body[REST]) } else { None }
    }

    /// The words of a probe or of a probe reply. A message of the protocol has its own.
    pub(crate) fn body(self) -> Body {
        let mut body = [0; Wire::WORDS];
        match self {
            Envelope::Line => {}
            Envelope::PendingProbe(of) => (body[0], body[REST]) = (DOUBT, of.bits()),
            Envelope::Verdict { of, arrived } => {
                (body[0], body[REST]) = (VERDICT | u64::from(arrived) << 32, of.bits());
            }
        }
        body
    }
}

/// Writes the address of the line and the message number into a message.
pub(crate) fn seal(body: &mut Body, addr: GlobalAddr, stamp: MessageNumber) {
    strict_assert!(body[0] != 0, "a message without a kind is about to leave");
    strict_assert!(body[0] != MAIL, "a user message has no envelope");
    strict_assert_eq!(
        (body[ADDR], body[STAMP]),
        (0, 0),
        "the writer of a message leaves the words of the envelope empty"
    );
    (body[ADDR], body[STAMP]) = (addr.bits(), stamp.bits());
    strict_assert!(MessageNumber::from_bits(body[STAMP]).is_some(), "a stamp that is never given");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

    use super::*;

    #[test]
    fn probes_survive_the_wire() {
        let (stamp, of) = (MessageNumber::new(u16::MAX, (1 << 48) - 1), MessageNumber::new(9, 5));
        let addr = GlobalAddr::new(MemoryNodeId(3), 0xffff_ffff_f800);
        let from = ComputeNodeId::new(4).expect("a valid id");
        for envelope in [
            Envelope::PendingProbe(of),
            Envelope::Verdict { of, arrived: true },
            Envelope::Verdict { of, arrived: false },
        ] {
            let mut body = envelope.body();
            seal(&mut body, addr, stamp);
            assert_eq!(Envelope::open(&Wire { from, body }), Some((addr, envelope, stamp)));
        }
    }

    #[test]
    fn what_has_no_envelope_is_refused() {
        let from = ComputeNodeId::new(1).expect("a valid id");
        for (kind, stamp) in [(MAIL, 1), (DOUBT, 1), (VERDICT, 1), (1, 0)] {
            let mut body = [0; Wire::WORDS];
            (body[0], body[STAMP]) = (kind, stamp);
            assert_eq!(Envelope::open(&Wire { from, body }), None, "{kind}");
        }
    }
}
