//! [`Mailbox`]: the messages of a compute node, and the rule by which a message wakes a parked
//! worker.

use std::sync::Arc;

use latchwork_runtime::Notifier;
use latchwork_runtime::sync::Mutex;
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::Message;

use crate::sys::{Found, Receives};

/// The received messages of one compute node, and the workers that poll for messages.
///
/// # No wake is lost
///
/// The device receives messages without the CPU. So no code runs at the arrival of a message that
/// could check whether a worker polls. Instead the last worker that parks arms the completion
/// queue: the queue signals the next message to the [watcher](crate::sys::Watcher), a thread of the
/// fabric:
///
/// ```text
///   worker that parks                          watcher
///   under the lock:                            notified of a message, under the lock:
///     into the list; active -= 1                 armed = false
///     if active = 0: arm the queue               if active = 0: take one from the list,
///   poll the queue                                 active += 1, notify it
///   a message? out of the list, active += 1
/// ```
///
/// 1. A message that arrives after the arming notifies the watcher.
/// 2. The poll, which follows the arming, finds a message that arrives before the arming.
/// 3. While a worker is active, no notification is needed, because this worker polls before it
///    parks. If this worker is the last one to park, steps 1 and 2 apply.
/// 4. The watcher counts a worker as active before it notifies the worker. So a burst of messages
///    wakes one worker, not all.
pub(crate) struct Mailbox {
    receives: Arc<Receives>,
    found: Mutex<Found>,
    pub(crate) attention: Mutex<Attention>,
}

/// The workers of the node that subscribe to its messages: active or parked.
#[derive(Default)]
pub(crate) struct Attention {
    pub(crate) active: usize,
    // Whether the queue is armed and has not yet notified the watcher.
    pub(crate) armed: bool,
    pub(crate) parked: Vec<Parked>,
    pub(crate) subscribers: u64,
}

/// A parked worker in the list, with the notifier that wakes it.
pub(crate) struct Parked {
    pub(crate) subscriber: u64,
    pub(crate) notifier: Notifier,
}

impl Mailbox {
    pub(crate) fn new(receives: Arc<Receives>) -> Self {
        Mailbox { receives, found: Mutex::default(), attention: Mutex::default() }
    }

    /// Whether there is a message. Polls the device's queue if all earlier messages have been
    /// taken.
    pub(crate) fn look(&self, found: &mut Found) -> bool {
        if found.filled.is_empty() {
            self.receives.poll(found);
        }
        !found.filled.is_empty()
    }

    pub(crate) fn has_message(&self) -> bool {
        self.look(&mut self.found.lock())
    }

    pub(crate) fn next(&self) -> Option<Message> {
        let mut found = self.found.lock();
        while self.look(&mut found) {
            let buffer = found.filled.pop_front()?;
            if let Some(message) = self.receives.take(buffer) {
                return Some(message);
            }
        }
        None
    }

    /// Takes all arrived messages out of the device's queue and stores them. To be called before a
    /// queue pair is destroyed, because some devices then remove its completions from their queues.
    /// No wake is needed here: an armed queue has already notified the watcher of the arrival.
    pub(crate) fn keep_all(&self) {
        let mut found = self.found.lock();
        let mut before = usize::MAX;
        while found.filled.len() != before {
            before = found.filled.len();
            self.receives.poll(&mut found);
        }
    }

    /// Handles the watcher's notification of a message.
    pub(crate) fn told(&self) {
        let mut attention = self.attention.lock();
        attention.armed = false;
        attention.wake_if_unattended();
        strict_check!(attention);
        strict_assert!(
            attention.active > 0 || attention.parked.is_empty(),
            "a message arrived, and all workers sleep"
        );
    }

    /// Arms the queue if it is not armed. False when the arming fails.
    pub(crate) fn arm(&self, attention: &mut Attention) -> bool {
        if !attention.armed {
            attention.armed = self.receives.completions.arm().is_ok();
        }
        attention.armed
    }
}

impl Attention {
    /// Checks that each worker is counted at most once: as active, or in the list of parked
    /// workers.
    pub(crate) fn check(&self) {
        let workers = self.active + self.parked.len();
        assert!(
            workers as u64 <= self.subscribers,
            "{workers} workers of {} that ever came",
            self.subscribers
        );
        for (number, parked) in self.parked.iter().enumerate() {
            let id = parked.subscriber;
            assert!(id < self.subscribers, "subscriber {id} will come again");
            let others = &self.parked[..number];
            assert!(others.iter().all(|other| other.subscriber != id), "{id} sleeps twice");
        }
    }

    pub(crate) fn wake_if_unattended(&mut self) {
        if self.active == 0
            && let Some(woken) = self.parked.pop()
        {
            self.active += 1;
            woken.notifier.notify();
        }
    }

    /// Takes a subscriber out of the list of parked workers. False when the watcher has already
    /// taken the subscriber out and counted it as active.
    pub(crate) fn leave(&mut self, subscriber: u64) -> bool {
        let place = self.parked.iter().position(|parked| parked.subscriber == subscriber);
        place.map(|place| self.parked.remove(place)).is_some()
    }
}
