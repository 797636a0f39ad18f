//! [`Routes`]: what an endpoint remembers about targets and local regions.

use std::sync::Arc;

use latchwork_runtime::sync::AtomicU64;
use latchwork_verbs::{
    ComputeNodeId, LocalBuffer, MemoryNodeId, Message, Region, RegionKey, Request, Target,
    VerbError, WORD, Words, prefetch_write,
};

use crate::across::lane::Lane;
use crate::inbox::Mailbox;
use crate::node::{Memory, Node, Post};
use crate::shared::Shared;

/// Nodes and regions that were looked up once, so that a verb takes no lock and counts no reference.
/// What becomes of them in the fabric is counted there ([`Routes::is_outdated`]).
pub(crate) struct Routes {
    shared: Arc<Shared>,
    own_id: ComputeNodeId,
    own: Arc<Node>,
    version: u64,
    local: Vec<Option<Arc<Region>>>,
    memory: Vec<Option<Arc<Region>>>,
    peers: Vec<Option<Peer>>,
}

/// Bytes at the start of a copy that are fetched ahead.
const AHEAD_MAX: u32 = 1 << 10;

struct Peer {
    node: Arc<Node>,
    way: Way,
    regions: Vec<Option<Arc<Region>>>,
}

/// How messages get to a peer.
enum Way {
    /// It is in this process.
    Here(Arc<Mailbox>),
    /// It is in another one.
    Across(Arc<Lane>),
}

/// What a batch acts on.
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

    /// Delivers a message; false when there is no room. Ends in a full barrier when it delivers.
    #[inline]
    pub(crate) fn send(&self, message: &Message) -> bool {
        match self.way.expect("checked when posted") {
            Way::Here(mailbox) => mailbox.send(message),
            Way::Across(lane) => lane.send(message),
        }
    }

    /// Asks for the CPU cache lines of a place that will be written, as far as there is such a place.
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

/// Puts something into a table indexed by small numbers.
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

    /// Whether nodes may have gone, or have been replaced, since these routes were learned.
    #[inline]
    pub(crate) fn is_outdated(&self) -> bool {
        self.version != self.shared.changes()
    }

    /// Gives up the memory of nodes that are gone. What was posted for them fails from now on. To be followed by
    /// [`Routes::forget_gone`] when all of that has been executed.
    pub(crate) fn leave_gone(&mut self) {
        self.version = self.shared.changes();
        for (id, known) in self.memory.iter_mut().enumerate() {
            if !matches!(self.shared.memory(MemoryNodeId(id as u16)), Some(Memory::There(_))) {
                *known = None;
            }
        }
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.node.is_disconnected()) {
            peer.regions.clear();
        }
    }

    /// Forgets nodes that are gone, so that those that have taken their places are found.
    pub(crate) fn forget_gone(&mut self) {
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

    /// Learns `target`; the bytes of memory that it has, if it has any.
    #[inline]
    pub(crate) fn learn_target(&mut self, target: Target) -> Result<Option<u64>, VerbError> {
        let unknown = VerbError::UnknownTarget { target };
        let region = match target {
            Target::Memory(id) => {
                if self.memory.get(usize::from(id.0)).is_none_or(Option::is_none) {
                    match self.shared.memory(id).ok_or(unknown)? {
                        Memory::There(region) => place(&mut self.memory, id.0.into(), region),
                        Memory::Gone { bytes } => return Ok(Some(bytes)),
                    }
                }
                self.memory[usize::from(id.0)].as_ref()
            }
            Target::Compute(id, key) => {
                if self.peers.get(id.index()).is_none_or(Option::is_none) {
                    let found = self.find_peer(id).ok_or(unknown)?;
                    place(&mut self.peers, id.index(), found);
                }
                let Peer { node, regions, .. } = self.peers[id.index()].as_mut().ok_or(unknown)?;
                if regions.get(usize::from(key)).is_none_or(Option::is_none) {
                    match node.region(RegionKey(key)) {
                        Some(Memory::There(region)) => place(regions, key.into(), region),
                        Some(Memory::Gone { bytes }) => return Ok(Some(bytes)),
                        // A message needs none.
                        None => return Ok(None),
                    }
                }
                regions[usize::from(key)].as_ref()
            }
        };
        Ok(region.map(|region| region.len() as u64))
    }

    /// Learns a local region; its length in bytes.
    #[inline]
    pub(crate) fn learn_local(&mut self, key: RegionKey) -> Option<u64> {
        let index = usize::from(key.0);
        if self.local.get(index).is_none_or(Option::is_none) {
            let Some(Memory::There(region)) = self.own.region(key) else { return None };
            place(&mut self.local, index, region);
        }
        self.local[index].as_ref().map(|region| region.len() as u64)
    }

    /// Where the batches for a target that was learned go; an error when it is disconnected.
    #[inline]
    pub(crate) fn destination(&self, target: Target) -> Result<Destination<'_>, VerbError> {
        match target {
            Target::Memory(MemoryNodeId(id)) => match self.memory.get(usize::from(id)) {
                Some(Some(memory)) => Ok(Destination { memory: Some(memory), way: None }),
                // It was there when the batch was posted.
                _ => Err(VerbError::Disconnected { target }),
            },
            Target::Compute(id, key) => {
                let peer = self.peer(id);
                if peer.node.is_disconnected() {
                    return Err(VerbError::Disconnected { target });
                }
                let memory = peer.regions.get(usize::from(key)).and_then(Option::as_deref);
                Ok(Destination { memory, way: Some(&peer.way) })
            }
        }
    }

    /// Asks for the CPU cache lines that a checked request begins with, so that what a ring finds posted does
    /// not come out of memory one after the other: an atomic on a word that is not there stalls everything
    /// behind it. Of long copies only the start, behind which the processor fetches ahead by itself.
    #[inline]
    pub(crate) fn fetch_ahead(&self, target: Target, request: &Request) {
        let Ok(to) = self.destination(target) else { return };
        match *request {
            Request::CompareSwap { remote, .. } | Request::FetchAdd { remote, .. } => {
                prefetch_write(to.words(remote, 8));
            }
            // Not where it is copied to: when the READ is left out, another node will write there.
            Request::Read { remote, local } | Request::ReadIf { remote, local, .. } => {
                let len = local.len.min(AHEAD_MAX);
                Words::new(to.words(remote, len)).prefetch(0..len as usize);
            }
            Request::Write { remote, local } => {
                let len = local.len.min(AHEAD_MAX);
                prefetch_write(to.words(remote, len));
            }
            Request::WriteWord { .. } | Request::Send(_) => {}
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
