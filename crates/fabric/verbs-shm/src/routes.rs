//! [`Routes`]: the targets and local regions that an endpoint has looked up.

use std::sync::Arc;

use latchwork_runtime::sync::AtomicU64;
use latchwork_verbs::{
    ComputeNodeId, Extent, LocalBuffer, MemoryNodeId, Message, Region, RegionKey, Target,
    VerbError, WORD, Words, WorkRequest, prefetch_write,
};

use crate::across::peer_ring::Lane;
use crate::inbox::Mailbox;
use crate::node::{Mapped, Memory, Node, Post};
use crate::shared::Shared;

/// The nodes and regions that one endpoint has looked up. A verb finds them here, without a lock
/// and without a change of a reference count. The fabric counts later changes of nodes, so that the
/// endpoint notices them ([`Routes::is_outdated`]).
pub(crate) struct Routes {
    shared: Arc<Shared>,
    own_id: ComputeNodeId,
    own: Arc<Node>,
    version: u64,
    local: Vec<Option<Arc<Region>>>,
    memory: Vec<Option<Mapped>>,
    peers: Vec<Option<Peer>>,
}

/// The largest number of bytes at the start of a copy that are prefetched.
const AHEAD_MAX: u32 = 1 << 10;

struct Peer {
    node: Arc<Node>,
    way: Way,
    regions: Vec<Option<Mapped>>,
}

/// The path of messages to a peer.
enum Way {
    /// The peer is in this process.
    Here(Arc<Mailbox>),
    /// The peer is in another process.
    Across(Arc<Lane>),
}

/// The memory and the inbox on which a batch acts.
pub(crate) struct Destination<'a> {
    memory: Option<&'a Region>,
    way: Option<&'a Way>,
}

impl Destination<'_> {
    /// The words of a checked request.
    #[inline]
    pub(crate) fn words(&self, remote: u64, len: u32) -> &[AtomicU64] {
        words(self.memory.expect("checked when posted"), remote, len)
    }

    /// Delivers a message; false when there is no room. A delivery executes a full memory fence
    /// after the message is stored.
    #[inline]
    pub(crate) fn send(&self, message: &Message) -> bool {
        match self.way.expect("checked when posted") {
            Way::Here(mailbox) => mailbox.send(message),
            Way::Across(lane) => lane.send(message),
        }
    }

    /// Prefetches the CPU cache lines of a range that will be written, as far as the range is
    /// inside the memory.
    pub(crate) fn expect_write(&self, remote: u64, len: u32) {
        let Some(memory) = self.memory else { return };
        let first = usize::try_from(remote).unwrap_or(usize::MAX) / WORD;
        let behind = memory.atomics().get(first..).unwrap_or(&[]);
        prefetch_write(&behind[..behind.len().min(len as usize / WORD)]);
    }
}

#[inline]
fn words(region: &Region, offset: u64, len: u32) -> &[AtomicU64] {
    &region.atomics()[offset as usize / WORD..][..len as usize / WORD]
}

/// Stores a value in a table that is indexed by small numbers.
#[cold]
fn place<T>(table: &mut Vec<Option<T>>, index: usize, value: T) {
    if table.len() <= index {
        table.resize_with(index + 1, || None);
    }
    table[index] = Some(value);
}

impl Routes {
    pub(crate) fn new(shared: Arc<Shared>, own_id: ComputeNodeId, own: Arc<Node>) -> Self {
        let (local, memory, peers) = (Vec::new(), Vec::new(), Vec::new());
        let version = shared.changes();
        Routes { shared, own_id, own, version, local, memory, peers }
    }

    /// Whether nodes may have been cut off or replaced since the last [`Routes::leave_dead`].
    #[inline]
    pub(crate) fn is_outdated(&self) -> bool {
        self.version != self.shared.changes()
    }

