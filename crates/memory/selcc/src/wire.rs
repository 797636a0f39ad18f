//! The wire format of messages about a line: 14 words each.
//!
//! ```text
//!  word 0:  kind 8 | asked 8 | seq 16 | mode or answer 8 | travelling 8
//!  words 1 and 2: the envelope of the engine
//!  request: word 3  the request
//!  grant:   word 3  dirty bounds           words 4 + i  travelling request i
//!  settled, pledged, taken, gave up: nothing more; the sender of the message is the subject
//!
//!  a request:  from 6 | asked 6 | kind 1 | priority 5 | seq 14 | buffer / 64 in 32 bits
//! ```
//!
//! A request is one word, so that ten requests travel with a grant. The word has room for 58 nodes,
//! priorities to 31, and request numbers modulo 2^14. Frames lie within the first 256 GiB of an
//! arena, each at a multiple of 64 bytes.
//!
//! Unused words are zero: a fabric need not transfer zeros at the end. The line of a grant is
//! written into the requester's frame before the grant, in the same batch.

use latchwork_cache::DirtyBounds;
use latchwork_engine::{Body, Envelope, REST};
use latchwork_latch::{
    Answer, GrantMode, InvalidationRequest, LatchMessage, RequestKind, Rules, Seq, TRAVELLING_MAX,
};
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Message as Wire};

const REQUEST: u64 = 1;
const ANSWER: u64 = 2;
const GRANT: u64 = 3;
const SETTLED: u64 = 4;
// 5, 6 and 10 are kinds of the engine.
const PLEDGED: u64 = 7;
const TAKEN: u64 = 8;
const GAVE_UP: u64 = 9;

/// The first word of the travelling requests of a grant.
const TRAVELLING: usize = 4;

const _: () = assert!(TRAVELLING + TRAVELLING_MAX == Wire::WORDS, "as many travel as have room");
const _: () = assert!(TRAVELLING > REST, "the travelling requests follow the dirty bounds");
const _: () = assert!(TRAVELLING_MAX < 1 << 8, "the number of travelling requests is a byte");

// The fields of a request, by the first bit of each.
const ASKED: u32 = 6;
const KIND: u32 = 12;
const PRIORITY: u32 = 13;
const SEQ: u32 = 18;
const BUFFER: u32 = 32;

/// The bound of priorities, exclusive.
const PRIORITIES: u64 = 1 << (SEQ - PRIORITY);

/// The bound of request numbers, exclusive.
const SEQS: u64 = 1 << (BUFFER - SEQ);

/// Frames begin at multiples of this.
const BUFFER_UNIT: u64 = 64;

/// The most bytes of an arena that a message can address.
pub const ARENA_MAX: u64 = BUFFER_UNIT << 32;

const _: () = assert!(Rules::DISCIPLINE.seq_modulus as u64 <= SEQS);
const _: () = assert!((Rules::DISCIPLINE.priority_max as u64) < PRIORITIES);
const _: () = assert!((ComputeNodeId::MAX as u64) < 1 << ASKED);
const _: () = assert!(KIND - ASKED == ASKED, "both nodes of a request have as many bits");
const _: () = assert!(ASKED < KIND && KIND < PRIORITY && PRIORITY < SEQ && SEQ < BUFFER);
const _: () = assert!(ARENA_MAX / BUFFER_UNIT == 1 << (64 - BUFFER), "a frame has the other bits");

/// Reads a message between nodes, and the line that the message is about. `None` when the message
/// does not belong to this protocol. For tests and tools that watch a fabric.
pub fn read_message(wire: &Wire) -> Option<(GlobalAddr, LatchMessage)> {
    match Envelope::open(wire)? {
        (addr, Envelope::Line, _) => Some((addr, LineMessage::decode(wire)?.message)),
        _ => None,
    }
}

/// A message from one line machine to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineMessage {
    /// The dirty bounds that come with exclusive ownership.
    pub(crate) dirty: DirtyBounds,
    pub(crate) message: LatchMessage,
}

impl LineMessage {
    /// A message without dirty bounds.
    pub(crate) fn of(message: LatchMessage) -> LineMessage {
        LineMessage { dirty: DirtyBounds::EMPTY, message }
    }

