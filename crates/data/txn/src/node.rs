//! [`TransactionNode`]: the state that the workers of a compute node share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use latchwork_runtime::{Handle, Time};
use latchwork_strict::strict_assert;
use latchwork_wal::{Log, NodeId};

use crate::purge_piece::Left;
use crate::{NodeClock, Scheme, Timestamp, TransactionRules, TxnError};

/// The time between two checks whether transactions have ended.
const QUIESCE_PAUSE: Duration = Duration::from_micros(100);

/// The settings of transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransactionSettings {
    /// The concurrency control.
    pub scheme: Scheme,
    /// Timestamp ordering: the number of timestamps that a worker draws at once. A value above 1
    /// means fewer accesses to the global counter. The price: a transaction may be ordered before a
    /// transaction that committed before it began. A worker with old timestamps aborts more often.
    pub timestamp_block: u64,
    /// Timestamp ordering: the maximum distance, in timestamps, of a read timestamp ahead of its
    /// reader; 0: no read leases. A row that has not changed for longer gets a longer lease. With a
    /// lease not every reader has to raise the read timestamp. The price: a writer below the read
    /// timestamp is too late, even if no reader used the lease.
    pub read_lease: u64,
    /// Timestamp ordering: whether a transaction that comes too late takes a later timestamp, if
    /// everything that it has read is unchanged. Parts of a larger transaction never take a later
    /// timestamp.
    pub extend_timestamps: bool,
    /// Whether a commit that waits for its log lets other transactions of its node use its lines
    /// (early lock release). Other nodes still wait for the log, and so does each commit and each
    /// [`validate`](crate::Transaction::validate). The setting has no effect without a log that
    /// syncs, or under SEL, which releases lines after every access.
    pub early_release: bool,
    /// The maximum of each wait of a commit for its log. A commit waits for room in the backlog,
    /// and until its log record or its reads are durable.
    pub log_deadline: Duration,
    /// The first pause after a conflict is random, below twice this value. The bound doubles with
    /// each attempt.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// The time after its first conflict during which [`Retry`](crate::Retry) repeats a
    /// transaction.
    pub retry_for: Duration,
    /// The number of aborts after which a transaction is aged, so that other transactions wait for
    /// it; 0: never. The value must be the same on all nodes of a database.
    pub elder_after: u32,
    /// The maximum wait of other transactions for one aged transaction. A transaction that took
    /// longer may become aged again after twice as many attempts.
    pub elder_for: Duration,
    /// The number of rows in the location cache of a worker, which spares index lookups; 16 bytes
    /// each. Rounded up to a power of two; 0: no cache.
    pub places: usize,
    /// The rules that a checker can break.
    pub rules: TransactionRules,
}

impl Default for TransactionSettings {
    fn default() -> TransactionSettings {
        TransactionSettings {
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
            rules: TransactionRules::ALL,
        }
    }
}

/// The state that the workers of a compute node share for one database: a clock, a log, the
/// settings, and the health of transactions without a caller.
pub struct TransactionNode {
    clock: NodeClock,
    log: Option<Log>,
    settings: TransactionSettings,
    /// The present generation of each worker.
    workers: Mutex<Vec<Arc<Worker>>>,
    /// The floor of the last checkpoint that has begun.
    floor: AtomicU64,
    /// Earlier generations with transactions that may not have ended.
    earlier: Mutex<Vec<Arc<()>>>,
    health: Mutex<Health>,
    /// The purge pieces of ended workers, and their number.
    left: Mutex<Vec<Left>>,
    left_count: AtomicUsize,
}

/// The transactions of a node that continue without a caller.
///
/// If the future of a commit is dropped, or a step of a commit fails, a task finishes or undoes the
/// commit. The task may conflict with other transactions, and then tries again. Such a retry is not
/// a fault.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Health {
    /// Transactions that are or may be in the log and could not be finished. Their rows stay locked
    /// until a restart, and until then there is no checkpoint.
    pub left_locked: usize,
    /// Transactions that could not be undone. Added rows and entries of them may stay in the way of
    /// other transactions until a restart.
    pub given_up: usize,
    /// Transactions whose end is held up now: memory or the log fails, or other transactions have
    /// been in the way for 10 seconds.
    pub held_up: usize,
    /// The first error since the node was last in good health.
    pub cause: Option<String>,
    /// The number of failed attempts to end a transaction after which the task tried again.
    pub retries: usize,
    /// The error of the last failed attempt.
    pub last: Option<String>,
}

impl Health {
    /// Whether no transaction stays locked, is given up or is held up. Otherwise an operator should
    /// look at the node.
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

/// Counts the end of a transaction as held up while this value lives.
pub(crate) struct HeldUp(Arc<TransactionNode>);

impl Drop for HeldUp {
    fn drop(&mut self) {
        let mut health = self.0.health.lock();
        strict_assert!(health.held_up > 0, "an obstacle passes twice");
        health.held_up -= 1;
        // The cause of an obstacle that has passed does not explain a later one.
        if health.is_good() {
            health.cause = None;
        }
    }
}

/// The generation of a worker, which each of its transactions holds from begin to end.
#[derive(Default, Debug)]
pub(crate) struct Worker {
    generation: Mutex<Arc<()>>,
}

impl Worker {
    pub(crate) fn begin(&self) -> Arc<()> {
        self.generation.lock().clone()
    }
}

impl TransactionNode {
    /// A node, with or without a log.
    pub fn new(
        node: NodeId,
        log: Option<Log>,
        settings: TransactionSettings,
    ) -> Arc<TransactionNode> {
        let clock = NodeClock::new(node);
        let (workers, floor, earlier, health, left, left_count) = Default::default();
        Arc::new(TransactionNode {
            clock,
            log,
            settings,
            workers,
            floor,
            earlier,
            health,
            left,
            left_count,
        })
    }

