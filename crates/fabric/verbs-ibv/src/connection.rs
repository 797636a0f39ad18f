//! The notes that two nodes exchange to begin and to end a connection, and their encoding as bytes.
//! A [`Courier`](crate::Courier) carries the bytes.
//!
//! ```text
//!   offer, 56 bytes                                              close, 24 bytes
//!   ┌───┬───┬──────┬───────┬────────────────┬──────────┐         ┌───┬───┬──────┬───────┬──────┐
//!   │ 2 │ 1 │ from │ epoch │ ConnectionData │ replaces │         │ 2 │ 2 │ from │ epoch │ pair │
//!   └───┴───┴──────┴───────┴────────────────┴──────────┘         └───┴───┴──────┴───────┴──────┘
//!    2   2   4      8       32               8                    2   2   4      8       8
//!
//!   answer, 36 bytes                                             refusal, 8 bytes
//!   ┌───┬───┬────────────────┐                                   ┌───┬───┬───────┐
//!   │ 2 │ 3 │ ConnectionData │                                   │ 2 │ 4 │ why   │
//!   └───┴───┴────────────────┘                                   └───┴───┴───────┘
//! ```
//!
//! The numbers below a box are its bytes. All integers are little-endian. The first field is the
//! version, the second the kind of the note. A node is its id, followed by 0 for a memory node or 1
//! for a compute node.

use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, SetupError};

use crate::directory::Peer;
use crate::error::ConnectError;
use crate::version::VERSION;

// The kinds of notes.
const OFFER: u16 = 1;
const CLOSE: u16 = 2;
const ANSWER: u16 = 3;
const REFUSAL: u16 = 4;

/// The bytes of encoded [`ConnectionData`].
const DATA_BYTES: usize = 32;

/// A node with its member epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Caller {
    pub(crate) peer: Peer,
    pub(crate) epoch: u64,
}

/// One end of a connection, described for the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionData {
    /// The queue pair's number, 24 bits.
    pub(crate) pair: u32,
    /// The number of the queue pair's first packet, 24 bits.
    pub(crate) psn: u32,
    /// The port's address within an InfiniBand subnet; 0 on Ethernet.
    pub(crate) lid: u16,
    /// The port's global address, in network order.
    pub(crate) gid: [u8; 16],
    /// The largest packet, in the units of `ibv_mtu`: 1 for 256 bytes, 5 for 4096.
    pub(crate) mtu: u8,
    /// The number of outstanding READs and atomics that a requester wants, or that a responder
    /// serves.
    pub(crate) reads: u8,
}

/// A note from one node to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// The sender wants a connection.
    Offer(Offer),
    /// The sender does not use this end of a connection any more.
    Close { from: Caller, pair: u32 },
}

/// The offer of a requester (the end that posts requests) to a responder (the end that executes
/// them).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    pub(crate) from: Caller,
    /// The requester's end.
    pub(crate) data: ConnectionData,
    /// The responder's end of the earlier connection, if there was one. The responder destroys this
    /// end before it answers. So after the answer no request that was sent to this end takes
    /// effect.
    pub(crate) replaces: Option<u32>,
}

/// The answer of the responder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// The responder's end.
    pub(crate) data: ConnectionData,
}

// ---- as bytes -----------------------------------------------------------------------------------

fn begin(kind: u16) -> Vec<u8> {
    [VERSION.to_le_bytes(), kind.to_le_bytes()].concat()
}