    pub(crate) fn encode(&self) -> Body {
        let mut body = [0; Wire::WORDS];
        body[0] = match &self.message {
            LatchMessage::Request(request) => {
                body[REST] = encode_request(request);
                REQUEST
            }
            LatchMessage::Answer { asked, seq, answer } => {
                ANSWER | head(*asked, *seq) | (*answer as u64) << 32
            }
            LatchMessage::Grant { asked, seq, mode, travelling } => {
                strict_assert!(
                    travelling.len() <= TRAVELLING_MAX,
                    "{} requests travel, and the last of them get no answer",
                    travelling.len()
                );
                body[REST] = self.dirty.bits();
                for (word, request) in body[TRAVELLING..].iter_mut().zip(travelling) {
                    *word = encode_request(request);
                }
                GRANT | head(*asked, *seq) | (*mode as u64) << 32 | (travelling.len() as u64) << 40
            }
            LatchMessage::Settled { seq } => SETTLED | u64::from(seq.0) << 16,
            LatchMessage::Pledged { asked, seq, .. } => PLEDGED | head(*asked, *seq),
            LatchMessage::Taken { seq, .. } => TAKEN | u64::from(seq.0) << 16,
            LatchMessage::GaveUp { seq, .. } => GAVE_UP | u64::from(seq.0) << 16,
        };
        strict_check!(self, &body);
        body
    }

    /// The receiver of the words reads this message.
    fn check(&self, body: &Body) {
        // The words of such a message do not name its sender: the message of the fabric does.
        let from = match &self.message {
            LatchMessage::Pledged { by, .. }
            | LatchMessage::Taken { by, .. }
            | LatchMessage::GaveUp { by, .. } => Some(*by),
            _ => ComputeNodeId::new(1),
        };
        let read = from.and_then(|from| LineMessage::decode(&Wire { from, body: *body }));
        assert_eq!(read.as_ref(), Some(self), "the receiver reads another message");
        let is_grant = matches!(self.message, LatchMessage::Grant { .. });
        assert!(is_grant || self.dirty.is_empty(), "changes come with a grant: {self:?}");
    }

    /// Reads the message in `wire`. `None` when `wire` is no message of this protocol. A peer of
    /// another version may send such words.
    pub(crate) fn decode(wire: &Wire) -> Option<LineMessage> {
        let head = wire.body[0];
        let seq = Seq((head >> 16) as u16);
        let asked = ComputeNodeId::new((head >> 8) as u8);
        let mut dirty = DirtyBounds::EMPTY;
        let message = match head & 0xff {
            REQUEST => LatchMessage::Request(decode_request(wire.body[REST])?),
            ANSWER => {
                let answer = match head >> 32 & 0xff {
                    0 => Answer::Dropped,
                    1 => Answer::Released,
                    2 => Answer::Queued,
                    3 => Answer::Busy,
                    _ => return None,
                };
                LatchMessage::Answer { asked: asked?, seq, answer }
            }
            GRANT => {
                let mode = match head >> 32 & 0xff {
                    0 => GrantMode::Shared,
                    1 => GrantMode::Exclusive,
                    _ => return None,
                };
                dirty = DirtyBounds::from_bits(wire.body[REST]);
                let count = (head >> 40 & 0xff) as usize;
                let words = wire.body[TRAVELLING..].iter().take(count);
                let travelling = words.map(|word| decode_request(*word)).collect::<Option<_>>()?;
                LatchMessage::Grant { asked: asked?, seq, mode, travelling }
            }
            SETTLED => LatchMessage::Settled { seq },
            PLEDGED => LatchMessage::Pledged { by: wire.from, asked: asked?, seq },
            TAKEN => LatchMessage::Taken { by: wire.from, seq },
            GAVE_UP => LatchMessage::GaveUp { by: wire.from, seq },
            _ => return None,
        };
        Some(LineMessage { dirty, message })
    }
}

fn head(asked: ComputeNodeId, seq: Seq) -> u64 {
    u64::from(asked.get()) << 8 | u64::from(seq.0) << 16
}

