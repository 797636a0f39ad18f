//! [`LocalLocks`]: the locks of a compute node's tasks among each other (Sherman 4.3).

use std::collections::{HashMap, VecDeque};
use std::task::{Context, Poll, Waker};

use latchwork_runtime::sync::{Arc, Mutex};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

/// The queues of a compute node. A lock that a task has or waits for has an entry.
#[derive(Default)]
pub(crate) struct LocalLocks(Mutex<HashMap<GlobalAddr, Queue>>);

#[derive(Default)]
struct Queue {
    /// Hand-overs since a task of this node took the word at the memory node.
    handed: u32,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Default)]
struct Waiter(Mutex<Wait>);

#[derive(Default)]
enum Wait {
    #[default]
    New,
    Waits(Waker),
    Granted(Grant),
    Gone,
}

/// What a task gets with a local lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grant {
    /// The local lock: the word at the memory node must be taken.
    Alone,
    /// Also the word at the memory node, which has this value.
    WithWord(u64),
}

/// A place in a queue.
pub(crate) struct Place(Arc<Waiter>);

impl Place {
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Grant> {
        let mut wait = self.0.0.lock();
        match &*wait {
            Wait::Granted(grant) => Poll::Ready(*grant),
            _ => {
                *wait = Wait::Waits(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Leaves the queue. Returns what was granted in the meantime.
    pub(crate) fn leave(&self) -> Option<Grant> {
        match std::mem::replace(&mut *self.0.0.lock(), Wait::Gone) {
            Wait::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

impl LocalLocks {
    /// Takes a free lock, or a place behind all that wait for it.
    pub(crate) fn take(&self, lock: GlobalAddr) -> Option<Place> {
        let mut queues = self.0.lock();
        if let Some(queue) = queues.get_mut(&lock) {
            let waiter = Arc::new(Waiter::default());
            queue.waiting.push_back(waiter.clone());
            return Some(Place(waiter));
        }
        queues.insert(lock, Queue::default());
        None
    }

    /// Whether the holder should keep the word at the memory node, to hand it over.
    pub(crate) fn wants(&self, lock: GlobalAddr, most: u32) -> bool {
        let queues = self.0.lock();
        queues.get(&lock).is_some_and(|queue| queue.handed < most && !queue.waiting.is_empty())
    }

    /// Passes the lock to the first task in the queue, with the word at the memory node if the
    /// holder still has it. Returns `false` if there is no task; then the holder still has the
    /// lock, if it had the word, and has released it otherwise.
    pub(crate) fn pass(&self, lock: GlobalAddr, word: Option<u64>) -> bool {
        let mut queues = self.0.lock();
        let Some(queue) = queues.get_mut(&lock) else {
            strict_assert!(false, "lock {lock} is passed on by a task that does not have it");
            return false;
        };
        while let Some(waiter) = queue.waiting.pop_front() {
            let mut wait = waiter.0.lock();
            if matches!(*wait, Wait::Gone) {
                continue;
            }
            queue.handed = if word.is_some() { queue.handed + 1 } else { 0 };
            let grant = word.map_or(Grant::Alone, Grant::WithWord);
            if let Wait::Waits(waker) = std::mem::replace(&mut *wait, Wait::Granted(grant)) {
                waker.wake();
            }
            return true;
        }
        if word.is_none() {
            queues.remove(&lock);
        }
        false
    }

    /// The number of locks that tasks have.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
