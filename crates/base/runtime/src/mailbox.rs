//! The mailbox: the queue into which wakers, on any thread, put the ids of ready tasks.

use std::task::Wake;

use latchwork_strict::strict_assert;

use crate::Notifier;
use crate::sync::{Arc, AtomicBool, Ordering, SegQueue};

/// The id of a task of one executor. A slot is reused by later tasks, a serial number is not. So a
/// late wake of an ended task finds no task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId {
    pub(crate) slot: usize,
    pub(crate) serial: u64,
}

impl TaskId {
    /// The future of `block_on`, which has no slot.
    pub(crate) const ROOT: TaskId = TaskId { slot: usize::MAX, serial: 0 };
}

/// The ids of woken tasks. The queue needs no bound: the wakers of a task together insert its id at
/// most once between two polls of the task.
pub(crate) struct Mailbox {
    woken: SegQueue<TaskId>,
    notifier: Notifier,
}

impl Mailbox {
    pub(crate) fn new(notifier: Notifier) -> Arc<Self> {
        Arc::new(Mailbox { woken: SegQueue::new(), notifier })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.woken.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.woken.len()
    }

    pub(crate) fn take(&self) -> Option<TaskId> {
        self.woken.pop()
    }
}

/// The state that all wakers of a task share. The state outlives the task while a waker exists.
pub(crate) struct TaskHeader {
    id: TaskId,
    queued: AtomicBool,
    mailbox: Arc<Mailbox>,
}

impl TaskHeader {
    pub(crate) fn new(id: TaskId, mailbox: &Arc<Mailbox>) -> Arc<Self> {
        strict_assert!(id == TaskId::ROOT || id.serial > 0, "serial 0 is that of the root");
        strict_assert!(
            (id.slot == usize::MAX) == (id == TaskId::ROOT),
            "only the root has no slot"
        );
        Arc::new(TaskHeader { id, queued: AtomicBool::new(false), mailbox: Arc::clone(mailbox) })
    }

    /// Called just before the task is polled, so that a later wake queues the task again.
    ///
    /// This is a swap and not a store. A waker that found `queued` already set relies on this poll
    /// to see the waker's earlier writes. Only a read of the waker's own write to `queued`
    /// guarantees this, and a store reads nothing.
    pub(crate) fn begin_poll(&self) {
        self.queued.swap(false, Ordering::Acquire);
    }
}

impl Wake for TaskHeader {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release, so that the next poll sees the waker's earlier writes. The waker itself reads
        // nothing that needs an acquire.
        if !self.queued.swap(true, Ordering::Release) {
            self.mailbox.woken.push(self.id);
            self.mailbox.notifier.notify();
        }
    }
}
