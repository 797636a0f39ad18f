//! What two nodes tell each other before they are connected, as bytes that anything may carry.
//!
//! ```text
//!   offer, 44 bytes                       answer, 36 bytes
//!   ┌───┬────────────────┬───────────┐    ┌───┬────────────────┐
//!   │ 1 │ ConnectionData │ replaces  │    │ 1 │ ConnectionData │
//!   └───┴────────────────┴───────────┘    └───┴────────────────┘
//!    4    32               8               4    32
//! ```
//!
//! All integers are little-endian. The first word is the version.

use crate::error::ConnectError;

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

const DATA_BYTES: usize = 32;

/// One end of a connection, as the other end needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionData {
    /// The queue pair's number, 24 bits.
    pub pair: u32,
    /// The number of its first packet, 24 bits.
    pub psn: u32,
    /// The port's address within an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// The port's global address, in network order.
    pub gid: [u8; 16],
    /// The largest packet, as `ibv_mtu` counts: 1 for 256 bytes, 5 for 4096.
    pub mtu: u8,
    /// READs and atomics at a time, which a requester wants and a responder serves.
    pub reads: u8,
}

impl ConnectionData {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.pair.to_le_bytes());
        bytes.extend(self.psn.to_le_bytes());
        bytes.extend(self.gid);
        bytes.extend(self.lid.to_le_bytes());
        bytes.extend([self.mtu, self.reads, 0, 0, 0, 0]);
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

/// What a requester sends to the node that it wants to be connected with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The requester's end.
    pub data: ConnectionData,
    /// The responder's end of the connection before, which is destroyed first: nothing that was sent to it takes effect when the
    /// answer has been given.
    pub replaces: Option<u32>,
}

impl Offer {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        self.data.put(&mut bytes);
        bytes.extend(self.replaces.map_or(u64::MAX, u64::from).to_le_bytes());
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`ConnectError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Offer, ConnectError> {
        let (data, rest) = parse(bytes)?;
        let replaces: [u8; 8] = rest.try_into().map_err(|_| ConnectError::Malformed)?;
        let replaces = match u64::from_le_bytes(replaces) {
            u64::MAX => None,
            pair if pair >> 24 == 0 => Some(pair as u32),
            _ => return Err(ConnectError::Malformed),
        };
        Ok(Offer { data, replaces })
    }
}

/// What the other node answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The responder's end.
    pub data: ConnectionData,
}

impl Answer {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        self.data.put(&mut bytes);
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`ConnectError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Answer, ConnectError> {
        match parse(bytes)? {
            (data, []) => Ok(Answer { data }),
            _ => Err(ConnectError::Malformed),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<(ConnectionData, &[u8]), ConnectError> {
    let (version, rest) = bytes.split_first_chunk::<4>().ok_or(ConnectError::Malformed)?;
    let (data, rest) = rest.split_first_chunk::<DATA_BYTES>().ok_or(ConnectError::Malformed)?;
    if u32::from_le_bytes(*version) != VERSION {
        return Err(ConnectError::Malformed);
    }
    Ok((ConnectionData::get(data).ok_or(ConnectError::Malformed)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> ConnectionData {
        let gid = std::array::from_fn(|i| i as u8);
        ConnectionData { pair: 0x12_3456, psn: 0xff_ffff, lid: 7, gid, mtu: 5, reads: 16 }
    }

    #[test]
    fn what_is_sent_is_what_arrives() {
        for replaces in [None, Some(0), Some(0xff_ffff)] {
            let offer = Offer { data: data(), replaces };
            assert_eq!(offer.to_bytes().len(), 44);
            assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer));
        }
        let answer = Answer { data: data() };
        assert_eq!(answer.to_bytes().len(), 36);
        assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
    }

    #[test]
    fn bytes_that_are_none_are_refused() {
        let good = Offer { data: data(), replaces: Some(5) }.to_bytes();
        for len in 0..good.len() {
            assert_eq!(Offer::from_bytes(&good[..len]), Err(ConnectError::Malformed), "{len}");
        }
        // An answer is no offer, nor the other way round.
        assert!(Answer::from_bytes(&good).is_err());
        // Version, bits beyond a number's 24, packets of no size or too large, no reads, bytes that must be zero.
        for (at, value) in [(0, 2), (7, 1), (11, 1), (30, 0), (30, 6), (31, 0), (32, 1), (42, 9)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(Offer::from_bytes(&bad), Err(ConnectError::Malformed), "byte {at}");
        }
    }
}
