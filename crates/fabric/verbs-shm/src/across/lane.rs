//! [`Lane`]: one compute node's way to another of a different process; [`Lanes`]: all that lead to one.

use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering, RwLock, fence};
use latchwork_verbs::{ComputeNodeId, Message};

use super::page::Page;
use super::ring::Ring;

/// From a node of this process to one elsewhere.
pub(crate) struct Lane {
    ring: Ring,
    page: Arc<Page>,
    from: ComputeNodeId,
}

impl Lane {
    /// The ring that leads from node `from` to the node with that page.
    pub(crate) fn new(ring: Ring, page: Arc<Page>, from: ComputeNodeId) -> Self {
        Lane { ring, page, from }
    }

    /// Delivers `message` and wakes a worker if none polls; false when the ring is full.
    ///
    /// Ends in a full barrier when it delivers.
    #[inline]
    pub(crate) fn send(&self, message: &Message) -> bool {
        if !self.ring.push(message) {
            return false;
        }
        fence(Ordering::SeqCst);
        if self.page.active().load(Ordering::Relaxed) == 0 {
            self.page.wake_one(self.from);
        }
        true
    }
}

/// A ring that leads here, and whose messages it holds.
#[derive(Clone)]
struct Incoming {
    sender: ComputeNodeId,
    ring: Arc<Ring>,
}

/// The rings that lead to one node. They come and go with the peers.
#[derive(Default)]
pub(crate) struct Lanes {
    incoming: RwLock<Vec<Incoming>>,
    // Counts the changes.
    version: Version,
}

struct Version(AtomicU64);

impl Default for Version {
    fn default() -> Self {
        Version(AtomicU64::new(1))
    }
}

impl Lanes {
    /// Adds the ring of a sender, in the place of an earlier one.
    pub(crate) fn add(&self, sender: ComputeNodeId, ring: Ring) {
        self.change(sender, Some(Incoming { sender, ring: Arc::new(ring) }));
    }

    /// Drops the ring of a sender, with all that is in it.
    pub(crate) fn remove(&self, sender: ComputeNodeId) {
        self.change(sender, None);
    }

    fn change(&self, sender: ComputeNodeId, now: Option<Incoming>) {
        let mut incoming = self.incoming.write();
        incoming.retain(|lane| lane.sender != sender);
        incoming.extend(now);
        self.version.0.fetch_add(1, Ordering::Release);
    }

    /// Whether some ring is not known to be empty; see [`Ring::has_ready`].
    pub(crate) fn has_ready(&self) -> bool {
        self.incoming.read().iter().any(|lane| lane.ring.has_ready())
    }
}

/// One worker's view of the rings that lead to its node: a copy of the list, so that polling takes
/// no lock that others take.
#[derive(Default)]
pub(crate) struct View(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    version: u64,
    lanes: Vec<Incoming>,
    // Whose turn it is: a flood of one sender does not keep the others waiting.
    next: usize,
}

impl View {
    /// Takes a message from some ring.
    #[inline]
    pub(crate) fn pop(&self, lanes: &Lanes) -> Option<Message> {
        let mut seen = self.0.lock();
        let version = lanes.version.0.load(Ordering::Acquire);
        if seen.version != version {
            seen.renew(lanes, version);
        }
        let count = seen.lanes.len();
        for _ in 0..count {
            let Incoming { sender, ring } = &seen.lanes[seen.next];
            let message = ring.pop(*sender);
            seen.next = if seen.next + 1 < count { seen.next + 1 } else { 0 };
            if message.is_some() {
                return message;
            }
        }
        None
    }
}

impl Seen {
    #[cold]
    fn renew(&mut self, lanes: &Lanes, version: u64) {
        // The list may be newer than the version; then it is copied once more than needed.
        *self = Seen { version, lanes: lanes.incoming.read().clone(), next: 0 };
    }
}
