//! [`Database`]: tables by name, and transactions over them.
//!
//! ```text
//!  root     | magic | version | database | table 0 root  | counters | scheme | .. | drawn | served |
//!                                              │              │         queue of aged transactions
//!                                              │              └─► atomics: timestamps, tables
//!                                              │
//!  table 0  name ──► id | roots of its indexes | schema        a table like any other
//! ```
//!
//! The counters are in a line of global atomics. The definition of a table is a row of table 0, so
//! the log has the definition like any other row. The roots in a definition are addresses, which
//! are invalid after a restart. So recovery makes the tables anew and writes the rows of table 0
//! again.

mod block;
mod definition;
mod definitions;
mod timestamps;
pub(crate) mod words;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_coherence::LineLocks;
use latchwork_record::{Record, Recorder, TransactionOutcome};
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{CommitMode, DatabaseId, NodeId, TableId};

use self::block::Block;
pub(crate) use self::definition::{definition, read_definition};
use self::words::{DRAWN, MAGIC, OWNERS, PLACES, TABLES, TIMESTAMPS, VERSION};
use crate::location_cache::Places;
use crate::node::Worker;
use crate::purge_piece::{Left, Purge};
use crate::transaction::State;
use crate::{Scheme, Table, Timestamp, TransactionNode, TxnError};

/// The counter in the timestamp of loaded rows.
const LOADED: u64 = 1;
/// One worker's handle on a database. Clones share one handle.
pub struct Database<M: LineLocks>(Rc<Inner<M>>);

struct Inner<M: LineLocks> {
    memory: M,
    node: Arc<TransactionNode>,
    worker: Arc<Worker>,
    root: GlobalAddr,
    id: DatabaseId,
    counters: GlobalAddr,
    definitions: Table<M>,
    tables: RefCell<BTreeMap<String, Table<M>>>,
    /// The states of ended transactions, for the next ones.
    // Boxed, because a transaction takes a state out and moves, and a box is cheap to move.
    #[expect(clippy::vec_box)]
    states: RefCell<Vec<Box<State<M>>>>,
    purges: RefCell<VecDeque<Purge<M>>>,
    /// The location cache.
    locations: RefCell<Places>,
    /// Timestamps that were drawn but not used yet.
    block: RefCell<Block>,
    /// The number of transactions that [`Retry`](crate::Retry) began.
    begun: Cell<u32>,
    /// Until this time the worker ignores the queue of aged transactions.
    looks_away: Cell<Option<Time>>,
    /// The next timestamps must be above this one, for which the last transactions came too late.
    above: Cell<Timestamp>,
    /// Whether commits release their locks to this node before they are durable.
    releases_early: bool,
    /// The recorder of this worker's transactions, and the worker's number in the history.
    recorder: RefCell<(Recorder, u16)>,
}

impl<M: LineLocks> Drop for Inner<M> {
    fn drop(&mut self) {
        let purges = self.purges.get_mut();
        if !purges.is_empty() {
            self.node.leave(purges.drain(..).map(Left::from));
        }
    }
}

impl<M: LineLocks> Clone for Database<M> {
    fn clone(&self) -> Self {
        Database(self.0.clone())
    }
}

impl<M: LineLocks> fmt::Debug for Database<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Database");
        out.field("id", &self.0.id).field("root", &self.0.root).finish_non_exhaustive()
    }
}

