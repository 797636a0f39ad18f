//! Greetings: the four messages before the first frame of a connection. Only the list of regions at
//! their end has no fixed length.
//!
//! ```text
//!   client                                    agent
//!   Hello         version, mode, nonce   ──►
//!                                        ◄──  AgentGreeting  version, refusal or nonce
//!   ClientGreeting  nodes, session, MAC  ──►
//!                                        ◄──  Welcome   refusal, or incarnation, clock, regions, MAC
//! ```

use std::fmt;

use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

use super::{Cursor, WireError};

/// The version of the protocol. Both ends of a connection must have the same version.
pub const VERSION: u16 = 1;

/// The first bytes of a greeting, by which a peer of this protocol is recognised.
const MAGIC: [u8; 8] = *b"LATCHNET";

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 32;

/// Bytes of a message authentication code (HMAC-SHA-256).
pub const MAC_LEN: usize = 32;

/// Bytes of a [`Hello`].
pub const HELLO_LEN: usize = 48;

/// Bytes of an [`AgentGreeting`].
pub const ANSWER_LEN: usize = 48;

/// Bytes of a [`ClientGreeting`].
pub const CLIENT_GREETING_LEN: usize = 48 + MAC_LEN;

/// Bytes of a [`Welcome`] without the lengths of the regions.
pub const WELCOME_LEN: usize = 24 + MAC_LEN;
const _: () = assert!(HELLO_LEN == 8 + 2 + 1 + 5 + NONCE_LEN && ANSWER_LEN == HELLO_LEN);
const _: () = assert!(CLIENT_GREETING_LEN == 2 * 4 + 2 * 8 + 16 + 8 + MAC_LEN);
const _: () = assert!(WELCOME_LEN == 4 + 4 + 2 * 8 + MAC_LEN);

/// The largest number of regions of one node: the number of region keys.
pub const REGIONS_MAX: u32 = 1 << 16;
const _: () =
    assert!(REGIONS_MAX as usize == u16::MAX as usize + 1, "a region has a key of 16 bits");

/// A node that can be the target of verbs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TcpNode {
    /// A memory node.
    Memory(MemoryNodeId),
    /// A compute node.
    Compute(ComputeNodeId),
}

impl fmt::Display for TcpNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TcpNode::Memory(id) => write!(f, "M{}", id.0),
            TcpNode::Compute(id) => write!(f, "C{}", id.get()),
        }
    }
}

impl TcpNode {
    fn bytes(self) -> [u8; 4] {
        let (kind, [low, high]) = match self {
            TcpNode::Memory(id) => (1, id.0.to_le_bytes()),
            TcpNode::Compute(id) => (2, u16::from(id.get()).to_le_bytes()),
        };
        [kind, 0, low, high]
    }

    fn parse(bytes: [u8; 4]) -> Result<Self, WireError> {
        let id = u16::from_le_bytes([bytes[2], bytes[3]]);
        let compute = || u8::try_from(id).ok().and_then(ComputeNodeId::new);
        match (bytes[0], bytes[1]) {
            (1, 0) => Ok(TcpNode::Memory(MemoryNodeId(id))),
            (2, 0) => compute().map(TcpNode::Compute).ok_or(WireError::Field { field: "node" }),
            _ => Err(WireError::Field { field: "node" }),
        }
    }
}

/// Why an agent refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The client speaks another version of the protocol.
    Version,
    /// One side uses TLS and the other a shared secret.
    Mode,
    /// The agent has as many connections as its limits permit.
    Busy,
    /// The client does not know the secret.
    Secret,
    /// The agent serves another node than the client wants.
    Node,
    /// The client wants an earlier start of the node.
    Incarnation,
    /// The agent has fenced the client's member epoch.
    Epoch,
}

impl Refusal {
    const ALL: [Refusal; 7] = [
        Refusal::Version,
        Refusal::Mode,
        Refusal::Busy,
        Refusal::Secret,
        Refusal::Node,
        Refusal::Incarnation,
        Refusal::Epoch,
    ];

    fn byte(refusal: Option<Refusal>) -> u8 {
        refusal.map_or(0, |refusal| refusal as u8 + 1)
    }

    fn parse(byte: u8) -> Result<Option<Refusal>, WireError> {
        match usize::from(byte) {
            0 => Ok(None),
            n => match Refusal::ALL.get(n - 1) {
                Some(refusal) => Ok(Some(*refusal)),
                None => Err(WireError::Field { field: "refusal" }),
            },
        }
    }
}

fn put_magic(bytes: &mut [u8; 48], version: u16, flag: u8, nonce: &[u8; NONCE_LEN]) {
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&version.to_le_bytes());
    bytes[10] = flag;
    bytes[16..].copy_from_slice(nonce);
}

fn parse_magic(bytes: &[u8; 48]) -> Result<(u16, u8, [u8; NONCE_LEN]), WireError> {
    let mut cursor = Cursor(bytes);
    if cursor.take()? != MAGIC {
        return Err(WireError::Magic);
    }
    let version = cursor.u16()?;
    // Another version may have other fields behind its number, so the rest is not read.
    if version != VERSION {
        return Ok((version, 0, [0; NONCE_LEN]));
    }
    let flag = cursor.u8()?;
    cursor.zeros::<5>()?;
    Ok((version, flag, cursor.take()?))
}

/// The first message of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The client's version.
    pub version: u16,
    /// Whether the client proves that it knows a secret. Otherwise the connection is inside TLS.
    pub secret: bool,
    /// Random bytes.
    pub nonce: [u8; NONCE_LEN],
}

