//! Nodes of other processes. [`Contact`]: what another process must know of a node. [`Peers`]: the
//! known nodes. [`Courier`]: carries bytes between two nodes that are not connected yet.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use latchwork_runtime::sync::{AtomicU64, Ordering, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, RegionKey, Target};
use thiserror::Error;

use crate::error::ConnectError;

/// The name of a node with which an endpoint can be connected.
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

/// The key under which a memory node names its on-chip memory.
pub(crate) const CHIP_KEY: RegionKey = RegionKey(1);

/// Registered memory of a peer, in the form in which work requests address it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// The address of the first byte at the peer.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// The key by which the peer's device permits access.
    pub rkey: u32,
}

/// What another process must know of a node: the node's member epoch and its registered memory. The
/// text form is `ibv2:EPOCH:ADDRESS-LENGTH-KEY,..`, with hexadecimal numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contact {
    /// The member epoch. A later node with the same name has a higher member epoch.
    pub epoch: u64,
    /// The registered memory, by region key. A memory node has one region, and a second one if it
    /// has on-chip memory.
    pub regions: Vec<RemoteMemory>,
}

/// The error of a text that is not a [`Contact`] of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not what a node of this version says of itself")]
pub struct NoContact;

/// The start of each contact's text, with the version of the text form.
const PREFIX: &str = "ibv2:";

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:x}:", self.epoch)?;
        for (i, RemoteMemory { address, len, rkey }) in self.regions.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{address:x}-{len:x}-{rkey:x}")?;
        }
        Ok(())
    }
}

impl FromStr for Contact {
    type Err = NoContact;

