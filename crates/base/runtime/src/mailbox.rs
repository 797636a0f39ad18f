//! The mailbox: how a waker, on whatever thread, says which task is ready.

use std::task::Wake;

use crate::Notifier;
use crate::sync::{Arc, AtomicBool, Ordering, SegQueue};

/// A task of one executor. Slots are reused, serial numbers are not, so that a late wake of a task
/// that is gone finds nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId {
    pub(crate) slot: usize,
    pub(crate) serial: u64,
}

impl TaskId {
    /// The future that `block_on` was given, which has no slot.
    pub(crate) const ROOT: TaskId = TaskId { slot: usize::MAX, serial: 0 };
}

/// The ids of woken tasks. It needs no bound of its own: a waker puts its task in at most once
/// until the executor takes it out.
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

/// What a task's wakers share. It outlives the task for as long as somebody holds a waker.
pub(crate) struct TaskHeader {
    id: TaskId,
    queued: AtomicBool,
    mailbox: Arc<Mailbox>,
}

impl TaskHeader {
    pub(crate) fn new(id: TaskId, mailbox: &Arc<Mailbox>) -> Arc<Self> {
        Arc::new(TaskHeader { id, queued: AtomicBool::new(false), mailbox: Arc::clone(mailbox) })
    }

    /// To be called just before the task is polled: a wake from now on queues it again.
    ///
    /// A swap and not a store: a waker that found `queued` already set relies on this poll to see
    /// what it wrote before, and only reading its write makes that so.
    pub(crate) fn begin_poll(&self) {
        self.queued.swap(false, Ordering::Acquire);
    }
}

impl Wake for TaskHeader {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release, for the poll that comes; a waker learns nothing here.
        if !self.queued.swap(true, Ordering::Release) {
            self.mailbox.woken.push(self.id);
            self.mailbox.notifier.notify();
        }
    }
}