impl Hello {
    /// The message as bytes.
    pub fn bytes(&self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        put_magic(&mut bytes, self.version, self.secret.into(), &self.nonce);
        strict_assert!(
            matches!(Hello::parse(&bytes), Ok(read) if read.secret == self.secret || self.version != VERSION),
            "a hello is read as another"
        );
        bytes
    }

    /// Parses the message. If the version is another one, only its number is read.
    ///
    /// # Errors
    /// The bytes are not a greeting.
    pub fn parse(bytes: &[u8; HELLO_LEN]) -> Result<Self, WireError> {
        let (version, flag, nonce) = parse_magic(bytes)?;
        match flag {
            0 | 1 => Ok(Hello { version, secret: flag == 1, nonce }),
            _ => Err(WireError::Field { field: "mode" }),
        }
    }
}

/// The first message of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentGreeting {
    /// The agent's version.
    pub version: u16,
    /// The reason of a refusal.
    pub refusal: Option<Refusal>,
    /// Random bytes; zero with a refusal.
    pub nonce: [u8; NONCE_LEN],
}

impl AgentGreeting {
    /// The message as bytes.
    pub fn bytes(&self) -> [u8; ANSWER_LEN] {
        let mut bytes = [0; ANSWER_LEN];
        put_magic(&mut bytes, self.version, Refusal::byte(self.refusal), &self.nonce);
        strict_assert!(
            matches!(AgentGreeting::parse(&bytes), Ok(read) if read.refusal == self.refusal || self.version != VERSION),
            "an answer is read as another"
        );
        bytes
    }

    /// Parses the message. Another version counts as a refusal.
    ///
    /// # Errors
    /// The bytes are not a greeting.
    pub fn parse(bytes: &[u8; ANSWER_LEN]) -> Result<Self, WireError> {
        let (version, flag, nonce) = parse_magic(bytes)?;
        let refusal =
            if version == VERSION { Refusal::parse(flag)? } else { Some(Refusal::Version) };
        Ok(AgentGreeting { version, refusal, nonce })
    }
}

/// The client greeting: the client's node and the node that the client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientGreeting {
    /// The client's node.
    pub from: TcpNode,
    /// The node that the client wants.
    pub to: TcpNode,
    /// The client's member epoch.
    pub epoch: u64,
    /// The random number of the start of the node that the client wants; 0 for any start.
    pub incarnation: u64,
    /// The session, which stays the same when a new connection replaces a failed one.
    pub session: [u8; 16],
}

impl ClientGreeting {
    /// The message as bytes, without the MAC.
    pub fn bytes(&self) -> [u8; CLIENT_GREETING_LEN - MAC_LEN] {
        let mut bytes = [0; CLIENT_GREETING_LEN - MAC_LEN];
        bytes[..4].copy_from_slice(&self.from.bytes());
        bytes[4..8].copy_from_slice(&self.to.bytes());
        bytes[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.session);
        strict_assert!(
            matches!(ClientGreeting::parse(&bytes), Ok(read) if read == *self),
            "an introduction is read as another"
        );
        bytes
    }

    /// Parses the message.
    ///
    /// # Errors
    /// The bytes are not a client greeting.
    pub fn parse(bytes: &[u8; CLIENT_GREETING_LEN - MAC_LEN]) -> Result<Self, WireError> {
        let mut cursor = Cursor(bytes);
        let (from, to) = (TcpNode::parse(cursor.take()?)?, TcpNode::parse(cursor.take()?)?);
        let (epoch, incarnation) = (cursor.u64()?, cursor.u64()?);
        let session = cursor.take()?;
        cursor.zeros::<8>()?;
        Ok(ClientGreeting { from, to, epoch, incarnation, session })
    }
}

/// The last message of the agent before the first frame. Without a refusal, the lengths of
/// `regions` regions follow, eight bytes each. A memory node with on-chip memory has one region,
/// and gives the lengths of the two ranges in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The reason of a refusal.
    pub refusal: Option<Refusal>,
    /// The number of regions of the node.
    pub regions: u32,
    /// The random number of this start of the node.
    pub incarnation: u64,
    /// The agent's clock, in nanoseconds.
    pub clock: u64,
}

impl Welcome {
    /// The message as bytes, without the MAC.
    pub fn bytes(&self) -> [u8; WELCOME_LEN - MAC_LEN] {
        let mut bytes = [0; WELCOME_LEN - MAC_LEN];
        bytes[0] = Refusal::byte(self.refusal);
        bytes[4..8].copy_from_slice(&self.regions.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[16..].copy_from_slice(&self.clock.to_le_bytes());
        strict_assert!(
            matches!(Welcome::parse(&bytes), Ok(read) if read.clock == self.clock && read.refusal == self.refusal),
            "a welcome is read as another"
        );
        bytes
    }

    /// Parses the message.
    ///
    /// # Errors
    /// The bytes are not a welcome.
    pub fn parse(bytes: &[u8; WELCOME_LEN - MAC_LEN]) -> Result<Self, WireError> {
        let mut cursor = Cursor(bytes);
        let refusal = Refusal::parse(cursor.u8()?)?;
        cursor.zeros::<3>()?;
        let (regions, incarnation, clock) = (cursor.u32()?, cursor.u64()?, cursor.u64()?);
        if regions > REGIONS_MAX {
            return Err(WireError::Field { field: "regions" });
        }
        Ok(Welcome { refusal, regions, incarnation, clock })
    }
}
