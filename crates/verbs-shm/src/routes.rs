//! [`Routes`]: what an endpoint remembers about targets and local regions.

use std::sync::Arc;

use latchwork_runtime::sync::AtomicU64;
use latchwork_verbs::{
    ComputeNodeId, LocalBuffer, MemoryNodeId, Region, RegionKey, Request, Target, VerbError, WORD,
    Words, prefetch_write,
};

use crate::fabric::{Node, Shared};
use crate::inbox::Mailbox;

/// Nodes and regions that were looked up once, so that a verb takes no lock and counts no reference.
/// Neither is ever replaced in the fabric, so nothing here goes stale.
pub(crate) struct Routes {
    shared: Arc<Shared>,
    own: Arc<Node>,
    local: Vec<Option<Arc<Region>>>,
    memory: Vec<Option<Arc<Region>>>,
    peers: Vec<Option<Peer>>,
}

/// Bytes at the start of a copy that are fetched ahead.
const AHEAD_MAX: u32 = 1 << 10;

struct Peer {
    node: Arc<Node>,
    regions: Vec<Option<Arc<Region>>>,
}

/// What a batch acts on.
pub(crate) struct Destination<'a> {
    memory: Option<&'a Region>,
    pub(crate) mailbox: Option<&'a Mailbox>,
}

impl Destination<'_> {
    /// The words of a checked request.
    #[inline]
    pub(crate) fn words(&self, remote: u64, len: u32) -> &[AtomicU64] {
        words(self.memory.expect("checked when posted"), remote, len)
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

/// Remembers what `find` finds, in a table indexed by small numbers.
#[inline]
fn remember<T>(
    table: &mut Vec<Option<T>>,
    index: usize,
    find: impl FnOnce() -> Option<T>,
) -> Option<&mut T> {
    if table.get(index).is_none_or(Option::is_none) {
        let found = find()?;
        if table.len() <= index {
            table.resize_with(index + 1, || None);
        }
        table[index] = Some(found);
    }
    table[index].as_mut()
}

impl Routes {
    pub(crate) fn new(shared: Arc<Shared>, own: Arc<Node>) -> Self {
        let (local, memory, peers) = (Vec::new(), Vec::new(), Vec::new());
        Routes { shared, own, local, memory, peers }
    }

    /// Learns `target`; the bytes of memory that it has, if it has any.
    #[inline]
    pub(crate) fn learn_target(&mut self, target: Target) -> Result<Option<u64>, VerbError> {
        let unknown = VerbError::UnknownTarget { target };
        let region = match target {
            Target::Memory(id) => {
                let find = || self.shared.memory(id);
                Some(remember(&mut self.memory, id.0.into(), find).ok_or(unknown)?)
            }
            Target::Compute(id, key) => {
                let find = || Some(Peer { node: self.shared.node(id)?, regions: Vec::new() });
                let peer = remember(&mut self.peers, id.index(), find).ok_or(unknown)?;
                let Peer { node, regions } = peer;
                remember(regions, key.into(), || node.region(RegionKey(key)))
            }
        };
        Ok(region.map(|region| region.len() as u64))
    }

    /// Learns a local region; its length in bytes.
    #[inline]
    pub(crate) fn learn_local(&mut self, key: RegionKey) -> Option<u64> {
        let region = remember(&mut self.local, key.0.into(), || self.own.region(key))?;
        Some(region.len() as u64)
    }

    /// Where the batches for a target that was learned go; an error when it is disconnected.
    #[inline]
    pub(crate) fn destination(&self, target: Target) -> Result<Destination<'_>, VerbError> {
        match target {
            Target::Memory(MemoryNodeId(id)) => {
                let memory = self.memory[usize::from(id)].as_deref();
                Ok(Destination { memory, mailbox: None })
            }
            Target::Compute(id, key) => {
                let peer = self.peer(id);
                if peer.node.is_disconnected() {
                    return Err(VerbError::Disconnected { target });
                }
                let memory = peer.regions.get(usize::from(key)).and_then(Option::as_deref);
                Ok(Destination { memory, mailbox: Some(&peer.node.mailbox) })
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
