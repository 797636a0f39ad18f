//! The inbox of a simulated compute node.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use latchwork_runtime::Notifier;
use latchwork_simulation::Kernel;
use latchwork_strict::strict_assert;
use latchwork_verbs::Message;

/// The maximum number of messages that one [`Inbox::receive`](latchwork_verbs::Inbox::receive)
/// returns.
const RECEIVE_MAX: usize = 32;
const _: () = assert!(RECEIVE_MAX > 0, "a poll receives");

/// The messages of one compute node, and the workers that poll for them.
///
/// Idle workers of a world make no events, so no worker polls regularly. Therefore every message
/// notifies one of the parked subscribers, which the seed picks. When no subscriber is parked, each
/// subscriber is awake or about to wake, and checks the inbox before it parks.
pub(crate) struct Mailbox {
    kernel: Kernel,
    capacity: usize,
    queue: RefCell<VecDeque<Message>>,
    subscribers: RefCell<Vec<Subscriber>>,
    next_subscriber: Cell<u64>,
}

struct Subscriber {
    id: u64,
    notifier: Notifier,
    parked: Cell<bool>,
}

impl Mailbox {
    pub(crate) fn new(kernel: Kernel, capacity: usize) -> Self {
        Mailbox {
            kernel,
            capacity,
            queue: RefCell::default(),
            subscribers: RefCell::default(),
            next_subscriber: Cell::new(0),
        }
    }

    /// Whether the inbox has no room for a message.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.borrow().len() >= self.capacity
    }

    pub(crate) fn put(&self, message: Message) {
        self.queue.borrow_mut().push_back(message);
        self.notify_one();
    }

    fn notify_one(&self) {
        let subscribers = self.subscribers.borrow();
        strict_assert!(
            subscribers.is_sorted_by_key(|subscriber| subscriber.id),
            "subscribers are out of order"
        );
        let parked = || subscribers.iter().filter(|subscriber| subscriber.parked.get());
        let count = parked().count() as u64;
        if count > 0 {
            let pick = self.kernel.random_below(count) as usize;
            if let Some(subscriber) = parked().nth(pick) {
                strict_assert!(subscriber.parked.get(), "a worker that is awake is woken");
                // The subscriber counts as awake from now on, so that the next message notifies
                // another subscriber.
                subscriber.parked.set(false);
                subscriber.notifier.notify();
            }
        }
    }

    fn set_parked(&self, id: u64, parked: bool) {
        let subscribers = self.subscribers.borrow();
        // Ids only increase, so the list is sorted.
        if let Ok(at) = subscribers.binary_search_by_key(&id, |subscriber| subscriber.id) {
            subscribers[at].parked.set(parked);
        }
    }

    fn has_messages(&self) -> bool {
        !self.queue.borrow().is_empty()
    }
}

/// The inbox of one compute node. Clones are the same inbox.
#[derive(Clone)]
pub struct SimInbox {
    mailbox: Rc<Mailbox>,
}

impl SimInbox {
    pub(crate) fn new(mailbox: Rc<Mailbox>) -> Self {
        SimInbox { mailbox }
    }

    /// Registers a worker that will poll this inbox whenever `notifier` is notified.
    pub fn subscribe(&self, notifier: Notifier) -> SimSubscription {
        let mailbox = Rc::clone(&self.mailbox);
        let id = mailbox.next_subscriber.get();
        mailbox.next_subscriber.set(id + 1);
        if mailbox.has_messages() {
            notifier.notify();
        }
        let parked = Cell::new(false);
        mailbox.subscribers.borrow_mut().push(Subscriber { id, notifier, parked });
        strict_assert!(
            mailbox.subscribers.borrow().iter().filter(|other| other.id == id).count() == 1,
            "a worker subscribes twice"
        );
        SimSubscription { mailbox, id }
    }
}

impl latchwork_verbs::Inbox for SimInbox {
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool {
        let mut some = false;
        for _ in 0..RECEIVE_MAX {
            let Some(message) = self.mailbox.queue.borrow_mut().pop_front() else { break };
            some = true;
            sink(message);
        }
        some
    }
}

/// A worker's promise to poll an inbox; see [`latchwork_verbs::Subscription`].
pub struct SimSubscription {
    mailbox: Rc<Mailbox>,
    id: u64,
}

impl latchwork_verbs::Subscription for SimSubscription {
    fn park(&self) -> bool {
        let parks = !self.mailbox.has_messages();
        self.mailbox.set_parked(self.id, parks);
        strict_assert!(
            !parks || self.mailbox.queue.borrow().is_empty(),
            "a worker parks beside a message"
        );
        parks
    }

    fn unparked(&self) {
        self.mailbox.set_parked(self.id, false);
    }
}

impl Drop for SimSubscription {
    fn drop(&mut self) {
        self.mailbox.subscribers.borrow_mut().retain(|other| other.id != self.id);
        // A waiting message may have notified only this subscriber, so another subscriber is
        // notified.
        if self.mailbox.has_messages() {
            self.mailbox.notify_one();
        }
    }
}
