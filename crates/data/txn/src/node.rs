//! [`Node`]: what the workers of a compute node share of a database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use latchwork_runtime::{Handle, Time};
use latchwork_wal::{Log, NodeId};

use crate::purge::Left;
use crate::{NodeClock, Scheme, Timestamp, TxnError};

/// How often it is looked whether transactions have ended.
const QUIESCE_PAUSE: Duration = Duration::from_micros(100);

/// How transactions work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The concurrency control.
    pub scheme: Scheme,
    /// Timestamp ordering: how many timestamps a worker draws at once. More than one spares the
    /// global counter, and gives up that a transaction is later than all that committed before it
    /// began: workers that are behind abort more, and reads may be of a past that others have left
    /// already.
    pub timestamp_block: u64,
    /// Timestamp ordering: how far, in timestamps, the stamps that reads leave are ahead of the
    /// reader at most, where what was read has not changed for long, so that not each reader has to
    /// write its own; 0: not at all. Writers with a timestamp below a stamp are too late, perhaps
    /// for readers who never come.
    pub read_lease: u64,
    /// Timestamp ordering: whether a transaction that comes too late takes a later timestamp, if
    /// what it has read is as it was. Not one of several parts.
    pub extend_timestamps: bool,
    /// Whether a commit that waits for its log lets others of its node go on with what it has
    /// written; other nodes, and all who are told of anything, wait for the log all the same. Of no
    /// account without a log that syncs, and where lines are given back with every access (SEL).
    pub early_release: bool,
    /// How long a commit waits for its log.
    pub log_deadline: Duration,
    /// The first pause of a transaction that has met others is shorter than twice this; the bound
    /// doubles with each attempt.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// How long a transaction is tried again.
    pub retry_for: Duration,
    /// After so many aborts a transaction is an elder, for which others make way; 0: none ever is.
    /// The same on all nodes of a database.
    pub elder_after: u32,
    /// How long others make way for one elder before they go on all the same. It may be one again
    /// after twice as many attempts.
    pub elder_for: Duration,
    /// Rows whose place a worker remembers, so that it need not ask the index for them again; 16
    /// bytes each. Rounded up to a power of two; 0: none.
    pub places: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            scheme: Scheme::default(),
            timestamp_block: 1,
            read_lease: 4096,
            extend_timestamps: true,
            early_release: false,
            log_deadline: Duration::from_secs(10),
            pause: Duration::from_micros(2),
            pause_max: Duration::from_millis(1),
            retry_for: Duration::from_secs(10),
            elder_after: 16,
            elder_for: Duration::from_millis(200),
            places: 1 << 16,
        }
    }
}

/// What the workers of a compute node share of a database: one clock, one log, one way to keep
/// transactions apart.
pub struct Node {
    clock: NodeClock,
    log: Option<Log>,
    settings: Settings,
    /// Of each worker, what its transactions hold while they are under way.
    workers: Mutex<Vec<Arc<Worker>>>,
    /// The floor of the last checkpoint that was begun.
    floor: AtomicU64,
    /// Generations before the present ones that may not have ended.
    earlier: Mutex<Vec<Arc<()>>>,
    health: Mutex<Health>,
    /// What workers that have ended had not taken away yet, and how much that is.
    left: Mutex<Vec<Left>>,
    left_count: AtomicUsize,
}

/// What became of the transactions of a node that no caller waits for any more.
///
/// A commit whose future was dropped is carried through, or taken back, by a task. The task meets
/// other transactions like any other, and tries again: that is no fault.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Health {
    /// Transactions that are in the log, or may be, and could not be carried through: their rows
    /// stay locked, and there is no checkpoint, until a restart.
    pub left_locked: usize,
    /// Transactions that could not be taken back: what they had added stays in the way of others
    /// until a restart.
    pub given_up: usize,
    /// Transactions whose end is held up at the moment: memory or the log fails, or other
    /// transactions have been in the way for 10 seconds.
    pub held_up: usize,
    /// Why the first of all these did not end.
    pub cause: Option<String>,
    /// Attempts to end a transaction that failed, and after which it was tried again.
    pub retries: usize,
    /// Why the last of them failed.
    pub last: Option<String>,
}

