//! [`IbvInbox`]: the inbox of a compute node.

use std::cell::Cell;
use std::sync::Arc;

use latchwork_runtime::Notifier;
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::Message;

use crate::mailbox::{Mailbox, Parked};
use crate::node::Node;

/// The maximum number of messages that one [`Inbox::receive`](latchwork_verbs::Inbox::receive)
/// returns. So a flood does not keep a worker from its other work.
const RECEIVE_MAX: usize = 32;

/// The inbox of one compute node. Clones are the same inbox.
#[derive(Clone)]
pub struct IbvInbox {
    // Keeps the node alive, and with it the watch that wakes the node's workers.
    node: Arc<Node>,
    mailbox: Arc<Mailbox>,
}

impl IbvInbox {
    pub(crate) fn new(node: Arc<Node>, mailbox: Arc<Mailbox>) -> Self {
        IbvInbox { node, mailbox }
    }

    /// Registers a worker that will poll this inbox and can be woken through `notifier`. The worker
    /// counts as active at once.
    pub fn subscribe(&self, notifier: Notifier) -> IbvSubscription {
        let mut attention = self.mailbox.attention.lock();
        let id = attention.subscribers;
        attention.subscribers += 1;
        attention.active += 1;
        strict_check!(attention);
        IbvSubscription { inbox: self.clone(), id, notifier, parked: Cell::new(false) }
    }
}

impl latchwork_verbs::Inbox for IbvInbox {
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool {
        let mut some = false;
        for _ in 0..RECEIVE_MAX {
            // The sink runs without a lock, because it may call `receive`.
            let Some(message) = self.mailbox.next() else { break };
            some = true;
            sink(message);
        }
        some
    }
}

/// A worker's promise to poll an inbox; see [`latchwork_verbs::Subscription`].
///
/// When the last active subscription is dropped while messages wait, the drop wakes a parked
/// worker, if there is one.
pub struct IbvSubscription {
    inbox: IbvInbox,
    id: u64,
    notifier: Notifier,
    parked: Cell<bool>,
}

impl latchwork_verbs::Subscription for IbvSubscription {
    fn park(&self) -> bool {
        let mailbox = &self.inbox.mailbox;
        {
            let mut attention = mailbox.attention.lock();
            if attention.active == 1 && !mailbox.arm(&mut attention) {
                // The queue could not be armed, so no message would wake this worker. The worker
                // must go on polling.
                return false;
            }
            strict_assert!(attention.active > 0, "a worker parks that is not active");
            attention.active -= 1;
            attention.parked.push(Parked { subscriber: self.id, notifier: self.notifier.clone() });
            strict_check!(attention);
            strict_assert!(
                attention.active > 0 || attention.armed,
                "all workers sleep, and the queue tells of no message"
            );
        }
        self.parked.set(true);
        if mailbox.has_message() {
            self.unparked();
            return false;
        }
        true
    }

    fn unparked(&self) {
        if self.parked.replace(false) {
            let mut attention = self.inbox.mailbox.attention.lock();
            if attention.leave(self.id) {
                attention.active += 1;
            }
            strict_check!(attention);
            strict_assert!(attention.active > 0, "a worker that polls is not counted");
        }
    }
}

impl Drop for IbvSubscription {
    fn drop(&mut self) {
        let mailbox = &self.inbox.mailbox;
        let mut attention = mailbox.attention.lock();
        if self.parked.get() && attention.leave(self.id) {
            return;
        }
        // The subscriber is active, or the watcher has counted it active and notified it. This
        // worker will not handle the message, so another worker may have to.
        attention.active -= 1;
        if attention.active == 0 && !attention.parked.is_empty() {
            let told = mailbox.arm(&mut attention);
            drop(attention);
            if !told || mailbox.has_message() {
                mailbox.attention.lock().wake_if_unattended();
            }
        }
        let _ = &self.inbox.node;
    }
}
