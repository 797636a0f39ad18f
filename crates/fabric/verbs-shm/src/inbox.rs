//! The inbox of a compute node, and the rule by which a message wakes a parked worker.

use std::cell::Cell;
use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence};
use latchwork_runtime::{Notifier, ParkingSpot};
use latchwork_strict::strict_assert;
use latchwork_verbs::Message;

use crate::across::page::Page;
use crate::across::parking_spot::SharedParkingSpot;
use crate::across::peer_ring::{Lanes, View};
use crate::queue::Queue;

#[cfg(all(test, loom))]
mod interleavings;

/// The maximum number of messages that one [`Inbox::receive`](latchwork_verbs::Inbox::receive)
/// takes from senders of this process. The same number applies to senders of other processes. So a
/// flood of messages does not keep a worker from its other work.
const RECEIVE_MAX: usize = 32;
const _: () = assert!(RECEIVE_MAX > 0, "a poll receives");

/// The message queue of one node, the number of its active workers, and the list of its parked
/// workers.
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
/// Why no wake is lost:
///
/// 1. One of the two memory fences comes first in the order of all such fences.
/// 2. If the sender's memory fence is first, D sees A, and the worker does not park.
/// 3. If the worker's memory fence is first, B sees C, or a later change of `active`.
/// 4. If B then reads 0, the sender locks the list and reads `active` again. A worker enters the
///    list before C. A worker that leaves the list is counted active under the same lock, or checks
///    the inbox at the end of its subscription. So if the second read gives 0, too, the sender
///    finds the worker or another parked worker in the list, and wakes it. Otherwise step 5
///    applies.
/// 5. If B or the second read gives more than 0, the sender leaves the message to an active worker.
///    After the read, that worker polls, or executes C and D, or checks the inbox at the end of its
///    subscription.
///
/// (D does not see a message that stands behind another sender's unfinished message. The other
/// sender's own A and B are still to come.)
///
/// The sender that takes a worker from the list also counts the worker active, under the lock of
/// the list. So a burst of messages wakes one worker and not all.
///
/// Senders in other processes have rings of their own, and read `active` on the node's page; see
/// [`crate::across`].
pub(crate) struct Mailbox {
    queue: Queue,
    active: Active,
    parked: Mutex<Vec<Parked>>,
    subscribers: AtomicU64,
    across: Option<Across>,
}

/// The part of an inbox that senders in other processes use.
pub(crate) struct Across {
    pub(crate) page: Arc<Page>,
    pub(crate) lanes: Lanes,
    /// Whether each parking spot of the page is taken, by index.
    beds: Mutex<Vec<bool>>,
}

impl Across {
    pub(crate) fn new(page: Arc<Page>) -> Self {
        let beds = Mutex::new(vec![false; Page::BEDS_MAX]);
        Across { page, lanes: Lanes::default(), beds }
    }

    /// Takes a free parking spot; `None` when no spot is free.
    fn take_bed(&self) -> Option<Arc<SharedParkingSpot>> {
        let mut beds = self.beds.lock();
        let index = beds.iter().position(|taken| !taken)?;
        beds[index] = true;
        strict_assert!(index < Page::BEDS_MAX);
        Some(Arc::new(SharedParkingSpot { page: Arc::clone(&self.page), index }))
    }
}

/// On a CPU cache line of its own, because every sender reads it.
#[repr(align(128))]
struct Active(AtomicUsize);

struct Parked {
    subscriber: u64,
    notifier: Notifier,
}

impl Mailbox {
    /// Makes a mailbox for `capacity` messages of senders of this process, rounded up to a power of
    /// two. With `across`, senders of other processes can send as well.
    pub(crate) fn new(capacity: usize, across: Option<Across>) -> Self {
        Mailbox {
            queue: Queue::new(capacity),
            active: Active(AtomicUsize::new(0)),
            parked: Mutex::new(Vec::new()),
            subscribers: AtomicU64::new(0),
            across,
        }
    }

    pub(crate) fn across(&self) -> Option<&Across> {
        self.across.as_ref()
    }