impl Health {
    /// Whether there is nothing that an operator must look at.
    pub fn is_good(&self) -> bool {
        (self.left_locked, self.given_up, self.held_up) == (0, 0, 0)
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Health { left_locked, given_up, held_up, cause, retries, last } = self;
        let mut told = Vec::new();
        if *left_locked > 0 {
            told.push(format!("{left_locked} transactions stay locked until a restart"));
        }
        if *given_up > 0 {
            told.push(format!(
                "{given_up} could not be taken back and are in the way until a restart"
            ));
        }
        if *held_up > 0 {
            told.push(format!("{held_up} cannot end at the moment"));
        }
        if *retries > 0 {
            told.push(format!("{retries} attempts to end one failed and were made again"));
        }
        if told.is_empty() {
            return f.write_str("nothing went wrong");
        }
        f.write_str(&told.join(", "))?;
        if !self.is_good() {
            cause.iter().try_for_each(|cause| write!(f, "; the first error: {cause}"))?;
        }
        last.iter().try_for_each(|last| write!(f, "; the last error: {last}"))
    }
}

/// The end of a transaction that is held up, for as long as this value lives.
pub(crate) struct HeldUp(Arc<Node>);

impl Drop for HeldUp {
    fn drop(&mut self) {
        let mut health = self.0.health.lock();
        health.held_up -= 1;
        // What has passed by explains nothing that comes later.
        if health.is_good() {
            health.cause = None;
        }
    }
}

/// What a worker's transactions hold from their begin to their end: each the generation that it
/// began in.
#[derive(Default, Debug)]
pub(crate) struct Worker {
    generation: Mutex<Arc<()>>,
}

impl Worker {
    pub(crate) fn begin(&self) -> Arc<()> {
        self.generation.lock().clone()
    }
}

impl Node {
    /// A node without a log, or with one.
    pub fn new(node: NodeId, log: Option<Log>, settings: Settings) -> Arc<Node> {
        let clock = NodeClock::new(node);
        let (workers, floor, earlier, health, left, left_count) = Default::default();
        Arc::new(Node { clock, log, settings, workers, floor, earlier, health, left, left_count })
    }

    /// Where its commit timestamps come from.
    pub fn clock(&self) -> &NodeClock {
        &self.clock
    }

    /// Its log.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// How its transactions work.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A checkpoint that begins now holds everything up to this timestamp. Before generations turn.
    // Relaxed: turning a generation and beginning in one take the same lock, so whoever begins in
    // the new one sees it.
    pub(crate) fn set_floor(&self, floor: Timestamp) {
        self.floor.fetch_max(floor.0, Ordering::Relaxed);
    }

    /// The floor of the last checkpoint that was begun.
    pub(crate) fn floor(&self) -> Timestamp {
        Timestamp(self.floor.load(Ordering::Relaxed))
    }

    pub(crate) fn add_worker(&self) -> Arc<Worker> {
        let worker = Arc::<Worker>::default();
        self.workers.lock().push(worker.clone());
        worker
    }

    /// What became of the transactions that no caller waits for.
    pub fn health(&self) -> Health {
        self.health.lock().clone()
    }

    /// Notes an error of a task that nobody waits for, and that tries again.
    pub(crate) fn note_retry(&self, error: &TxnError) {
        let mut health = self.health.lock();
        health.retries += 1;
        // One that goes on for long does not fill a log.
        if health.retries.is_power_of_two() {
            let (node, count) = (self.clock.node().0, health.retries);
            tracing::warn!(node, count, "the end of a transaction is tried again: {error}");
        }
        health.last = Some(error.to_string());
    }

    /// Notes that the end of a transaction is held up, until the value is dropped.
    pub(crate) fn hold_up(self: &Arc<Self>, error: &TxnError) -> HeldUp {
        let mut health = self.health.lock();
        health.held_up += 1;
        health.cause.get_or_insert_with(|| error.to_string());
        let node = self.clock.node().0;
        tracing::warn!(node, "the end of a transaction is held up: {error}");
        HeldUp(self.clone())
    }

    /// Notes a transaction that is not taken back.
    pub(crate) fn note_given_up(&self, why: &str) {
        let mut health = self.health.lock();
        health.given_up += 1;
        health.cause.get_or_insert_with(|| why.to_owned());
        let node = self.clock.node().0;
        tracing::error!(
            node,
            "a transaction is not taken back, and is in the way until a restart: {why}"
        );
    }

