//! [`Directory`]: how an endpoint finds its peers and is connected with them.

use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Target};

use crate::error::ConnectError;

/// A node that an endpoint can be connected with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// A memory node.
    Memory(MemoryNodeId),
    /// A compute node.
    Compute(ComputeNodeId),
}

impl From<Target> for Peer {
    fn from(target: Target) -> Self {
        match target {
            Target::Memory(id) => Peer::Memory(id),
            Target::Compute(id, _) => Peer::Compute(id),
        }
    }
}

/// Registered memory of a peer, as requests name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// The first byte's address on the peer.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// The key that lets the device in.
    pub rkey: u32,
}

impl RemoteMemory {
    /// As bytes, for whatever tells peers of each other: three little-endian integers.
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..].copy_from_slice(&self.rkey.to_le_bytes());
        bytes
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8; 20]) -> RemoteMemory {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let rkey = u32::from_le_bytes(std::array::from_fn(|i| bytes[16 + i]));
        RemoteMemory { address: long(0), len: long(8), rkey }
    }
}

/// Takes the answer to an offer, [`Answer`](crate::Answer) as bytes, from whatever thread, once.
pub type Reply = Box<dyn FnOnce(Result<Vec<u8>, ConnectError>) + Send>;

/// The peers of a fabric, as membership knows them. What is asked here is answered from what is known: nothing waits.
///
/// The nodes of one process find each other without; this is for those of other processes.
pub trait Directory: Send + Sync {
    /// Whether there is such a node, or was.
    fn knows(&self, peer: Peer) -> bool;

    /// The memory that a target names: a memory node's, or a registered region of a compute node. It never changes.
    fn memory(&self, target: Target) -> Option<RemoteMemory>;

    /// Whether the node is gone for good. From then on it must not touch memory: its lease has ended, or it has left.
    fn is_gone(&self, peer: Peer) -> bool;

    /// How many nodes have gone so far. Whoever changes it calls [`Fabric::departed`](crate::Fabric::departed) after it.
    fn departures(&self) -> u64;

    /// Carries an [`Offer`](crate::Offer) to the peer, which passes it to [`Fabric::answer`](crate::Fabric::answer) there, and gives
    /// the answer to `reply`, or an error. It may do so later; an endpoint waits for as long as its fabric is configured to.
    fn connect(&self, peer: Peer, offer: Vec<u8>, reply: Reply);

    /// Tells the peer that nobody uses this queue pair of its any more: [`Fabric::close`](crate::Fabric::close) there.
    fn close(&self, peer: Peer, pair: u32);
}
