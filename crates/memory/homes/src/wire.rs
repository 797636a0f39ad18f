//! The wire format of the messages about a line: 14 words each.
//!
//! ```text
//!  word 0:  kind 8 | flags 8 | fields of one byte each
//!  words 1 and 2: the envelope of the engine
//!  request:    mode                             word 3  frame
//!  evict:      served
//!  done:       era, kept                        word 3  dirty bounds
//!  busy:       era
//!  reply:      era, mode, source, copies kept, holder, kind, copies    word 3  other sharers
//!  evicted:    accepted
//!  directive:  kind, era, copies, requester     word 3  frame
//!  line:       mode, era                        word 3  dirty bounds
//!  gone:       era
//!  stuck:      dead node
//!  settle:     era, failed                      word 3  dead nodes
//!  settled:    era
//!  rebase:     era, adopt
//!  rebased:    era, hold, changed
//!  lost:       dead node
//! ```
//!
//! Flags: 1, the receiver is meant as the home; 2, the sender is the home. Unused words are zero: a
//! fabric need not transfer zeros at the end.

use latchwork_cache::DirtyBounds;
use latchwork_directory::{
    Directive, Era, Hold, Kind, Message, NodeSet, Party, Reply, Request, Source, Want,
};
use latchwork_engine::{Body, REST};
use latchwork_verbs::{ComputeNodeId, Message as Wire};

// The engine and the protocols of the latch word have the kinds up to 10.
const REQUEST: u64 = 11;
const EVICT: u64 = 12;
const DONE: u64 = 13;
const BUSY: u64 = 14;
const REPLY: u64 = 15;
const RETRY: u64 = 16;
const EVICTED: u64 = 17;
const DIRECTIVE: u64 = 18;
const LINE: u64 = 19;
const GONE: u64 = 20;
const STUCK: u64 = 21;
const SETTLE: u64 = 22;
const SETTLED: u64 = 23;
const REBASE: u64 = 24;
const REBASED: u64 = 25;
const LOST: u64 = 26;

const TO_HOME: u64 = 1 << 8;
const FROM_HOME: u64 = 2 << 8;

/// A message between a node and a home, or between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryMessage {
    /// The sender.
    pub from: ComputeNodeId,
    /// The sender is the home.
    pub(crate) from_home: bool,
    /// The receiver is meant as the home.
    pub(crate) to_home: bool,
    /// The dirty bounds that come with the line, or with the end of a tenure.
    pub(crate) dirty: DirtyBounds,
    /// What the sender says.
    pub message: Message,
}

impl DirectoryMessage {
    /// The words of the message, without an envelope.
    pub fn words(&self) -> Body {
        let to = if self.to_home { Party::Home } else { Party::Node(self.from) };
        encode(to, self.from_home, &self.message, self.dirty)
    }
}

/// The words of a message without an envelope.
pub(crate) fn encode(to: Party, from_home: bool, message: &Message, dirty: DirtyBounds) -> Body {
    let mut body = [0; latchwork_verbs::Message::WORDS];
    let kind = match message {
        Message::Request(Request { mode, buffer }) => {
            body[REST] = *buffer;
            REQUEST | fields(&[*mode as u8])
        }
        Message::Evict { served } => EVICT | fields(&[*served]),
        Message::Done { era, kept } => {
            body[REST] = dirty.bits();
            DONE | fields(&[era.0, u8::from(*kept)])
        }
        Message::Busy { era } => BUSY | fields(&[era.0]),
        Message::Reply(Reply { mode, era, source, holder, others }) => {
            body[REST] = others.bits();
            let (source, kept) = match source {
                Source::Memory => (0, 0),
                Source::Kept { copies } => (1, *copies),
                Source::Holder => (2, 0),
            };
            let (node, kind, copies) =
                holder.map_or((0, 0, 0), |(node, kind, copies)| (node.get(), kind as u8, copies));
            body[REST + 1] = u64::from_le_bytes([node, kind, copies, 0, 0, 0, 0, 0]);
            REPLY | fields(&[era.0, *mode as u8, source, kept])
        }
        Message::Retry => RETRY,
        Message::Evicted { accepted } => EVICTED | fields(&[u8::from(*accepted)]),
        Message::Directive(Directive { kind, era, copies, to, buffer }) => {
            body[REST] = *buffer;
            DIRECTIVE | fields(&[*kind as u8, era.0, *copies, to.get()])
        }
        Message::Line { mode, era } => {
            body[REST] = dirty.bits();
            LINE | fields(&[*mode as u8, era.0])
        }
        Message::Gone { era } => GONE | fields(&[era.0]),
        Message::Stuck { dead } => STUCK | fields(&[dead.get()]),
        Message::Settle { era, dead, failed } => {
            body[REST] = dead.bits();
            SETTLE | fields(&[era.0, u8::from(*failed)])
        }
        Message::Settled { era } => SETTLED | fields(&[era.0]),
        Message::Rebase { era, adopt } => REBASE | fields(&[era.0, u8::from(*adopt)]),
        Message::Rebased { era, hold, changed } => {
            REBASED | fields(&[era.0, *hold as u8, u8::from(*changed)])
        }
        Message::Lost { node } => LOST | fields(&[node.get()]),
    };
    let to_home = if to == Party::Home { TO_HOME } else { 0 };
    let from_home = if from_home { FROM_HOME } else { 0 };
    body[0] = kind | to_home | from_home;
    body
}

/// The bytes behind the kind and the flags.
fn fields(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)) << 16
}

