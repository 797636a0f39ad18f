//! [`Node`]: a compute node as endpoints of this process see it; [`Memory`]: the memory of a node.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use latchwork_runtime::sync::{AtomicBool, Ordering, RwLock};
use latchwork_verbs::{ComputeNodeId, Extent, Region, RegionKey};

use crate::across::page::Page;
use crate::across::peer_ring::Lane;
use crate::inbox::Mailbox;

/// The memory of a memory node, or of a region of a compute node.
#[derive(Clone)]
pub(crate) enum Memory {
    /// Memory of this process, or mapped memory of another process.
    There(Mapped),
    /// The node of the memory was cut off. Its memory had these lengths.
    Gone(Extent),
}

/// A region with the on-chip memory of a memory node behind the other memory.
#[derive(Clone)]
pub(crate) struct Mapped {
    pub(crate) region: Arc<Region>,
    pub(crate) chip_bytes: u64,
}

impl Mapped {
    #[inline]
    pub(crate) fn extent(&self) -> Extent {
        let bytes = self.region.len() as u64 - self.chip_bytes;
        Extent { bytes, chip_bytes: self.chip_bytes }
    }
}

impl From<Arc<Region>> for Mapped {
    fn from(region: Arc<Region>) -> Self {
        Mapped { region, chip_bytes: 0 }
    }
}

pub(crate) struct Node {
    pub(crate) post: Post,
    // The regions by key; for a node of another process, only the regions that were looked up.
    regions: RwLock<BTreeMap<u16, Memory>>,
    disconnected: AtomicBool,
}

/// The destination of a node's messages.
pub(crate) enum Post {
    /// The inbox of the node, in this process.
    Here(Arc<Mailbox>),
    /// A ring to the node, in another process.
    Elsewhere(Elsewhere),
}

/// A node of another process.
pub(crate) struct Elsewhere {
    pub(crate) page: Arc<Page>,
    /// The incarnation of the node's process.
    pub(crate) incarnation: u64,
    // One ring from each node of this process.
    lanes: RwLock<BTreeMap<ComputeNodeId, Arc<Lane>>>,
    map: Box<MapRegion>,
}

/// Maps the file of a region, given the number of the file and the length in bytes.
pub(crate) type MapRegion = dyn Fn(u64, usize) -> Option<Arc<Region>> + Send + Sync;

impl Elsewhere {
    pub(crate) fn new(page: Arc<Page>, incarnation: u64, map: Box<MapRegion>) -> Self {
        Elsewhere { page, incarnation, lanes: RwLock::default(), map }
    }

    /// The ring that starts at node `from` of this process.
    pub(crate) fn lane(&self, from: ComputeNodeId) -> Option<Arc<Lane>> {
        self.lanes.read().get(&from).cloned()
    }

    pub(crate) fn add_ring(&self, from: ComputeNodeId, lane: Lane) {
        self.lanes.write().insert(from, Arc::new(lane));
    }
}

impl Node {
    pub(crate) fn new(post: Post) -> Self {
        Node { post, regions: RwLock::default(), disconnected: AtomicBool::new(false) }
    }

    pub(crate) fn mailbox(&self) -> Option<&Arc<Mailbox>> {
        match &self.post {
            Post::Here(mailbox) => Some(mailbox),
            Post::Elsewhere(_) => None,
        }
    }

    pub(crate) fn region(&self, key: RegionKey) -> Option<Memory> {
        if let Some(known) = self.regions.read().get(&key.0) {
            return Some(known.clone());
        }
        let Post::Elsewhere(elsewhere) = &self.post else { return None };
        let (file, bytes) = elsewhere.page.find_region(key)?;
        let mut regions = self.regions.write();
        let found = match regions.entry(key.0) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) if self.is_disconnected() => {
                place.insert(Memory::Gone(Extent::of(bytes as u64)))
            }
            Entry::Vacant(place) => {
                place.insert(Memory::There((elsewhere.map)(file, bytes)?.into()))
            }
        };
        Some(found.clone())
    }

    /// Adds a region of a node of this process, after `publish` has published its key. `None` when
    /// all keys are taken, or when `publish` fails.
    pub(crate) fn add_region(
        &self,
        region: Arc<Region>,
        publish: impl FnOnce(RegionKey) -> bool,
    ) -> Option<RegionKey> {
        let mut regions = self.regions.write();
        let key = u16::try_from(regions.len()).ok()?;
        publish(RegionKey(key)).then(|| {
            regions.insert(key, Memory::There(region.into()));
            RegionKey(key)
        })
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Relaxed)
    }

    /// Cuts the node off; false if the node was cut off before. The memory of a node of another
    /// process is unmapped once all endpoints have noticed the cut-off.
    pub(crate) fn disconnect(&self) -> bool {
        let first = !self.disconnected.swap(true, Ordering::Relaxed);
        if let Post::Elsewhere(_) = &self.post {
            self.regions.write().values_mut().for_each(Memory::leave);
        }
        first
    }
}

impl Memory {
    pub(crate) fn extent(&self) -> Extent {
        match self {
            Memory::There(mapped) => mapped.extent(),
            Memory::Gone(extent) => *extent,
        }
    }

    /// Cuts the memory off. An endpoint that has looked the memory up uses the memory until the
    /// endpoint notices the cut-off.
    pub(crate) fn leave(&mut self) {
        *self = Memory::Gone(self.extent());
    }
}