fn encode_request(request: &InvalidationRequest) -> u64 {
    let InvalidationRequest { from, asked, kind, seq, priority, buffer } = *request;
    debug_assert!(buffer.is_multiple_of(BUFFER_UNIT) && buffer < ARENA_MAX, "a frame of an arena");
    debug_assert!(u64::from(priority) < PRIORITIES && u64::from(seq.0) < SEQS);
    u64::from(from.get())
        | u64::from(asked.get()) << ASKED
        | (kind as u64) << KIND
        | u64::from(priority) << PRIORITY
        | u64::from(seq.0) << SEQ
        | (buffer / BUFFER_UNIT) << BUFFER
}

fn decode_request(word: u64) -> Option<InvalidationRequest> {
    let field = |begin: u32, end: u32| word >> begin & ((1 << (end - begin)) - 1);
    Some(InvalidationRequest {
        from: ComputeNodeId::new(field(0, ASKED) as u8)?,
        asked: ComputeNodeId::new(field(ASKED, KIND) as u8)?,
        kind: match field(KIND, PRIORITY) {
            0 => RequestKind::Read,
            _ => RequestKind::Write,
        },
        priority: field(PRIORITY, SEQ) as u8,
        seq: Seq(field(SEQ, BUFFER) as u16),
        buffer: (word >> BUFFER) * BUFFER_UNIT,
    })
}

#[cfg(test)]
mod tests {
    use latchwork_latch::QueuedRequests;

    use super::*;

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    fn request(from: u8) -> InvalidationRequest {
        InvalidationRequest {
            from: node(from),
            asked: node(58),
            kind: RequestKind::Write,
            seq: Seq((SEQS - 1) as u16),
            priority: (PRIORITIES - 1) as u8,
            buffer: ARENA_MAX - BUFFER_UNIT,
        }
    }

    #[test]
    fn every_message_survives_the_wire() {
        let travelling: QueuedRequests = (49..49 + TRAVELLING_MAX as u8).map(request).collect();
        let messages = [
            LatchMessage::Request(request(7)),
            LatchMessage::Answer { asked: node(2), seq: Seq(9), answer: Answer::Dropped },
            LatchMessage::Answer { asked: node(2), seq: Seq(9), answer: Answer::Released },
            LatchMessage::Answer { asked: node(2), seq: Seq(9), answer: Answer::Queued },
            LatchMessage::Answer { asked: node(2), seq: Seq(9), answer: Answer::Busy },
            LatchMessage::Grant {
                asked: node(58),
                seq: Seq(1),
                mode: GrantMode::Exclusive,
                travelling,
            },
            LatchMessage::Grant {
                asked: node(1),
                seq: Seq(u16::MAX),
                mode: GrantMode::Shared,
                travelling: QueuedRequests::new(),
            },
            LatchMessage::Settled { seq: Seq(77) },
            LatchMessage::Pledged { by: node(4), asked: node(58), seq: Seq(u16::MAX) },
            LatchMessage::Taken { by: node(4), seq: Seq(3) },
            LatchMessage::GaveUp { by: node(4), seq: Seq(4) },
        ];
        for message in messages {
            let dirty = match message {
                LatchMessage::Grant { .. } => DirtyBounds::of(8..64),
                _ => DirtyBounds::EMPTY,
            };
            let sent = LineMessage { dirty, message };
            let wire = Wire { from: node(4), body: sent.encode() };
            assert_eq!(LineMessage::decode(&wire), Some(sent));
        }
    }

    #[test]
    fn what_is_no_letter_is_refused() {
        for head in
            [0, PLEDGED, GAVE_UP + 1, ANSWER, GRANT | 9 << 32 | 1 << 8, ANSWER | 1 << 8 | 4 << 32]
        {
            let mut body = [0; Wire::WORDS];
            body[0] = head;
            assert!(LineMessage::decode(&Wire { from: node(1), body }).is_none(), "{head:#x}");
        }
        let mut body = [REQUEST; Wire::WORDS];
        body[REST] = encode_request(&request(1)) & !(63 << ASKED);
        assert!(LineMessage::decode(&Wire { from: node(1), body }).is_none(), "asked node 0");
        body[REST] = encode_request(&request(1)) | 63;
        assert!(LineMessage::decode(&Wire { from: node(1), body }).is_none(), "from node 63");
    }
}