    /// The source of the node's commit timestamps.
    pub fn clock(&self) -> &NodeClock {
        &self.clock
    }

    /// The log of the node.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// The settings of the node's transactions.
    pub fn settings(&self) -> &TransactionSettings {
        &self.settings
    }

    /// Sets the floor of a checkpoint that begins now. The checkpoint sets the floor before it
    /// begins new generations.
    // Relaxed: `turn_generation` and `Worker::begin` take the same lock. So a transaction of the
    // new generation sees the floor.
    pub(crate) fn set_floor(&self, floor: Timestamp) {
        self.floor.fetch_max(floor.0, Ordering::Relaxed);
        strict_assert!(self.floor.load(Ordering::Relaxed) >= floor.0, "the floor falls");
    }

    /// The floor of the last checkpoint that has begun.
    pub(crate) fn floor(&self) -> Timestamp {
        Timestamp(self.floor.load(Ordering::Relaxed))
    }

    pub(crate) fn add_worker(&self) -> Arc<Worker> {
        let worker = Arc::<Worker>::default();
        self.workers.lock().push(worker.clone());
        worker
    }

    /// The state of the transactions that continue without a caller.
    pub fn health(&self) -> Health {
        self.health.lock().clone()
    }

    /// Notes a failed attempt of a task that tries again.
    pub(crate) fn note_retry(&self, error: &TxnError) {
        let mut health = self.health.lock();
        health.retries += 1;
        // A warning appears at each power of two of the count, so a long failure does not fill a
        // log file.
        if health.retries.is_power_of_two() {
            let (node, count) = (self.clock.node().0, health.retries);
            tracing::warn!(node, count, "the end of a transaction is tried again: {error}");
        }
        health.last = Some(error.to_string());
    }

    /// Counts the end of a transaction as held up until the result is dropped.
    pub(crate) fn hold_up(self: &Arc<Self>, error: &TxnError) -> HeldUp {
        let mut health = self.health.lock();
        health.held_up += 1;
        health.cause.get_or_insert_with(|| error.to_string());
        let node = self.clock.node().0;
        tracing::warn!(node, "the end of a transaction is held up: {error}");
        HeldUp(self.clone())
    }

    /// Notes a transaction that could not be undone.
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

    /// Takes over the purge pieces of a worker that ends.
    pub(crate) fn leave(&self, purges: impl Iterator<Item = Left>) {
        let mut left = self.left.lock();
        left.extend(purges);
        self.left_count.store(left.len(), Ordering::Relaxed);
        strict_assert!(
            self.left_count.load(Ordering::Relaxed) == left.len(),
            "the count of left purges is wrong"
        );
    }

    /// Whether there are purge pieces of ended workers.
    // Relaxed: a worker that reads an old count reads it again at its next commit.
    pub(crate) fn has_left(&self) -> bool {
        self.left_count.load(Ordering::Relaxed) > 0
    }

    /// Takes up to `most` purge pieces of ended workers for which `may` is true.
    pub(crate) fn take_left(&self, most: usize, may: impl Fn(&Left) -> bool) -> Vec<Left> {
        let mut left = self.left.lock();
        let taken: Vec<Left> = left.extract_if(.., |left| may(left)).take(most).collect();
        self.left_count.store(left.len(), Ordering::Relaxed);
        strict_assert!(taken.len() <= most, "more purges are taken than were asked for");
        taken
    }

    /// Begins a new generation for each worker.
    fn turn_generation(&self) {
        let workers = self.workers.lock();
        let turn = |worker: &Arc<Worker>| std::mem::take(&mut *worker.generation.lock());
        self.earlier.lock().extend(workers.iter().map(turn));
    }

    /// The number of transactions in progress of the first earlier generation that has any; `None`
    /// if all have ended.
    fn under_way(&self) -> Option<usize> {
        let mut earlier = self.earlier.lock();
        // No new transaction can get a reference to an earlier generation. So when this list holds
        // the only reference, all transactions of the generation have ended.
        earlier.retain(|one| Arc::strong_count(one) > 1);
        earlier.first().map(|one| Arc::strong_count(one) - 1)
    }

    /// Waits until all transactions of this node that began before this call have ended.
    ///
    /// # Errors
    /// [`TxnError::Busy`] when some have not ended by `deadline`; [`TxnError::LeftLocked`] when
    /// some stay locked until a restart.
    pub async fn quiesce(&self, handle: &Handle, deadline: Time) -> Result<(), TxnError> {
        // The wait includes the transactions of earlier calls that returned `Busy`.
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

impl fmt::Debug for TransactionNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("clock", &self.clock).field("log", &self.log).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_counts_as_long_as_anything_is_held_up() {
        let node = TransactionNode::new(NodeId(0), None, TransactionSettings::default());
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
        let node = TransactionNode::new(NodeId(0), None, TransactionSettings::default());
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