    /// Counts one more active worker, also on the page that other processes read.
    fn add_active(&self) {
        self.active.0.fetch_add(1, Ordering::Relaxed);
        if let Some(across) = &self.across {
            across.page.active().fetch_add(1, Ordering::Relaxed);
        }
    }

    fn remove_active(&self) {
        strict_assert!(
            self.active.0.load(Ordering::Relaxed) > 0,
            "more workers leave than are active"
        );
        self.active.0.fetch_sub(1, Ordering::Relaxed);
        if let Some(across) = &self.across {
            across.page.active().fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Step D: whether a message may wait. To be called after a full memory fence.
    fn has_ready(&self) -> bool {
        self.queue.has_ready() || self.across.as_ref().is_some_and(|a| a.lanes.has_ready())
    }

    /// Wakes every parked worker, so that the workers notice a change of rings or peers.
    pub(crate) fn wake_all(&self) {
        let parked = self.parked.lock();
        parked.iter().for_each(|parked| parked.notifier.notify());
    }

    /// Delivers `message` and wakes a worker if no worker polls; false when the queue is full.
    ///
    /// A delivery executes a full memory fence after the message is in the queue.
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
            // The second read, under the lock: since the first read, another sender may have
            // counted a worker active, or a worker may have become active.
            if self.active.0.load(Ordering::Relaxed) != 0 {
                return;
            }
            let Some(woken) = parked.pop() else { return };
            strict_assert!(
                !parked.iter().any(|other| other.subscriber == woken.subscriber),
                "a worker is parked twice"
            );
            self.add_active();
            woken
        };
        woken.notifier.notify();
    }
}

/// The inbox of one compute node. Clones are the same inbox. When senders are in other processes,
/// each worker should have its own clone, because a clone has its own copy of the list of rings.
pub struct ShmInbox {
    mailbox: Arc<Mailbox>,
    view: View,
}

impl Clone for ShmInbox {
    fn clone(&self) -> Self {
        ShmInbox::new(Arc::clone(&self.mailbox))
    }
}

impl ShmInbox {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Self {
        ShmInbox { mailbox, view: View::default() }
    }

    /// Makes an inbox without a shared-memory fabric, for messages that enter the process in
    /// another way: over sockets. The inbox holds `capacity` messages, rounded up to a power of
    /// two.
    pub fn with_capacity(capacity: usize) -> Self {
        ShmInbox::new(Arc::new(Mailbox::new(capacity, None)))
    }

    /// Puts a message into the inbox, and wakes a worker if no worker polls; false when there is no
    /// room. A delivery executes a full memory fence after the message is in the queue. The
    /// receiver of the message sees everything that this thread did before.
    pub fn deliver(&self, message: &Message) -> bool {
        self.mailbox.send(message)
    }

    /// Registers a worker that will poll this inbox, and that `notifier` can wake. The worker
    /// counts as active at once.
    ///
    /// In a fabric in a directory, the worker's own thread must make this call. From then on the
    /// thread sleeps on a parking spot where senders in other processes can wake it. A thread has
    /// one parking spot only. So if a thread has several such subscriptions at one time, only the
    /// first lets the thread park. A node has 256 parking spots, so a subscription beyond this
    /// number does not let its worker park either.
    pub fn subscribe(&self, notifier: Notifier) -> ShmSubscription {
        let mailbox = Arc::clone(&self.mailbox);
        let id = mailbox.subscribers.fetch_add(1, Ordering::Relaxed);
        mailbox.add_active();
        let mut bed = mailbox.across().and_then(Across::take_bed);
        if let (Some(across), Some(own)) = (mailbox.across(), &bed)
            && !notifier.sleep_in(Arc::clone(own) as Arc<dyn ParkingSpot>)
        {
            let was_taken = std::mem::replace(&mut across.beds.lock()[own.index], false);
            strict_assert!(was_taken, "a parking spot was given back twice");
            bed = None;
        }
        ShmSubscription { mailbox, id, notifier, parked: Cell::new(false), bed }
    }
}