/// Returns the kind of a note, and the bytes behind the kind.
fn kind(bytes: &[u8]) -> Result<(u16, &[u8]), ConnectError> {
    let malformed = ConnectError::Malformed;
    let (version, rest) = bytes.split_first_chunk::<2>().ok_or(malformed)?;
    let (kind, rest) = rest.split_first_chunk::<2>().ok_or(malformed)?;
    match u16::from_le_bytes(*version) {
        VERSION => Ok((u16::from_le_bytes(*kind), rest)),
        _ => Err(malformed),
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl Caller {
    fn put(&self, bytes: &mut Vec<u8>) {
        let (id, kind) = match self.peer {
            Peer::Memory(id) => (id.0, 0_u16),
            Peer::Compute(id) => (id.get().into(), 1),
        };
        bytes.extend(id.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
    }

    fn get(bytes: &[u8; 12]) -> Option<Caller> {
        let id = u16::from_le_bytes(word(bytes, 0)?);
        let peer = match u16::from_le_bytes(word(bytes, 2)?) {
            0 => Peer::Memory(MemoryNodeId(id)),
            1 => Peer::Compute(ComputeNodeId::new(id.try_into().ok()?)?),
            _ => return None,
        };
        Some(Caller { peer, epoch: u64::from_le_bytes(word(bytes, 4)?) })
    }
}

impl ConnectionData {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.pair.to_le_bytes());
        bytes.extend(self.psn.to_le_bytes());
        bytes.extend(self.gid);
        bytes.extend(self.lid.to_le_bytes());
        bytes.extend([self.mtu, self.reads, 0, 0, 0, 0]);
        strict_assert!(self.pair >> 24 == 0 && self.psn >> 24 == 0, "24 bits: {self:?}");
    }

    fn get(bytes: &[u8; DATA_BYTES]) -> Option<ConnectionData> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let data = ConnectionData {
            pair: word(0),
            psn: word(4),
            gid: std::array::from_fn(|i| bytes[8 + i]),
            lid: u16::from_le_bytes([bytes[24], bytes[25]]),
            mtu: bytes[26],
            reads: bytes[27],
        };
        let sane = data.pair >> 24 == 0 && data.psn >> 24 == 0 && (1..=5).contains(&data.mtu);
        (sane && data.reads > 0 && word(28) == 0).then_some(data)
    }
}

/// Parses the number of a queue pair.
fn pair(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|number| number >> 24 == 0)
}

