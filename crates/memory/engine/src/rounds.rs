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
//! Workers share a number of the present step. A worker that meets a new number in a sweep, and has
//! no older message in flight, notes that number in its mark. A parked worker without a message in
//! flight does nothing, so its mark counts as the latest.

use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Inbox as _};

use crate::gone::bit;
use crate::inner::Inner;
use crate::lines::Node;
use crate::messages::Sent;
use crate::protocol::{CoherenceProtocol, LineSite};

/// The mark of a worker that has left, or that is parked without a message in flight.
const OUT: u64 = u64::MAX;

/// What a worker does for a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    LetGo,
    Drain,
    /// Close these dead nodes: one bit each.
    Close(u64),
}

/// The most calls in which one sweep empties the inbox.
const DRAIN_MAX: usize = 1000;

/// The rounds of a node.
#[derive(Default)]
pub(crate) struct Rounds {
    /// The number of the present step. Grows with each step, and once more within each.
    number: AtomicU64,
    /// The dead nodes that this node has let go of and has not closed: one bit each.
    open: AtomicU64,
    /// The lines that a close has left with something to resolve, until they have resolved it.
    unclear: Mutex<Vec<GlobalAddr>>,
    /// The task of the present step, until a worker has done it.
    task: Mutex<Option<Task>>,
    marks: Mutex<Vec<Arc<Mark>>>,
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

    fn begin(&self, task: Task) {
        let before = self.task.lock().replace(task);
        assert!(before.is_none_or(|before| before == task), "two steps: {before:?}, {task:?}");
        self.advance();
    }

    fn advance(&self) {
        // Release: as in `number`.
        self.number.fetch_add(1, Ordering::Release);
    }

    fn is_marked(&self) -> bool {
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

/// The steps, for the code that recovers a dead node. One step runs at a time.
impl Node {
    /// Whether the node takes the steps: its protocol recovers lines from dead nodes.
    pub fn survives(&self) -> bool {
        self.lines.survives()
    }

    /// Begins to let go of `dead`, which is fenced here and was [missed](crate::NodeCore::miss).
    pub fn let_go(&self, dead: ComputeNodeId) {
        if self.core.rounds.open.fetch_or(bit(dead), Ordering::Relaxed) & bit(dead) == 0 {
            self.begin(Task::LetGo);
        }
    }

    /// Begins to handle all messages that have arrived.
    pub fn drain(&self) {
        self.begin(Task::Drain);
    }

    /// Begins to close `dead`: the line machines resolve what they wait for. Does nothing when
    /// `dead` is closed: what the lines wait for since then has an answer.
    pub fn close(&self, dead: ComputeNodeId) {
        if self.core.rounds.open.load(Ordering::Relaxed) & bit(dead) != 0 {
            self.begin(Task::Close(bit(dead)));
        }
    }

    fn begin(&self, task: Task) {
        self.core.rounds.begin(task);
        self.core.wake_handler();
    }

    /// Whether a worker has done the task of the present step, and all messages from before have
    /// arrived.
    pub fn is_step_over(&self) -> bool {
        self.core.rounds.task.lock().is_none() && self.core.rounds.is_marked()
    }

    /// Makes the step last until the messages of this moment have arrived, too.
    pub fn prolong_step(&self) {
        self.core.rounds.advance();
        self.core.wake_handler();
    }

    /// Whether a forward to a living node is in flight whose receiver is not settled.
    pub fn gives(&self) -> bool {
        self.lines.gives()
    }

    /// Whether all lines have resolved what they waited for at the [close](Node::close) of `dead`:
    /// none depends on it any more, and no operation in flight names it. A line that depends on
    /// another node later does not count.
    pub fn has_claimed(&self, dead: ComputeNodeId) -> bool {
        let mut unclear = self.core.rounds.unclear.lock();
        unclear.retain(|line| !self.lines.is_clear_of(*line, dead));
        unclear.is_empty()
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// Takes part in a step of a round. Called on every sweep, after the messages.
    #[inline]
    pub(crate) fn see_to_rounds(&self) -> bool {
        let number = self.node_core.rounds.number();
        number != self.core.marked.get() && self.take_part(number)
    }

    #[cold]
    fn take_part(&self, number: u64) -> bool {
        let rounds = &self.node_core.rounds;
        // The lock is held until the task is done: only then the step has no task.
        let mut task = rounds.task.lock();
        let is_done = match *task {
            None => false,
            Some(Task::LetGo) => {
                self.let_all_go();
                true
            }
            Some(Task::Drain) => {
                let receive = || self.inbox.receive(&mut |message| self.received(&message));
                (0..DRAIN_MAX).any(|_| !receive())
            }
            Some(Task::Close(dead)) => {
                let mut unclear = rounds.unclear.lock();
                self.with_all(|site| {
                    self.node.protocol.lost(site);
                    unclear.push(site.addr);
                });
                drop(unclear);
                // The node asks again when no other round is open.
                rounds.open.fetch_and(!dead, Ordering::Relaxed);
                true
            }
        };
        if is_done {
            *task = None;
            // Workers may have marked the number already, before the task was done.
            rounds.advance();
        }
        drop(task);
        let is_old = |sent: &Sent| sent.round < number;
        let sends = self.core.letters.borrow().iter().any(|(_, sent)| is_old(sent));
        if !sends && !self.node.protocol.has_older(&self.in_flight, number) {
            self.core.marked.set(number);
            self.core.mark.set(number);
        }
        is_done
    }

    fn let_all_go(&self) {
        let gone = &self.node_core.gone;
        self.with_all(|site| {
            let probes = site.local.probes.len();
            site.local.probes.retain(|probe| !gone.contains(probe.sent.to));
            if site.local.probes.len() < probes {
                self.node.protocol.probed(site);
            }
            self.node.protocol.let_go(site);
        });
    }

    /// Takes a step of each line with a record.
    fn with_all(&self, mut step: impl FnMut(&mut LineSite<'_, P>)) {
        for shard in self.node.records.shards() {
            let mut records = shard.lock();
            let mut lines: Vec<GlobalAddr> = records.keys().copied().collect();
            lines.sort_unstable();
            for addr in lines {
                if let Some(record) = records.get_mut(&addr) {
                    step(&mut self.site(addr, record));
                }
                self.finish(&mut records, addr);
            }
        }
    }
}
