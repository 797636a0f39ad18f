//! [`Database`]: tables by name, and transactions over them.
//!
//! ```text
//!  root line   | magic | version | database | tables' roots | counters | scheme | .. | drawn | served |     of elders
//!                                                 │               └──► line of global atomics: timestamps, tables
//!                                                 │
//!  table 0     name ──► id | roots of its indexes | schema                 a table like any other
//! ```
//!
//! The definition of a table is a row of table 0, and so is in the log like any other. The roots in it are addresses,
//! which are worth nothing after a restart: recovery makes tables anew and writes the rows again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::ControlFlow;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use latchwork_coherence::LineLocks;
use latchwork_history::{Outcome, Record, Recorder};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{DatabaseId, Mode, NodeId, TableId};

use crate::elder::SERVED;
use crate::node::Worker;
use crate::places::Places;
use crate::purge::{Left, Purge};
use crate::schema::Value;
use crate::transaction::{Range, State, Transaction};
use crate::{Conflict, Node, Schema, Scheme, Table, Timestamp, TxnError};

/// The longest name of a table.
const NAME_MAX: u8 = crate::schema::NAME_MAX as u8;
const MAGIC: u64 = 0x4c57_5458_4e44_4231;
const VERSION: u64 = 3;
/// The counter of the timestamp of rows that were loaded.
const LOADED: u64 = 1;
/// Offsets in the line of global atomics.
const TIMESTAMPS: usize = 0;
const TABLES: usize = 8;

/// One worker's handle on a database. Clones are the same.
pub struct Database<M: LineLocks>(Rc<Inner<M>>);

struct Inner<M: LineLocks> {
    memory: M,
    node: Arc<Node>,
    worker: Arc<Worker>,
    root: GlobalAddr,
    id: DatabaseId,
    counters: GlobalAddr,
    definitions: Table<M>,
    tables: RefCell<BTreeMap<String, Table<M>>>,
    /// What transactions that have ended leave to the next.
    // Boxed, since they go into transactions, which move.
    #[expect(clippy::vec_box)]
    states: RefCell<Vec<Box<State<M>>>>,
    purges: RefCell<VecDeque<Purge<M>>>,
    /// Where it has found rows.
    places: RefCell<Places>,
    /// Timestamps that were drawn and not given out yet.
    block: RefCell<Block>,
    /// Transactions that were begun by [`Retry`](crate::Retry).
    begun: Cell<u32>,
    /// Until then this worker does not look for elders.
    looks_away: Cell<Option<Time>>,
    /// Timestamps to come are to be above it: that is what the last transactions were too late for.
    above: Cell<Timestamp>,
    /// Whether commits let others of this node go on before they are lasting.
    releases_early: bool,
    /// Who records its transactions, and as which worker's.
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

/// Timestamps that were drawn together.
#[derive(Default)]
struct Block {
    /// The generation in which they were. Held weakly: as long as it is, its place in memory is no other's.
    of: Option<Weak<()>>,
    left: std::ops::Range<u64>,
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

/// The schema of table 0.
fn definitions() -> Result<Rc<Schema>, TxnError> {
    let schema = Schema::builder("tables")
        .column("name", crate::schema::ColumnType::Text(NAME_MAX))
        .column("definition", crate::schema::ColumnType::Blob)
        .primary_key(["name"]);
    Ok(Rc::new(schema.build()?))
}

impl<M: LineLocks> Database<M> {
    /// Makes an empty database. Other workers open it by its [`root`](Database::root).
    ///
    /// # Errors
    /// When memory fails or is full, and when its lines are too small.
    pub async fn create(
        memory: M,
        node: Arc<Node>,
        id: DatabaseId,
    ) -> Result<Database<M>, TxnError> {
        let definitions = Table::create(memory.clone(), TableId(0), definitions()?).await?;
        let counters = memory.allocate().await?;
        // A line of global atomics is never written otherwise, and holds anything at first. The first table is 1.
        for (counter, first) in [(TIMESTAMPS, 0_u64), (TABLES, 1)] {
            let there = memory.fetch_add(counters, counter, 0).await?;
            memory.fetch_add(counters, counter, first.wrapping_sub(there)).await?;
        }
        let root = memory.allocate().await?;
        let Some(tables) = definitions.roots().next() else {
            return Err(TxnError::NoDatabase { root });
        };
        let mut words = [0; SERVED + 1];
        let scheme = node.settings().scheme.code();
        let known = [MAGIC, VERSION, id.0, tables.bits(), counters.bits(), scheme];
        words[..known.len()].copy_from_slice(&known);
        let write = |line: &mut latchwork_cache::WriteGuard<'_>| {
            for (at, word) in words.into_iter().enumerate() {
                line.words().set_word(at, word);
            }
            line.mark_dirty(0..8 * words.len());
        };
        memory.write(root, write).await?;
        Ok(Database::at(memory, node, root, id, counters, definitions))
    }

