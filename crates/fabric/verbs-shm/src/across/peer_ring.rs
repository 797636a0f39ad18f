//! [`Lane`]: the ring to one node of another process; [`Lanes`]: all rings that lead to one node.

use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering, RwLock, fence};
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, Message};

use super::page::Page;
use super::ring::Ring;

/// The ring from a node of this process to a node of another process, with the receiver's page.
pub(crate) struct Lane {
    ring: Ring,
    page: Arc<Page>,
    from: ComputeNodeId,
}

impl Lane {
    /// Makes the value from the ring that starts at node `from` and the page of the receiving node.
    pub(crate) fn new(ring: Ring, page: Arc<Page>, from: ComputeNodeId) -> Self {
        Lane { ring, page, from }
    }

    /// Delivers `message` and wakes a worker if no worker polls; false when the ring is full.
    ///
    /// A delivery executes a full memory fence after the message is in the ring.
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

/// A ring that leads to a node of this process.
#[derive(Clone)]
struct Incoming {
    sender: ComputeNodeId,
    ring: Arc<Ring>,
}

/// The rings that lead to one node. The list changes when peers are added and cut off.
#[derive(Default)]
pub(crate) struct Lanes {
    incoming: RwLock<Vec<Incoming>>,
    // One more than the number of changes of the list. So a new [`View`], with version 0, is out of
    // date.
    version: Version,
}

struct Version(AtomicU64);

impl Default for Version {
    fn default() -> Self {
        Version(AtomicU64::new(1))
    }
}

impl Lanes {
    /// Adds the ring of a sender, and drops an earlier ring of that sender.
    pub(crate) fn add(&self, sender: ComputeNodeId, ring: Ring) {
        self.change(sender, Some(Incoming { sender, ring: Arc::new(ring) }));
    }

    /// Drops the ring of a sender, with the messages in it.
    pub(crate) fn remove(&self, sender: ComputeNodeId) {
        self.change(sender, None);
    }

    fn change(&self, sender: ComputeNodeId, now: Option<Incoming>) {
        let mut incoming = self.incoming.write();
        incoming.retain(|lane| lane.sender != sender);
        incoming.extend(now);
        strict_assert!(
            incoming.iter().filter(|lane| lane.sender == sender).count() <= 1,
            "a sender has two rings"
        );
        self.version.0.fetch_add(1, Ordering::Release);
        strict_assert!(self.version.0.load(Ordering::Relaxed) > 1, "a change keeps the version");
    }

    /// Whether some ring may hold a message; see [`Ring::has_ready`].
    pub(crate) fn has_ready(&self) -> bool {
        self.incoming.read().iter().any(|lane| lane.ring.has_ready())
    }
}

/// One worker's copy of the list of rings that lead to its node. The worker takes the lock of the
/// list, which all workers share, only after a change of the list.
#[derive(Default)]
pub(crate) struct View(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    version: u64,
    lanes: Vec<Incoming>,
    // The ring to poll next, so that many messages from one sender do not keep other senders
    // waiting.
    next: usize,
}

impl View {
    /// Takes a message from one of the rings; `None` when no ring has a complete message.
    #[inline]
    pub(crate) fn pop(&self, lanes: &Lanes) -> Option<Message> {
        let mut seen = self.0.lock();
        let version = lanes.version.0.load(Ordering::Acquire);
        strict_assert!(seen.version <= version, "the list of rings runs backwards");
        if seen.version != version {
            seen.renew(lanes, version);
        }
        let count = seen.lanes.len();
        strict_assert!(count == 0 || seen.next < count, "the next ring is beyond the list");
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
        // The list may already be newer than `version`. In this case the next poll copies the list
        // once more than needed.
        *self = Seen { version, lanes: lanes.incoming.read().clone(), next: 0 };
    }
}