    /// Notes a transaction that stays locked.
    pub(crate) fn note_left_locked(&self, why: &str) {
        let mut health = self.health.lock();
        health.left_locked += 1;
        health.cause.get_or_insert_with(|| why.to_owned());
        let node = self.clock.node().0;
        tracing::error!(node, "a transaction stays locked until a restart decides it: {why}");
    }

    /// A worker ends, and leaves what it has not taken away yet to the others.
    pub(crate) fn leave(&self, purges: impl Iterator<Item = Left>) {
        let mut left = self.left.lock();
        left.extend(purges);
        self.left_count.store(left.len(), Ordering::Relaxed);
    }

    /// Whether workers that have ended have left anything.
    // Relaxed: whoever sees an old count looks again at its next commit.
    pub(crate) fn has_left(&self) -> bool {
        self.left_count.load(Ordering::Relaxed) > 0
    }

    /// Takes up to `most` of what was left, of that for which `may` is true.
    pub(crate) fn take_left(&self, most: usize, may: impl Fn(&Left) -> bool) -> Vec<Left> {
        let mut left = self.left.lock();
        let taken = left.extract_if(.., |left| may(left)).take(most).collect();
        self.left_count.store(left.len(), Ordering::Relaxed);
        taken
    }

    /// Begins a new generation of transactions.
    fn turn_generation(&self) {
        let workers = self.workers.lock();
        let turn = |worker: &Arc<Worker>| std::mem::take(&mut *worker.generation.lock());
        self.earlier.lock().extend(workers.iter().map(turn));
    }

    /// How many transactions of a generation before the present ones are under way.
    fn under_way(&self) -> Option<usize> {
        let mut earlier = self.earlier.lock();
        // Nobody else can get hold of a generation that was turned, so once only this has it they
        // have ended.
        earlier.retain(|one| Arc::strong_count(one) > 1);
        earlier.first().map(|one| Arc::strong_count(one) - 1)
    }

    /// Waits until all transactions of this node that have begun before this call have ended.
    ///
    /// # Errors
    /// [`TxnError::Busy`] when some have not by `deadline`; [`TxnError::LeftLocked`] when some
    /// never will.
    pub async fn quiesce(&self, handle: &Handle, deadline: Time) -> Result<(), TxnError> {
        // Also those of which an earlier call has given up to wait.
        self.turn_generation();
        loop {
            let busy = self.under_way();
            let health = self.health();
            if health.left_locked > 0 {
                let cause = health.cause.unwrap_or_default().into();
                return Err(TxnError::LeftLocked { transactions: health.left_locked, cause });
            }
            let Some(busy) = busy else { return Ok(()) };
            if handle.now() >= deadline {
                return Err(TxnError::Busy { transactions: busy });
            }
            handle.sleep(QUIESCE_PAUSE).await;
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("clock", &self.clock).field("log", &self.log).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_counts_as_long_as_anything_is_held_up() {
        let node = Node::new(NodeId(0), None, Settings::default());
        let (first, second) = (TxnError::Exists, TxnError::NotFound);
        let one = node.hold_up(&first);
        let two = node.hold_up(&second);
        node.note_retry(&second);
        assert_eq!(node.health().cause, Some(first.to_string()));
        drop(one);
        let health = node.health();
        assert_eq!((health.held_up, health.is_good()), (1, false));
        assert!(health.to_string().contains("; the first error: "), "{health}");
        drop(two);
        let health = node.health();
        assert!(health.is_good() && health.cause.is_none());
        assert!(!health.to_string().contains("first error"), "{health}");
        let three = node.hold_up(&second);
        assert_eq!(
            node.health().cause,
            Some(second.to_string()),
            "what has passed explains nothing"
        );
        drop(three);
    }

    #[test]
    fn health_names_what_waits_for_a_restart_and_why() {
        let node = Node::new(NodeId(0), None, Settings::default());
        assert_eq!(node.health().to_string(), "nothing went wrong");
        node.note_left_locked("its log is gone");
        node.note_given_up("its memory is gone");
        let health = node.health();
        assert!(!health.is_good());
        assert_eq!(
            health.to_string(),
            "1 transactions stay locked until a restart, \
             1 could not be taken back and are in the way until a restart; \
             the first error: its log is gone"
        );
        drop(node.hold_up(&TxnError::Exists));
        assert_eq!(node.health().cause.as_deref(), Some("its log is gone"), "it is still so");
    }
}