/// Reads a message. `None` when `wire` is no message of this protocol. A peer of another version
/// may send such words.
pub fn decode(wire: &Wire) -> Option<DirectoryMessage> {
    let head = wire.body[0];
    let [_, _, a, b, c, d, ..] = head.to_le_bytes();
    let rest = wire.body[REST];
    let mut dirty = DirtyBounds::EMPTY;
    let message = match head & 0xff {
        REQUEST => Message::Request(Request { mode: mode(a)?, buffer: rest }),
        EVICT => Message::Evict { served: a },
        DONE => {
            dirty = DirtyBounds::from_bits(rest);
            Message::Done { era: Era(a), kept: b != 0 }
        }
        BUSY => Message::Busy { era: Era(a) },
        REPLY => {
            let source = match c {
                0 => Source::Memory,
                1 => Source::Kept { copies: d },
                2 => Source::Holder,
                _ => return None,
            };
            let [node, kind, copies, ..] = wire.body[REST + 1].to_le_bytes();
            let holder = match ComputeNodeId::new(node) {
                Some(node) => Some((node, self::kind(kind)?, copies)),
                None => None,
            };
            let others = NodeSet::from_bits(rest);
            Message::Reply(Reply { mode: mode(b)?, era: Era(a), source, holder, others })
        }
        RETRY => Message::Retry,
        EVICTED => Message::Evicted { accepted: a != 0 },
        DIRECTIVE => Message::Directive(Directive {
            kind: kind(a)?,
            era: Era(b),
            copies: c,
            to: ComputeNodeId::new(d)?,
            buffer: rest,
        }),
        LINE => {
            dirty = DirtyBounds::from_bits(rest);
            Message::Line { mode: mode(a)?, era: Era(b) }
        }
        GONE => Message::Gone { era: Era(a) },
        STUCK => Message::Stuck { dead: ComputeNodeId::new(a)? },
        SETTLE => Message::Settle { era: Era(a), dead: NodeSet::from_bits(rest), failed: b != 0 },
        SETTLED => Message::Settled { era: Era(a) },
        REBASE => Message::Rebase { era: Era(a), adopt: b != 0 },
        REBASED => Message::Rebased { era: Era(a), hold: hold(b)?, changed: c != 0 },
        LOST => Message::Lost { node: ComputeNodeId::new(a)? },
        _ => return None,
    };
    let (to_home, from_home) = (head & TO_HOME != 0, head & FROM_HOME != 0);
    Some(DirectoryMessage { from: wire.from, from_home, to_home, dirty, message })
}

fn mode(byte: u8) -> Option<Want> {
    [Want::Shared, Want::Exclusive].into_iter().find(|mode| *mode as u8 == byte)
}

fn hold(byte: u8) -> Option<Hold> {
    [Hold::Nothing, Hold::Shared, Hold::Exclusive].into_iter().find(|hold| *hold as u8 == byte)
}

fn kind(byte: u8) -> Option<Kind> {
    [Kind::Copy, Kind::Move, Kind::Invalidate].into_iter().find(|kind| *kind as u8 == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        let era = Era(255);
        let reply = Reply {
            mode: Want::Exclusive,
            era,
            source: Source::Kept { copies: 254 },
            holder: Some((node(58), Kind::Invalidate, 253)),
            others: NodeSet::of(node(1)).with(node(57)),
        };
        let plain = Reply { source: Source::Holder, holder: None, ..reply.clone() };
        let directive =
            Directive { kind: Kind::Move, era, copies: 7, to: node(9), buffer: u64::MAX };
        let messages = [
            Message::Request(Request { mode: Want::Exclusive, buffer: 1 << 40 }),
            Message::Evict { served: 200 },
            Message::Done { era, kept: true },
            Message::Busy { era },
            Message::Reply(reply),
            Message::Reply(plain),
            Message::Retry,
            Message::Evicted { accepted: true },
            Message::Directive(directive),
            Message::Line { mode: Want::Shared, era },
            Message::Gone { era },
            Message::Stuck { dead: node(58) },
            Message::Settle { era, dead: NodeSet::of(node(3)).with(node(58)), failed: true },
            Message::Settled { era },
            Message::Rebase { era, adopt: true },
            Message::Rebased { era, hold: Hold::Exclusive, changed: true },
            Message::Lost { node: node(1) },
        ];
        for message in messages {
            let dirty = match message {
                Message::Done { .. } | Message::Line { .. } => DirtyBounds::of(8..64),
                _ => DirtyBounds::EMPTY,
            };
            for (to, from_home) in [(Party::Home, false), (Party::Node(node(2)), true)] {
                let body = encode(to, from_home, &message, dirty);
                let read = decode(&Wire { from: node(4), body }).expect("a message");
                let to_home = to == Party::Home;
                let message = message.clone();
                let sent = DirectoryMessage { from: node(4), from_home, to_home, dirty, message };
                assert_eq!(read, sent);
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let from = ComputeNodeId::new(1).expect("a valid id");
        let bad = [
            0,
            10,
            LOST + 1,
            STUCK,
            LOST | fields(&[59]),
            REBASED | fields(&[0, 3]),
            REQUEST | fields(&[2]),
            REPLY | fields(&[0, 0, 3]),
            DIRECTIVE | fields(&[3, 0, 0, 1]),
            DIRECTIVE | fields(&[0, 0, 0, 59]),
            LINE | fields(&[9]),
        ];
        for head in bad {
            let mut body = [0; Wire::WORDS];
            body[0] = head;
            assert!(decode(&Wire { from, body }).is_none(), "{head:#x}");
        }
    }
}