    fn from_str(text: &str) -> Result<Self, NoContact> {
        let parse = || {
            let (epoch, regions) = text.strip_prefix(PREFIX)?.split_once(':')?;
            let mut contact = Contact { epoch: number(epoch)?, regions: Vec::new() };
            for region in regions.split(',').filter(|_| !regions.is_empty()) {
                let mut parts = region.split('-').map(number);
                let (address, len) = (parts.next()??, parts.next()??);
                let rkey = u32::try_from(parts.next()??).ok()?;
                if parts.next().is_some() || address.checked_add(len).is_none() {
                    return None;
                }
                contact.regions.push(RemoteMemory { address, len, rkey });
            }
            Some(contact)
        };
        parse().ok_or(NoContact)
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// The function that takes the answer of the other process. The courier calls it once, on any
/// thread.
pub type ContactReply = Box<dyn FnOnce(Result<Vec<u8>, ConnectError>) + Send>;

/// Carries bytes to a node of another process, over a channel that authenticates the sender.
pub trait Courier: Send + Sync {
    /// Carries `bytes` to the process of `peer` with this member epoch. That process passes the
    /// bytes and the name of the sender to [`IbvFabric::deliver`](crate::IbvFabric::deliver), and
    /// the courier passes the result to `reply`. When the peer has left or died, `reply` gets
    /// [`ConnectError::Gone`]. When there is no result within `limit`, `reply` gets
    /// [`ConnectError::Unreachable`]. The call itself does not wait.
    fn carry(&self, peer: Peer, epoch: u64, bytes: Vec<u8>, limit: Duration, reply: ContactReply);
}

/// The known nodes of other processes.
#[derive(Default)]
pub(crate) struct Peers {
    known: RwLock<BTreeMap<Peer, Known>>,
    // The number of nodes that have left or died so far.
    departed_nodes: AtomicU64,
}

struct Known {
    contact: Contact,
    is_gone: bool,
}

impl Peers {
    /// Adds a node. An earlier node with the same name counts as dead.
    pub(crate) fn add(&self, peer: Peer, contact: Contact) {
        let before = self.known.write().insert(peer, Known { contact, is_gone: false });
        if before.is_some_and(|before| !before.is_gone) {
            self.departed_nodes.fetch_add(1, Ordering::Release);
        }
    }

    /// Marks the node as dead if its member epoch is `epoch` or lower. True when this call has
    /// marked the node.
    pub(crate) fn mark_left(&self, peer: Peer, epoch: u64) -> bool {
        let mut known = self.known.write();
        let known = known.get_mut(&peer).filter(|known| known.contact.epoch <= epoch);
        let Some(known) = known.filter(|known| !known.is_gone) else { return false };
        known.is_gone = true;
        // The counter changes under the lock. So a thread that sees the new count, and afterwards
        // looks the node up under the same lock, finds the mark.
        self.departed_nodes.fetch_add(1, Ordering::Release);
        true
    }

    pub(crate) fn departed_nodes(&self) -> u64 {
        self.departed_nodes.load(Ordering::Acquire)
    }

    /// Whether a node with this name is known, alive or dead.
    pub(crate) fn knows(&self, peer: Peer) -> bool {
        self.known.read().contains_key(&peer)
    }

    /// The member epoch of the living node with this name, if there is one.
    pub(crate) fn epoch(&self, peer: Peer) -> Option<u64> {
        let known = self.known.read();
        known.get(&peer).filter(|known| !known.is_gone).map(|known| known.contact.epoch)
    }

    /// The member epoch of the last node with this name, alive or dead.
    pub(crate) fn last_epoch(&self, peer: Peer) -> Option<u64> {
        self.known.read().get(&peer).map(|known| known.contact.epoch)
    }

    /// A region of the node with this name and this member epoch.
    pub(crate) fn memory(&self, peer: Peer, epoch: u64, key: RegionKey) -> Option<RemoteMemory> {
        let known = self.known.read();
        let known = known.get(&peer).filter(|known| known.contact.epoch == epoch)?;
        known.contact.regions.get(usize::from(key.0)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_read_as_it_is_written_and_nothing_else_is() {
        let region = |address, rkey| RemoteMemory { address, len: 1 << 20, rkey };
        for regions in [vec![], vec![region(1, 2)], vec![region(1 << 60, u32::MAX), region(0, 0)]] {
            let contact = Contact { epoch: 77, regions };
            assert_eq!(contact.to_string().parse(), Ok(contact));
        }
        let good = "ibv2:4d:7f00-1000-1";
        assert!(good.parse::<Contact>().is_ok());
        for bad in [
            "",
            "ibv1:4d:7f00-1000-1",
            "ibv2:4d",
            "ibv2::7f00-1000-1",
            "ibv2:4d:7f00-1000",
            "ibv2:4d:7f00-1000-1-1",
            "ibv2:4d:7f00-1000-1,",
            "ibv2:4d:7f00-+1000-1",
            "ibv2:4d:7f00-1000-100000000",
            "ibv2:4d:ffffffffffffffff-1000-1",
            "10.0.0.1:4000",
        ] {
            assert_eq!(bad.parse::<Contact>(), Err(NoContact), "{bad}");
        }
    }

    #[test]
    fn a_node_that_comes_again_is_another_one() {
        let (peers, peer) = (Peers::default(), Peer::Memory(MemoryNodeId(3)));
        let contact = |epoch, rkey| Contact {
            epoch,
            regions: vec![RemoteMemory { address: 0, len: 8, rkey }],
        };
        assert!(!peers.knows(peer));
        peers.add(peer, contact(5, 50));
        let key = |epoch| peers.memory(peer, epoch, RegionKey(0)).map(|memory| memory.rkey);
        assert_eq!((peers.epoch(peer), key(5), key(6)), (Some(5), Some(50), None));
        assert!(!peers.mark_left(peer, 4), "somebody else");
        assert!(peers.mark_left(peer, 5) && !peers.mark_left(peer, 5));
        assert_eq!((peers.epoch(peer), peers.last_epoch(peer)), (None, Some(5)));
        assert_eq!((peers.knows(peer), peers.departed_nodes()), (true, 1));
        peers.add(peer, contact(9, 90));
        assert_eq!((peers.epoch(peer), key(5), key(9)), (Some(9), None, Some(90)));
        assert_eq!(peers.departed_nodes(), 1, "it had gone before");
        peers.add(peer, contact(11, 110));
        assert_eq!(peers.departed_nodes(), 2, "the one before did not say good-bye");
    }
}