    /// Drops the memory of memory nodes that were cut off or replaced, and the regions of compute
    /// nodes that were cut off. Batches that were posted for these nodes fail from now on. The
    /// caller executes the posted batches and then calls [`Routes::forget_dead`].
    pub(crate) fn leave_dead(&mut self) {
        self.version = self.shared.changes();
        for (id, known) in self.memory.iter_mut().enumerate() {
            let Some(Mapped { region, .. }) = known else { continue };
            let present = self.shared.memory(MemoryNodeId(id as u16));
            if !matches!(present, Some(Memory::There(now)) if Arc::ptr_eq(&now.region, region)) {
                *known = None;
            }
        }
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.node.is_disconnected()) {
            peer.regions.clear();
        }
    }

    /// Forgets compute nodes that were cut off. So the next lookup of an id finds the node that has
    /// replaced the old one.
    pub(crate) fn forget_dead(&mut self) {
        for known in &mut self.peers {
            if known.as_ref().is_some_and(|peer| peer.node.is_disconnected()) {
                *known = None;
            }
        }
    }

    fn find_peer(&self, id: ComputeNodeId) -> Option<Peer> {
        let node = self.shared.node(id)?;
        let way = match &node.post {
            Post::Here(mailbox) => Way::Here(Arc::clone(mailbox)),
            Post::Elsewhere(elsewhere) => Way::Across(elsewhere.lane(self.own_id)?),
        };
        Some(Peer { node, way, regions: Vec::new() })
    }

    /// Looks up `target`; returns the lengths of the target's memory, or `None` without memory.
    #[inline]
    pub(crate) fn learn_target(&mut self, target: Target) -> Result<Option<Extent>, VerbError> {
        match target {
            Target::Memory(id) => {
                if let Some(Some(mapped)) = self.memory.get(usize::from(id.0)) {
                    return Ok(Some(mapped.extent()));
                }
            }
            Target::Compute(id, key) => {
                if let Some(Some(Peer { regions, .. })) = self.peers.get(id.index())
                    && let Some(Some(mapped)) = regions.get(usize::from(key))
                {
                    return Ok(Some(mapped.extent()));
                }
            }
        }
        self.look_up(target).ok_or(VerbError::UnknownTarget { target })
    }

    /// Looks up the unknown part of a target. `None` when the target does not exist, `Some(None)`
    /// when the target has no memory.
    #[cold]
    fn look_up(&mut self, target: Target) -> Option<Option<Extent>> {
        let (known, (index, memory)) = match target {
            Target::Memory(id) => (&mut self.memory, (usize::from(id.0), self.shared.memory(id)?)),
            Target::Compute(id, key) => {
                if self.peers.get(id.index()).is_none_or(Option::is_none) {
                    let found = self.find_peer(id)?;
                    place(&mut self.peers, id.index(), found);
                }
                let Peer { node, regions, .. } = self.peers[id.index()].as_mut()?;
                // A message needs no region.
                let Some(region) = node.region(RegionKey(key)) else { return Some(None) };
                (regions, (usize::from(key), region))
            }
        };
        let extent = memory.extent();
        if let Memory::There(mapped) = memory {
            place(known, index, mapped);
        }
        Some(Some(extent))
    }

    /// Looks up a local region; returns its length in bytes.
    #[inline]
    pub(crate) fn learn_local(&mut self, key: RegionKey) -> Option<u64> {
        let index = usize::from(key.0);
        if let Some(Some(region)) = self.local.get(index) {
            return Some(region.len() as u64);
        }
        let Some(Memory::There(Mapped { region, .. })) = self.own.region(key) else {
            return None;
        };
        let bytes = region.len() as u64;
        place(&mut self.local, index, region);
        Some(bytes)
    }

    /// The destination of batches for a known target; an error when the target is disconnected.
    #[inline]
    pub(crate) fn destination(&self, target: Target) -> Result<Destination<'_>, VerbError> {
        match target {
            Target::Memory(MemoryNodeId(id)) => match self.memory.get(usize::from(id)) {
                Some(Some(Mapped { region, .. })) => {
                    Ok(Destination { memory: Some(region), way: None })
                }
                // The memory node existed when the batch was posted.
                _ => Err(VerbError::Disconnected { target }),
            },
            Target::Compute(id, key) => {
                let peer = self.peer(id);
                if peer.node.is_disconnected() {
                    return Err(VerbError::Disconnected { target });
                }
                let mapped = peer.regions.get(usize::from(key)).and_then(Option::as_ref);
                let memory = mapped.map(|mapped| &*mapped.region);
                Ok(Destination { memory, way: Some(&peer.way) })
            }
        }
    }

    /// Prefetches the CPU cache lines at the start of a checked request. Without the prefetch, the
    /// requests of one ring would load their cache lines from memory one after another. An atomic
    /// on an uncached word stalls all instructions behind the atomic. Of a long copy only the start
    /// is prefetched, because the processor prefetches the rest by itself.
    #[inline]
    pub(crate) fn fetch_ahead(&self, target: Target, request: &WorkRequest) {
        let Ok(to) = self.destination(target) else { return };
        match *request {
            WorkRequest::CompareSwap { remote, .. } | WorkRequest::FetchAdd { remote, .. } => {
                prefetch_write(to.words(remote, 8));
            }
            // Only the source is prefetched. If a READ with a condition is left out, another node
            // may write the destination. A prefetch would take the cache lines from that node.
            WorkRequest::Read { remote, local } | WorkRequest::ReadIf { remote, local, .. } => {
                let len = local.len.min(AHEAD_MAX);
                Words::new(to.words(remote, len)).prefetch(0..len as usize);
            }
            WorkRequest::Write { remote, local } => {
                let len = local.len.min(AHEAD_MAX);
                prefetch_write(to.words(remote, len));
            }
            WorkRequest::WriteWord { .. } | WorkRequest::Send(_) => {}
        }
    }

    fn peer(&self, id: ComputeNodeId) -> &Peer {
        self.peers[id.index()].as_ref().expect("learned when posted")
    }

    /// The words of a checked local buffer.
    #[inline]
    pub(crate) fn local(&self, buffer: LocalBuffer) -> &[AtomicU64] {
        let region = self.local[usize::from(buffer.region.0)].as_deref();
        words(region.expect("learned when posted"), buffer.offset, buffer.len)
    }
}