impl ShmInbox {
    /// Passes the messages of senders in other processes to `sink`.
    fn receive_across(&self, across: &Across, sink: &mut dyn FnMut(Message)) -> bool {
        let mut some = false;
        for _ in 0..RECEIVE_MAX {
            // No lock is held while the sink runs.
            let Some(message) = self.view.pop(&across.lanes) else { break };
            some = true;
            sink(message);
        }
        some
    }
}

impl latchwork_verbs::Inbox for ShmInbox {
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool {
        let mut some = false;
        for _ in 0..RECEIVE_MAX {
            let Some(message) = self.mailbox.queue.pop() else { break };
            some = true;
            sink(message);
        }
        if let Some(across) = self.mailbox.across() {
            some |= self.receive_across(across, sink);
        }
        some
    }
}

/// A worker's promise to poll an inbox; see [`latchwork_verbs::Subscription`].
///
/// When the last active subscription is dropped while messages wait, the drop wakes a parked
/// worker, if there is one.
pub struct ShmSubscription {
    mailbox: Arc<Mailbox>,
    id: u64,
    notifier: Notifier,
    parked: Cell<bool>,
    /// The parking spot through which senders in other processes wake the worker.
    bed: Option<Arc<SharedParkingSpot>>,
}

impl ShmSubscription {
    /// Removes this worker from the list of parked workers. False when a sender has removed the
    /// entry already, and so has counted this worker active.
    fn leave(&self, parked: &mut Vec<Parked>) -> bool {
        let place = parked.iter().position(|p| p.subscriber == self.id);
        strict_assert!(
            parked.iter().filter(|p| p.subscriber == self.id).count() <= 1,
            "a worker is parked twice"
        );
        place.map(|place| parked.remove(place)).is_some()
    }
}

impl latchwork_verbs::Subscription for ShmSubscription {
    fn park(&self) -> bool {
        if self.mailbox.across().is_some() {
            strict_assert!(!self.parked.get(), "a parked worker parks");
            let Some(bed) = &self.bed else { return false };
            bed.page.set_parked(bed.index);
        }
        let entry = Parked { subscriber: self.id, notifier: self.notifier.clone() };
        self.mailbox.parked.lock().push(entry);
        strict_assert!(
            self.mailbox.parked.lock().iter().filter(|p| p.subscriber == self.id).count() <= 1,
            "a worker is parked twice"
        );
        self.mailbox.remove_active();
        self.parked.set(true);
        fence(Ordering::SeqCst);
        if self.mailbox.has_ready() {
            self.unparked();
            return false;
        }
        true
    }

    fn unparked(&self) {
        if !self.parked.replace(false) {
            return;
        }
        {
            let mut parked = self.mailbox.parked.lock();
            if self.leave(&mut parked) {
                // The worker is counted under the lock of the list. So a sender that has the lock
                // finds this worker active or in the list.
                self.mailbox.add_active();
            }
        }
        if let Some(bed) = &self.bed {
            bed.page.clear_parked(bed.index);
        }
    }
}

impl Drop for ShmSubscription {
    fn drop(&mut self) {
        let counted = !(self.parked.get() && self.leave(&mut self.mailbox.parked.lock()));
        strict_assert!(
            !self.mailbox.parked.lock().iter().any(|p| p.subscriber == self.id),
            "a worker that left is parked"
        );
        if let (Some(across), Some(bed)) = (self.mailbox.across(), &self.bed) {
            bed.page.clear_parked(bed.index);
            self.notifier.leave_parking_spot();
            across.beds.lock()[bed.index] = false;
        } else if !counted {
            return;
        }
        // Another worker may have to take over a message, for two reasons. With `counted`, a sender
        // of this process may have left the message to this worker, because the worker was active
        // or counted active. With or without `counted`, a sender of another process may have rung
        // this worker's parking spot.
        if counted {
            self.mailbox.remove_active();
        }
        fence(Ordering::SeqCst);
        if self.mailbox.has_ready() {
            self.mailbox.wake_if_unattended();
        }
    }
}