impl Note {
    pub(crate) fn from(&self) -> Caller {
        match self {
            Note::Offer(offer) => offer.from,
            Note::Close { from, .. } => *from,
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let bytes = self.write();
        strict_assert_eq!(Note::from_bytes(&bytes), Ok(self), "the peer reads another note");
        bytes
    }

    fn write(self) -> Vec<u8> {
        match self {
            Note::Offer(Offer { from, data, replaces }) => {
                let mut bytes = begin(OFFER);
                from.put(&mut bytes);
                data.put(&mut bytes);
                bytes.extend(replaces.map_or(u64::MAX, u64::from).to_le_bytes());
                bytes
            }
            Note::Close { from, pair } => {
                let mut bytes = begin(CLOSE);
                from.put(&mut bytes);
                bytes.extend(u64::from(pair).to_le_bytes());
                bytes
            }
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Note, ConnectError> {
        let (kind, rest) = kind(bytes)?;
        Note::parse(kind, rest).ok_or(ConnectError::Malformed)
    }

    fn parse(kind: u16, rest: &[u8]) -> Option<Note> {
        let (from, rest) = rest.split_first_chunk()?;
        let from = Caller::get(from)?;
        match kind {
            OFFER => {
                let (data, rest) = rest.split_first_chunk()?;
                let data = ConnectionData::get(data)?;
                let replaces = match u64::from_le_bytes(rest.try_into().ok()?) {
                    u64::MAX => None,
                    number => Some(pair(number)?),
                };
                Some(Note::Offer(Offer { from, data, replaces }))
            }
            CLOSE => {
                let pair = pair(u64::from_le_bytes(rest.try_into().ok()?))?;
                Some(Note::Close { from, pair })
            }
            _ => None,
        }
    }
}

/// The answer to an [`Offer`], as bytes.
pub(crate) fn answer_to_bytes(answer: &Result<Answer, ConnectError>) -> Vec<u8> {
    match answer {
        Ok(answer) => {
            let mut bytes = begin(ANSWER);
            answer.data.put(&mut bytes);
            bytes
        }
        Err(why) => {
            let mut bytes = begin(REFUSAL);
            let why: i32 = match why {
                ConnectError::Gone => -1,
                ConnectError::Unknown => -2,
                ConnectError::Malformed => -3,
                ConnectError::Unreachable => -4,
                ConnectError::Setup(SetupError::System { errno, .. })
                | ConnectError::Refused { errno } => *errno,
                ConnectError::Setup(_) => 0,
            };
            bytes.extend(why.to_le_bytes());
            bytes
        }
    }
}

/// Parses the answer to an [`Offer`].
pub(crate) fn answer_from_bytes(bytes: &[u8]) -> Result<Answer, ConnectError> {
    let (kind, rest) = kind(bytes)?;
    if kind == ANSWER {
        let data = rest.try_into().ok().and_then(ConnectionData::get);
        return data.map(|data| Answer { data }).ok_or(ConnectError::Malformed);
    }
    let why = rest.try_into().map(i32::from_le_bytes);
    Err(match (kind, why) {
        (REFUSAL, Ok(-1)) => ConnectError::Gone,
        (REFUSAL, Ok(-2)) => ConnectError::Unknown,
        (REFUSAL, Ok(-4)) => ConnectError::Unreachable,
        (REFUSAL, Ok(errno)) if errno >= 0 => ConnectError::Refused { errno },
        _ => ConnectError::Malformed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> ConnectionData {
        let gid = std::array::from_fn(|i| i as u8);
        ConnectionData { pair: 0x12_3456, psn: 0xff_ffff, lid: 7, gid, mtu: 5, reads: 16 }
    }

    fn callers() -> [Caller; 3] {
        let compute = |id| Peer::Compute(ComputeNodeId::new(id).unwrap());
        [
            Caller { peer: Peer::Memory(MemoryNodeId(u16::MAX)), epoch: 0 },
            Caller { peer: compute(1), epoch: 1 << 40 },
            Caller { peer: compute(ComputeNodeId::MAX), epoch: u64::MAX },
        ]
    }

    #[test]
    fn what_is_sent_is_what_arrives() {
        for (from, replaces) in callers().into_iter().zip([None, Some(0), Some(0xff_ffff)]) {
            let offer = Note::Offer(Offer { from, data: data(), replaces });
            assert_eq!(offer.to_bytes().len(), 56);
            assert_eq!(Note::from_bytes(&offer.to_bytes()), Ok(offer));
            let close = Note::Close { from, pair: replaces.unwrap_or(9) };
            assert_eq!(close.to_bytes().len(), 24);
            assert_eq!(Note::from_bytes(&close.to_bytes()), Ok(close));
            assert_eq!((offer.from(), close.from()), (from, from));
        }
        let answer = Ok(Answer { data: data() });
        assert_eq!(answer_to_bytes(&answer).len(), 36);
        assert_eq!(answer_from_bytes(&answer_to_bytes(&answer)), answer);
        for why in [
            ConnectError::Gone,
            ConnectError::Unknown,
            ConnectError::Malformed,
            ConnectError::Unreachable,
            ConnectError::Refused { errno: libc::ENOMEM },
        ] {
            assert_eq!(answer_to_bytes(&Err(why)).len(), 8);
            assert_eq!(answer_from_bytes(&answer_to_bytes(&Err(why))), Err(why));
        }
        // The name of the other side's call is not sent.
        let setup = SetupError::System { call: "ibv_create_qp", errno: libc::ENOMEM };
        let told = answer_from_bytes(&answer_to_bytes(&Err(ConnectError::Setup(setup))));
        assert_eq!(told, Err(ConnectError::Refused { errno: libc::ENOMEM }));
    }

    #[test]
    fn bytes_that_are_none_are_refused() {
        let [_, from, _] = callers();
        let good = Note::Offer(Offer { from, data: data(), replaces: Some(5) }).to_bytes();
        for len in 0..good.len() {
            assert_eq!(Note::from_bytes(&good[..len]), Err(ConnectError::Malformed), "{len}");
        }
        let longer = [&good[..], &[0]].concat();
        assert_eq!(Note::from_bytes(&longer), Err(ConnectError::Malformed));
        // An answer does not parse as an offer, nor an offer as an answer.
        assert_eq!(answer_from_bytes(&good), Err(ConnectError::Malformed));
        let answer = answer_to_bytes(&Ok(Answer { data: data() }));
        assert_eq!(Note::from_bytes(&answer), Err(ConnectError::Malformed));
        // In this order: an older version, a wrong kind, impossible ids and kinds of nodes, bits
        // beyond the 24 of a number. Further: packet sizes of 0 and too large, no reads, and
        // reserved bytes that are not zero.
        let wrong = [(0, 1), (2, 4), (4, 0), (4, 59), (5, 1), (6, 2), (19, 1), (23, 1)];
        for (at, value) in wrong.into_iter().chain([(42, 0), (42, 6), (43, 0), (44, 1), (54, 9)]) {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(Note::from_bytes(&bad), Err(ConnectError::Malformed), "byte {at}");
        }
    }
}
