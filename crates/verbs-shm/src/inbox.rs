//! The inbox of a compute node, and the rule by which a message wakes a parked worker.

use std::cell::Cell;
use std::sync::Arc;

use latchwork_runtime::Notifier;
use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence};
use latchwork_verbs::Message;

use crate::queue::Queue;

#[cfg(all(test, loom))]
mod interleavings;

/// Messages that one [`Inbox::receive`](latchwork_verbs::Inbox::receive) gives at most, so that a
/// flood does not keep a worker from its other work.
const RECEIVE_MAX: usize = 32;

/// The queue of one node, and who polls it.
///
/// # No wake is lost
///
/// ```text
///   sender                        worker that parks
///   A  message into the queue     C  active -= 1
///      fence(SeqCst)                 fence(SeqCst)
///   B  read active                D  look at the queue
///      0? wake one parked            a message? active += 1, do not park
/// ```
///
/// The two fences are ordered one way or the other. If the sender's is first, D sees A and the worker
/// stays. If the worker's is first, B sees C, and then a sender that reads 0 finds the worker in the
/// list, because the worker entered it before its fence. A sender that reads more than 0 leaves the message
/// to an active worker: that one polls, or goes through C and D itself after B. (D does not see a
/// message behind one that another sender has not finished; that sender's own A and B are to come.)
///
/// A worker that is taken from the list is counted active by the one who takes it, under the list's
/// lock, so that a burst of messages wakes one worker and not all.
pub(crate) struct Mailbox {
    queue: Queue,
    active: Active,
    parked: Mutex<Vec<Parked>>,
    subscribers: AtomicU64,
}

/// A cache line of its own: every sender reads it.
#[repr(align(128))]
struct Active(AtomicUsize);

struct Parked {
    subscriber: u64,
    notifier: Notifier,
}

impl Mailbox {
    pub(crate) fn new(capacity: usize) -> Self {
        Mailbox {
            queue: Queue::new(capacity),
            active: Active(AtomicUsize::new(0)),
            parked: Mutex::new(Vec::new()),
            subscribers: AtomicU64::new(0),
        }
    }

    /// Delivers `message` and wakes a worker if none polls; false when the queue is full.
    ///
    /// Ends in a full barrier when it delivers.
    pub(crate) fn send(&self, message: &Message) -> bool {
        if !self.queue.push(message) {
            return false;
        }
        self.wake_if_unattended();
        true
    }

    fn wake_if_unattended(&self) {
        fence(Ordering::SeqCst);
        if self.active.0.load(Ordering::Relaxed) != 0 {
            return;
        }
        let woken = {
            let mut parked = self.parked.lock();
            // Looked at again under the lock: another sender may just have made one active.
            if self.active.0.load(Ordering::Relaxed) != 0 {
                return;
            }
            let Some(woken) = parked.pop() else { return };
            self.active.0.fetch_add(1, Ordering::Relaxed);
            woken
        };
        woken.notifier.notify();
    }
}

/// The inbox of one compute node. Clones are the same inbox.
#[derive(Clone)]
pub struct Inbox {
    mailbox: Arc<Mailbox>,
}

impl Inbox {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Self {
        Inbox { mailbox }
    }

    /// An inbox of no fabric of this crate, for messages that come into the process some other way.
    /// It holds `capacity` messages, rounded up to a power of two.
    pub fn with_capacity(capacity: usize) -> Self {
        Inbox::new(Arc::new(Mailbox::new(capacity)))
    }

    /// Puts a message in, and wakes a worker if none polls; false when there is no room. A full barrier
    /// when it does. Whoever receives the message sees what this thread did before.
    pub fn deliver(&self, message: &Message) -> bool {
        self.mailbox.send(message)
    }

    /// Registers a worker that will poll this inbox and can be woken through `notifier`. It counts
    /// as active at once.
    pub fn subscribe(&self, notifier: Notifier) -> Subscription {
        let mailbox = Arc::clone(&self.mailbox);
        let id = mailbox.subscribers.fetch_add(1, Ordering::Relaxed);
        mailbox.active.0.fetch_add(1, Ordering::Relaxed);
        Subscription { mailbox, id, notifier, parked: Cell::new(false) }
    }
}

impl latchwork_verbs::Inbox for Inbox {
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool {
        let mut some = false;
        for _ in 0..RECEIVE_MAX {
            let Some(message) = self.mailbox.queue.pop() else { break };
            some = true;
            sink(message);
        }
        some
    }
}

/// A worker's promise to poll an inbox; see [`latchwork_verbs::Subscription`].
///
/// When the last active subscriber is dropped while messages wait, a parked one is woken.
pub struct Subscription {
    mailbox: Arc<Mailbox>,
    id: u64,
    notifier: Notifier,
    parked: Cell<bool>,
}

impl Subscription {
    /// Leaves the list of the parked. False when a sender has done it, and counted us active.
    fn leave(&self, parked: &mut Vec<Parked>) -> bool {
        let place = parked.iter().position(|p| p.subscriber == self.id);
        place.map(|place| parked.remove(place)).is_some()
    }
}

impl latchwork_verbs::Subscription for Subscription {
    fn park(&self) -> bool {
        let entry = Parked { subscriber: self.id, notifier: self.notifier.clone() };
        self.mailbox.parked.lock().push(entry);
        self.mailbox.active.0.fetch_sub(1, Ordering::Relaxed);
        self.parked.set(true);
        fence(Ordering::SeqCst);
        if self.mailbox.queue.has_ready() {
            self.unparked();
            return false;
        }
        true
    }

    fn unparked(&self) {
        if !self.parked.replace(false) {
            return;
        }
        let mut parked = self.mailbox.parked.lock();
        if self.leave(&mut parked) {
            // Under the lock, so that a sender there counts either us or the one it wakes.
            self.mailbox.active.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.parked.get() && self.leave(&mut self.mailbox.parked.lock()) {
            return;
        }
        // Active, or made active by a sender whose wake nobody will answer now.
        self.mailbox.active.0.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.mailbox.queue.has_ready() {
            self.mailbox.wake_if_unattended();
        }
    }
}