    /// Opens the database whose root is at `root`.
    ///
    /// # Errors
    /// [`TxnError::NoDatabase`]; [`TxnError::OtherScheme`] when those who made it use another concurrency control than
    /// `node`; when memory fails.
    pub async fn open(
        memory: M,
        node: Arc<Node>,
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
        let definitions = Table::open(memory.clone(), TableId(0), definitions()?, &roots).await?;
        let (id, counters) = (DatabaseId(id), GlobalAddr::from_bits(counters));
        let database = Database::at(memory, node, root, id, counters, definitions);
        // This node may be new to the database: its clock begins behind what was recovered or loaded, and behind the
        // floor of the checkpoint in place.
        let drawn = database.timestamps_drawn().await?;
        let drawn = Timestamp::new(drawn, NodeId(Timestamp::NODES_MAX - 1));
        database.node().clock().raise(drawn.ok_or(TxnError::ClockExhausted)?);
        Ok(database)
    }

    fn at(
        memory: M,
        node: Arc<Node>,
        root: GlobalAddr,
        id: DatabaseId,
        counters: GlobalAddr,
        definitions: Table<M>,
    ) -> Database<M> {
        let worker = node.add_worker();
        let places = RefCell::new(Places::new(node.settings().places));
        let syncs = node.log().is_some_and(|log| log.mode() == Mode::Sync);
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
            places,
            block,
            begun,
            looks_away,
            above,
            releases_early,
            recorder,
        }))
    }

    /// The address that it is known by.
    pub fn root(&self) -> GlobalAddr {
        self.0.root
    }

    /// Which database it is, as its log has it.
    pub fn id(&self) -> DatabaseId {
        self.0.id
    }

    /// The memory that it lives in.
    pub fn memory(&self) -> &M {
        &self.0.memory
    }

    /// What this worker shares with the others of its node.
    pub fn node(&self) -> &Arc<Node> {
        &self.0.node
    }

    /// How transactions are kept apart.
    #[inline]
    pub fn scheme(&self) -> Scheme {
        self.0.node.settings().scheme
    }

    /// Whether commits let others of this node go on before they are lasting:
    /// [`Settings::early_release`](crate::Settings::early_release), where that makes a difference.
    #[inline]
    pub fn releases_early(&self) -> bool {
        self.0.releases_early
    }

    /// Makes a table.
    ///
    /// # Errors
    /// [`TxnError::Exists`] when there is one of this name; a schema whose keys are too long for an index, or
    /// that is itself too long for a line; when memory fails or is full.
    pub async fn create_table(&self, schema: Schema) -> Result<Table<M>, TxnError> {
        schema.check_keys(self.definitions().tree(0).limits().key_max)?;
        let id = self.memory().fetch_add(self.0.counters, TABLES, 1).await?;
        let id = TableId(u32::try_from(id).map_err(|_| TxnError::TooManyTables)?);
        let schema = Rc::new(schema);
        let table = Table::create(self.memory().clone(), id, schema.clone()).await?;
        let name = schema.name().to_owned();
        let (key, row) = definition(&table)?;
        self.run(async |tx| tx.insert(self.definitions(), &key, &row).await).await?;
        self.0.tables.borrow_mut().insert(name, table.clone());
        Ok(table)
    }

    /// The table with this name.
    ///
    /// # Errors
    /// [`TxnError::NoTable`]; when memory fails.
    pub async fn table(&self, name: &str) -> Result<Table<M>, TxnError> {
        if let Some(table) = self.0.tables.borrow().get(name) {
            return Ok(table.clone());
        }
        let mut key = Vec::new();
        let definitions = self.definitions();
        definitions.schema().encode_key(&[name.into()], &mut key)?;
        let mut row = Vec::new();
        let found = self.run(async |tx| tx.get(definitions, &key, &mut row).await).await?;
        if !found {
            return Err(TxnError::NoTable { name: name.to_owned() });
        }
        let (id, roots, schema) = read_definition(definitions.schema(), &row)?;
        let table = Table::open(self.memory().clone(), id, Rc::new(schema), &roots).await?;
        self.0.tables.borrow_mut().insert(name.to_owned(), table.clone());
        Ok(table)
    }

    /// Adds a row to a table on which no transaction is at work yet, without a transaction and without the log: for
    /// loading much at once. With a log, write a checkpoint afterwards.
    ///
    /// # Errors
    /// [`TxnError::Exists`], also where a unique index has its key already: the table is of no use then;
    /// [`TxnError::RowTooLong`]; when memory fails or is full.
    pub async fn load(&self, table: &Table<M>, key: &[u8], row: &[u8]) -> Result<(), TxnError> {
        let node = self.node().clock().node();
        let cts = Timestamp::new(LOADED, node).ok_or(TxnError::NodeId { node: node.0 })?;
        if self.node().clock().now() < cts {
            self.raise_clocks(cts).await?;
        }
        table.load(key, row, cts).await
    }

    /// Begins a transaction. Under timestamp ordering it draws its timestamp.
    ///
    /// # Errors
    /// When memory fails; [`TxnError::ClockExhausted`].
    pub async fn begin(&self) -> Result<Transaction<M>, TxnError> {
        // First: whoever begins in a new generation draws what is later than all that was drawn before it.
        let generation = self.0.worker.begin();
        let ts = match self.scheme() {
            Scheme::TimestampOrdering => self.draw(&generation).await?,
            _ => Timestamp::ZERO,
        };
        Ok(Transaction::begin(self.clone(), ts, generation))
    }

    /// Begins a part of a transaction that has begun elsewhere: under timestamp ordering it has that one's
    /// [timestamp](Transaction::timestamp), else `ts` is of no account.
    ///
    /// # Errors
    /// [`Conflict::TooLate`] when a checkpoint has been begun in the meantime, which holds all up to a later timestamp and
    /// would not wait for this one.
    pub fn begin_at(&self, ts: Timestamp) -> Result<Transaction<M>, TxnError> {
        // First: a checkpoint waits for those that begin in the generation before its floor, and others see the floor.
        let generation = self.0.worker.begin();
        let ts = match self.scheme() {
            Scheme::TimestampOrdering if ts <= self.node().floor() => {
                return Err(Conflict::TooLate.into());
            }
            Scheme::TimestampOrdering => ts,
            _ => Timestamp::ZERO,
        };
        Ok(Transaction::begin(self.clone(), ts, generation))
    }

    /// Draws a timestamp from the counter of all nodes.
    async fn draw(&self, generation: &Arc<()>) -> Result<Timestamp, TxnError> {
        let next = {
            let mut block = self.0.block.borrow_mut();
            // Those of an earlier generation may be below a floor that was drawn since.
            if !block.of.as_ref().is_some_and(|of| ptr::eq(of.as_ptr(), Arc::as_ptr(generation))) {
                *block = Block::default();
            }
            block.left.next()
        };
        let above = self.0.above.get().counter();
        let next = next.filter(|next| *next > above);
        let counter = match next {
            Some(counter) => counter,
            None => {
                let most = self.node().settings().timestamp_block.max(1);
                let from = self.draw_counters(most, above).await?;
                let of = Some(Arc::downgrade(generation));
                *self.0.block.borrow_mut() = Block { of, left: from + 1..from + most };
                from
            }
        };
        let node = self.node().clock().node();
        Timestamp::new(counter, node).ok_or(TxnError::ClockExhausted)
    }

    /// Forgets the timestamps that were drawn and not given out: they may be below those of others.
    pub(crate) fn drop_block(&self) {
        *self.0.block.borrow_mut() = Block::default();
    }

    /// Draws so many counters above `above`; the first of them.
    async fn draw_counters(&self, most: u64, above: u64) -> Result<u64, TxnError> {
        let (memory, counters) = (self.memory(), self.0.counters);
        let drawn = memory.fetch_add(counters, TIMESTAMPS, most).await?;
        if drawn >= above {
            return Ok(drawn + 1);
        }
        // The counter itself goes there, so that whoever begins later is later.
        let behind = above - drawn;
        Ok(memory.fetch_add(counters, TIMESTAMPS, behind + most).await? + behind + 1)
    }

    /// Draws one above `ts`, for a transaction that has begun.
    pub(crate) async fn draw_later(&self, ts: Timestamp) -> Result<Timestamp, TxnError> {
        let counter = self.draw_counters(1, ts.counter()).await?;
        let node = self.node().clock().node();
        Timestamp::new(counter, node).ok_or(TxnError::ClockExhausted)
    }

    /// Has timestamps to come be above `ts`.
    pub(crate) fn draw_above(&self, ts: Timestamp) {
        self.0.above.set(self.0.above.get().max(ts));
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

    /// Counts a transaction, from 0.
    pub(crate) fn count_begin(&self) -> u32 {
        let begun = self.0.begun.get();
        self.0.begun.set(begun.wrapping_add(1));
        begun
    }

    /// A table that this worker has opened.
    pub(crate) fn known_table(&self, id: TableId) -> Option<Table<M>> {
        self.0.tables.borrow().values().find(|table| table.id() == id).cloned()
    }

    /// The names of all tables.
    ///
    /// # Errors
    /// When memory fails.
    pub async fn table_names(&self) -> Result<Vec<String>, TxnError> {
        let mut names = Vec::new();
        self.run(async |tx| {
            names.clear();
            tx.scan(self.definitions(), Range::all(), |key, _| {
                names.extend(self.name_in(key));
                ControlFlow::Continue(())
            })
            .await
        })
        .await?;
        Ok(names)
    }

    /// The name in a key of table 0.
    fn name_in(&self, key: &[u8]) -> Option<String> {
        let schema = self.definitions().schema();
        match schema.key(key).ok()?.get(schema.column("name").ok()?).ok()? {
            Value::Bytes(name) => Some(String::from_utf8_lossy(&name).into_owned()),
            _ => None,
        }
    }

    /// The highest timestamp that was drawn from the counter of all nodes.
    pub(crate) async fn timestamps_drawn(&self) -> Result<u64, TxnError> {
        Ok(self.memory().fetch_add(self.0.counters, TIMESTAMPS, 0).await?)
    }

    /// Sees to it that no table to come has a number up to `highest`.
    pub(crate) async fn reserve_tables(&self, highest: u32) -> Result<(), TxnError> {
        let (memory, counters) = (self.memory(), self.0.counters);
        let next = memory.fetch_add(counters, TABLES, 0).await?;
        if next <= highest.into() {
            memory.fetch_add(counters, TABLES, u64::from(highest) + 1 - next).await?;
        }
        Ok(())
    }

    /// Makes all timestamps to come later than `ts`: this node's, and those that order transactions.
    pub(crate) async fn raise_clocks(&self, ts: Timestamp) -> Result<(), TxnError> {
        self.node().clock().raise(ts);
        let (memory, counters) = (self.memory(), self.0.counters);
        let now = memory.fetch_add(counters, TIMESTAMPS, 0).await?;
        if now < ts.counter() {
            memory.fetch_add(counters, TIMESTAMPS, ts.counter() - now).await?;
        }
        Ok(())
    }

    /// Records what the transactions that begin from now on do, as those of `worker` of this node.
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

    pub(crate) fn end_record(&self, state: &mut State<M>, outcome: Outcome) {
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

    pub(crate) fn places(&self) -> &RefCell<Places> {
        &self.0.places
    }

    pub(crate) fn purges(&self) -> &RefCell<VecDeque<Purge<M>>> {
        &self.0.purges
    }
}

/// The row of table 0 for a table: its key, and what stands there.
pub(crate) fn definition<M: LineLocks>(table: &Table<M>) -> Result<(Vec<u8>, Vec<u8>), TxnError> {
    let mut blob = table.id().0.to_le_bytes().to_vec();
    let roots: Vec<_> = table.roots().collect();
    blob.push(roots.len() as u8);
    roots.iter().for_each(|root| blob.extend_from_slice(&root.bits().to_le_bytes()));
    blob.extend_from_slice(&table.schema().encode());
    let schema = definitions()?;
    let (mut key, mut row) = (Vec::new(), Vec::new());
    schema.encode_key(&[table.schema().name().into()], &mut key)?;
    schema.encode_row(&[blob.as_slice().into()], &mut row)?;
    Ok((key, row))
}

/// What a row of table 0 says.
pub(crate) fn read_definition(
    definitions: &Schema,
    row: &[u8],
) -> Result<(TableId, Vec<GlobalAddr>, Schema), TxnError> {
    let blob = definitions.row(row)?.bytes(definitions.column("definition")?)?;
    let cut = || TxnError::Definition;
    let (id, rest) = blob.split_first_chunk::<4>().ok_or_else(cut)?;
    let (&count, rest) = rest.split_first().ok_or_else(cut)?;
    let (roots, schema) = rest.split_at_checked(8 * usize::from(count)).ok_or_else(cut)?;
    let (roots, _) = roots.as_chunks::<8>();
    let roots = roots.iter().map(|root| GlobalAddr::from_bits(u64::from_le_bytes(*root)));
    let schema = Schema::decode(schema)?;
    let roots: Vec<_> = roots.collect();
    if roots.len() != schema.indexes().len() + 1 {
        return Err(cut());
    }
    Ok((TableId(u32::from_le_bytes(*id)), roots, schema))
}