impl<M: LineLocks> Database<M> {
    /// Makes an empty database. Other workers open it by its [`root`](Database::root).
    ///
    /// # Errors
    /// Memory that fails or is full, and lines that are too small.
    pub async fn create(
        memory: M,
        node: Arc<TransactionNode>,
        id: DatabaseId,
    ) -> Result<Database<M>, TxnError> {
        let definitions = Table::create(memory.clone(), TableId(0), definition::schema()?).await?;
        let counters = memory.allocate().await?;
        memory.leave_to_atomics(counters).await?;
        // Only atomic verbs write a line of global atomics, and the line has arbitrary values at
        // first. So each counter gets its first value by an addition. The first table has number 1.
        for (counter, first) in [(TIMESTAMPS, 0_u64), (TABLES, 1)] {
            let there = memory.fetch_add(counters, counter, 0).await?;
            memory.fetch_add(counters, counter, first.wrapping_sub(there)).await?;
        }
        let root = memory.allocate().await?;
        let Some(tables) = definitions.roots().next() else {
            return Err(TxnError::NoDatabase { root });
        };
        let mut words = [0; OWNERS + PLACES];
        let scheme = node.settings().scheme.code();
        let known = [MAGIC, VERSION, id.0, tables.bits(), counters.bits(), scheme];
        words[..known.len()].copy_from_slice(&known);
        strict_assert!(known.len() <= DRAWN, "the fields of the root overlap the places of elders");
        let write = |line: &mut latchwork_cache::WriteGuard<'_>| {
            for (at, word) in words.into_iter().enumerate() {
                line.words().set_word(at, word);
            }
            line.mark_dirty(0..8 * words.len());
        };
        memory.write(root, write).await?;
        memory.persist(root).await?;
        Ok(Database::at(memory, node, root, id, counters, definitions))
    }

    /// Opens the database whose root is at `root`.
    ///
    /// # Errors
    /// [`TxnError::NoDatabase`]; [`TxnError::OtherScheme`] when the database was made with another
    /// scheme than that of `node`; memory failures.
    pub async fn open(
        memory: M,
        node: Arc<TransactionNode>,
        root: GlobalAddr,
    ) -> Result<Database<M>, TxnError> {
        let words: [u64; 6] =
            memory.read(root, |line| [0, 1, 2, 3, 4, 5].map(|at| line.word(at))).await?;
        let [magic, version, id, tables, counters, scheme] = words;
        let scheme = Scheme::ALL.into_iter().find(|known| known.code() == scheme);
        let (MAGIC, VERSION, Some(scheme)) = (magic, version, scheme) else {
            return Err(TxnError::NoDatabase { root });
        };
        if scheme != node.settings().scheme {
            let node = node.settings().scheme;
            return Err(TxnError::OtherScheme { database: scheme, node });
        }
        let roots = [GlobalAddr::from_bits(tables)];
        let definitions =
            Table::open(memory.clone(), TableId(0), definition::schema()?, &roots).await?;
        let (id, counters) = (DatabaseId(id), GlobalAddr::from_bits(counters));
        let database = Database::at(memory, node, root, id, counters, definitions);
        // This node may be new to the database. So the clock of the node must be above all
        // recovered or loaded rows, and above the floor of the latest checkpoint. The counter of
        // all nodes is above them.
        let drawn = database.timestamps_drawn().await?;
        let drawn = Timestamp::new(drawn, NodeId(Timestamp::NODES_MAX - 1));
        database.node().clock().raise(drawn.ok_or(TxnError::ClockExhausted)?);
        Ok(database)
    }

    fn at(
        memory: M,
        node: Arc<TransactionNode>,
        root: GlobalAddr,
        id: DatabaseId,
        counters: GlobalAddr,
        definitions: Table<M>,
    ) -> Database<M> {
        let worker = node.add_worker();
        let places = RefCell::new(Places::new(node.settings().places));
        let syncs = node.log().is_some_and(|log| log.mode() == CommitMode::Sync);
        let releases_early = node.settings().early_release && syncs && memory.keeps_lines();
        let (tables, states, purges, block, begun, looks_away, above, recorder) =
            Default::default();
        Database(Rc::new(Inner {
            memory,
            node,
            worker,
            root,
            id,
            counters,
            definitions,
            tables,
            states,
            purges,
            locations: places,
            block,
            begun,
            looks_away,
            above,
            releases_early,
            recorder,
        }))
    }

    /// The address by which other workers open the database.
    pub fn root(&self) -> GlobalAddr {
        self.0.root
    }

    /// The line of global atomics. Atomics bypass the caches, so a copy of this line in a cache may
    /// be out of date.
    pub fn counters(&self) -> GlobalAddr {
        self.0.counters
    }

    /// The identity of the database, as in its log.
    pub fn id(&self) -> DatabaseId {
        self.0.id
    }

    /// The memory in which the database lies.
    pub fn memory(&self) -> &M {
        &self.0.memory
    }

    /// The state that this worker shares with the other workers of its node.
    pub fn node(&self) -> &Arc<TransactionNode> {
        &self.0.node
    }

    /// The concurrency control of the database.
    #[inline]
    pub fn scheme(&self) -> Scheme {
        self.0.node.settings().scheme
    }

    /// Whether commits release their locks to this node before they are durable:
    /// [`TransactionSettings::early_release`](crate::TransactionSettings::early_release), where
    /// that setting has an effect.
    #[inline]
    pub(crate) fn releases_early(&self) -> bool {
        self.0.releases_early
    }

    /// Adds a row without a transaction and without a log record, to load many rows at once. No
    /// transaction may use the table yet. The row becomes durable with the next checkpoint.
    ///
    /// # Errors
    /// [`TxnError::Exists`], also for a key that exists in a unique index, after which the table is
    /// unusable; [`TxnError::RowTooLong`]; memory that fails or is full.
    pub async fn load(&self, table: &Table<M>, key: &[u8], row: &[u8]) -> Result<(), TxnError> {
        let node = self.node().clock().node();
        let cts = Timestamp::new(LOADED, node).ok_or(TxnError::NodeId { node: node.0 })?;
        if self.node().clock().now() < cts {
            self.raise_clocks(cts).await?;
        }
        table.load(key, row, cts).await
    }

    /// The present generation of this worker, for a transaction that begins. A checkpoint that
    /// begins later waits until the result is dropped.
    pub(crate) fn begin_generation(&self) -> Arc<()> {
        self.0.worker.begin()
    }

    pub(crate) fn look_away_until(&self, time: Time) {
        self.0.looks_away.set(Some(time));
    }

    pub(crate) fn looks_away(&self) -> bool {
        let until = self.0.looks_away.get();
        until.is_some_and(|until| {
            let does = self.memory().handle().now() < until;
            if !does {
                self.0.looks_away.set(None);
            }
            does
        })
    }

    /// Counts one begin of a transaction, and returns the number of those before it.
    pub(crate) fn count_begin(&self) -> u32 {
        let begun = self.0.begun.get();
        self.0.begun.set(begun.wrapping_add(1));
        begun
    }

    /// Records the transactions that begin from now on, as those of `worker` of this node.
    pub fn record(&self, recorder: Recorder, worker: u16) {
        *self.0.recorder.borrow_mut() = (recorder, worker);
    }

    pub(crate) fn begin_record(&self) -> Record {
        let (recorder, worker) = &*self.0.recorder.borrow();
        match recorder.is_on() {
            true => {
                let now = self.memory().handle().instant();
                recorder.begin(self.node().clock().node().0.into(), *worker, now.as_nanos())
            }
            false => Record::off(),
        }
    }

    pub(crate) fn end_record(&self, state: &mut State<M>, outcome: TransactionOutcome) {
        let record = state.take_record();
        if record.is_on() {
            let now = self.memory().handle().instant().as_nanos();
            self.0.recorder.borrow().0.finish(record, outcome, now);
        }
    }

    pub(crate) fn definitions(&self) -> &Table<M> {
        &self.0.definitions
    }

    pub(crate) fn take_state(&self) -> Box<State<M>> {
        self.0.states.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut state: Box<State<M>>) {
        state.clear();
        self.0.states.borrow_mut().push(state);
    }

    pub(crate) fn locations(&self) -> &RefCell<Places> {
        &self.0.locations
    }

    pub(crate) fn purges(&self) -> &RefCell<VecDeque<Purge<M>>> {
        &self.0.purges
    }
}
