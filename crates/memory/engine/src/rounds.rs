//! The rounds by which a node lets go of dead nodes, so that their lines can be recovered.
//!
//! Each living node takes the same steps for a dead node. Between two steps all living nodes report
//! that they have taken the first one, outside of this crate.
//!
//! ```text
//!   let go ──► all ──► drain ──► all ──► close ──► all lines are clear: claimed
//!   └────────── quiet ────────────────┘
//! ```
//!
//! - *Let go*: each line answers its queued requests. From then on the node is quiet: it sends no
//!   request and queues none.
//! - *Drain*: the node handles all messages that have arrived.
//! - *Close*: no request of this node is left at any living node, so each line resolves what it
//!   waits for.
//!
//! A step is over when all messages that the node sent before the end of the step have arrived, and
//! no forward is in flight. All operations from before are complete as well. Why the next step may
//! rely on that:
//!
//! 1. The fabric completes a message when the message is in the receiver's inbox. So all messages
//!    that a node sent before its report are in the inboxes when all have reported.
//! 2. A drain takes all of them out of the inbox of this node.
//! 3. A worker handles a message in the sweep in which it takes the message. The step is over when
//!    each worker has begun a later sweep. So all of them are handled.
//!
//! Workers share a number of the present step. A worker that meets a new number in a sweep, and
//! has no older message in flight, notes that number in its mark. A parked worker with nothing
//! in flight does nothing, so its mark counts as the latest.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_verbs::GlobalAddr;

/// The mark of a worker that is parked with nothing in flight, or has not begun.
pub(crate) const OUT: u64 = u64::MAX;

/// What a worker does for a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    LetGo,
    Drain,
    /// Close these dead nodes: one bit each.
    Close(u64),
}

/// The rounds of a node.
#[derive(Default)]
pub(crate) struct Rounds {
    /// The number of the present step. Grows with each step, and once more within each.
    number: AtomicU64,
    /// The dead nodes that this node has let go of and has not closed: one bit each.
    pub(crate) open: AtomicU64,
    /// The lines that a close has left with something to resolve, until they have resolved it.
    pub(crate) unclear: Mutex<Vec<GlobalAddr>>,
    /// The tasks until a worker has done them. There are several when an attempt at a step has
    /// ended at its deadline, and the attempt at another step has begun.
    pub(crate) tasks: Mutex<VecDeque<Task>>,
    marks: Mutex<Vec<Arc<Mark>>>,
    /// The dead nodes that this node may take out of latch words: one bit each. Written under the
    /// lock of `mending`.
    mendable: AtomicU64,
    /// The lines whose latch words are being mended.
    mending: Mutex<BTreeSet<GlobalAddr>>,
}

/// The latest step whose number a worker has met, with all its earlier messages complete.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Mark(AtomicU64);

impl Rounds {
    /// Whether this node sends no requests and queues none.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        // Relaxed: a step of a line under the lock of its shard sees the bit before the line has
        // let go, or in the same hold of the lock.
        self.open.load(Ordering::Relaxed) != 0
    }

    /// The number for a message that is sent now.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        // Acquire: a worker that meets a number sees the task that came with it.
        self.number.load(Ordering::Acquire)
    }

    /// The mark of a worker that starts.
    pub(crate) fn new_mark(&self) -> Arc<Mark> {
        let mark = Arc::new(Mark(AtomicU64::new(OUT)));
        self.marks.lock().push(mark.clone());
        mark
    }

    pub(crate) fn set_mendable(&self, change: impl FnOnce(u64) -> u64) {
        let _mending = self.mending.lock();
        let bits = change(self.mendable());
        self.mendable.store(bits, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn mendable(&self) -> u64 {
        // Relaxed: a worker that begins to mend looks again, under the lock.
        self.mendable.load(Ordering::Relaxed)
    }

    /// Notes that the latch word of a line is being mended. Returns false if the dead node may not
    /// be taken out of words any more, or another worker mends this one.
    pub(crate) fn begin_mend(&self, line: GlobalAddr, dead: u64) -> bool {
        let mut mending = self.mending.lock();
        self.mendable() & dead != 0 && mending.insert(line)
    }

    pub(crate) fn end_mend(&self, line: GlobalAddr) {
        self.mending.lock().remove(&line);
    }

    pub(crate) fn is_mending(&self) -> bool {
        !self.mending.lock().is_empty()
    }

    pub(crate) fn begin(&self, task: Task) {
        let mut tasks = self.tasks.lock();
        if !tasks.contains(&task) {
            tasks.push_back(task);
        }
        drop(tasks);
        self.advance();
    }

    pub(crate) fn advance(&self) {
        // Release: as in `number`.
        self.number.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn is_marked(&self) -> bool {
        let number = self.number();
        // Acquire: what a worker did before its mark is seen by the caller.
        let mut marks = self.marks.lock();
        marks.retain(|mark| Arc::strong_count(mark) > 1);
        marks.iter().all(|mark| mark.0.load(Ordering::Acquire) >= number)
    }
}

impl Mark {
    pub(crate) fn set_out(&self) {
        self.0.store(OUT, Ordering::Release);
    }

    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Bug: a panic. Mechanism: an attempt at a step ended at its deadline, because no worker had
    /// done the task; then the attempt at the step of another dead node began. Fix: both wait.
    #[test]
    fn a_task_that_no_worker_has_done_waits_beside_the_next() {
        let rounds = Rounds::default();
        for task in [Task::LetGo, Task::Close(1), Task::LetGo, Task::Close(2)] {
            rounds.begin(task);
        }
        assert_eq!(rounds.number(), 4);
        assert_eq!(*rounds.tasks.lock(), [Task::LetGo, Task::Close(1), Task::Close(2)]);
    }
}
