//! Nodes of other processes: [`Contact`], what one says of itself; [`Peers`], those that are known;
//! [`Courier`], which carries what has to be said before there is a connection.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use latchwork_runtime::sync::{AtomicU64, Ordering, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, RegionKey, Target};
use thiserror::Error;

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

/// What a node says of itself to those of other processes: since when it is there, and its
/// registered memory. As text it is `ibv2:EPOCH:ADDRESS-LENGTH-KEY,..`, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contact {
    /// When it joined: whoever has its name later has a higher one.
    pub epoch: u64,
    /// Its memory, by key; that of a memory node is one region.
    pub regions: Vec<RemoteMemory>,
}

/// Text that is no [`Contact`] of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not what a node of this version says of itself")]
pub struct NoContact;

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

/// Takes what the other process has answered, from whatever thread, once.
pub type Reply = Box<dyn FnOnce(Result<Vec<u8>, ConnectError>) + Send>;

/// Carries bytes to a node of another process, by whatever means that know who it is.
pub trait Courier: Send + Sync {
    /// Has the process of `peer`, as it joined at `epoch`, pass the bytes to
    /// [`Fabric::deliver`](crate::Fabric::deliver) together with the name of the sender, and gives
    /// what that returns to `reply`; or [`ConnectError::Gone`] when the peer is, or
    /// [`ConnectError::Unreachable`] when that did not come to an end within `limit`. It does not
    /// wait here.
    fn carry(&self, peer: Peer, epoch: u64, bytes: Vec<u8>, limit: Duration, reply: Reply);
}

/// The nodes of other processes that are known.
#[derive(Default)]
pub(crate) struct Peers {
    known: RwLock<BTreeMap<Peer, Known>>,
    // Those that have gone so far.
    departures: AtomicU64,
}

struct Known {
    contact: Contact,
    is_gone: bool,
}

impl Peers {
    /// Learns of a node. One that had its name before is gone.
    pub(crate) fn add(&self, peer: Peer, contact: Contact) {
        let before = self.known.write().insert(peer, Known { contact, is_gone: false });
        if before.is_some_and(|before| !before.is_gone) {
            self.departures.fetch_add(1, Ordering::Release);
        }
    }

    /// A node is gone, up to an epoch; whether that is news.
    pub(crate) fn depart(&self, peer: Peer, epoch: u64) -> bool {
        let mut known = self.known.write();
        let known = known.get_mut(&peer).filter(|known| known.contact.epoch <= epoch);
        let Some(known) = known.filter(|known| !known.is_gone) else { return false };
        known.is_gone = true;
        // Under the lock: whoever sees the number looks the node up.
        self.departures.fetch_add(1, Ordering::Release);
        true
    }

    pub(crate) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Acquire)
    }

    /// Whether there is such a node, or was.
    pub(crate) fn knows(&self, peer: Peer) -> bool {
        self.known.read().contains_key(&peer)
    }

    /// The epoch of the node that has this name now, if there is one.
    pub(crate) fn epoch(&self, peer: Peer) -> Option<u64> {
        let known = self.known.read();
        known.get(&peer).filter(|known| !known.is_gone).map(|known| known.contact.epoch)
    }

    /// The epoch of the last node that had this name.
    pub(crate) fn last_epoch(&self, peer: Peer) -> Option<u64> {
        self.known.read().get(&peer).map(|known| known.contact.epoch)
    }

    /// A region of the node of this epoch.
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
        assert!(!peers.depart(peer, 4), "somebody else");
        assert!(peers.depart(peer, 5) && !peers.depart(peer, 5));
        assert_eq!((peers.epoch(peer), peers.last_epoch(peer)), (None, Some(5)));
        assert_eq!((peers.knows(peer), peers.departures()), (true, 1));
        peers.add(peer, contact(9, 90));
        assert_eq!((peers.epoch(peer), key(5), key(9)), (Some(9), None, Some(90)));
        assert_eq!(peers.departures(), 1, "it had gone before");
        peers.add(peer, contact(11, 110));
        assert_eq!(peers.departures(), 2, "the one before did not say good-bye");
    }
}
