//! [`Table`]: one worker's handle on a table's rows and indexes.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

use latchwork_blink::{Insertion, Tree, TreeConfig};
use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{TableId, Timestamp};

use crate::page::{New, State};
use crate::{Heap, RowId, Schema, SeenRow, TxnError};

/// One worker's handle on a table: its schema, its rows, and its indexes. Each index is a B-link
/// tree from keys to row ids, and index 0 is the primary index. Clones share one handle.
///
/// - A row is in the heap before an index leads to it.
/// - A deleted row leaves a tombstone, to which the indexes lead. The tombstone is purged when no
///   transaction has locked its line: first the entries, then the tuple. The leaves keep the time
///   of the deletion.
/// - An entry may lead to nothing, for example after an operation that was dropped in the middle.
///   An entry may also lead to another row, because slots are reused. So each reader compares keys.
///   In the primary index the key of the entry must be the key in the tuple. In a secondary index
///   it must be the key of that row in that index. A transaction that adds the row takes such an
///   entry over.
pub struct Table<M: LineLocks>(Rc<Inner<M>>);

struct Inner<M: LineLocks> {
    schema: Rc<Schema>,
    heap: Heap<M>,
    trees: Vec<Tree<M>>,
}

impl<M: LineLocks> Clone for Table<M> {
    fn clone(&self) -> Self {
        Table(self.0.clone())
    }
}

impl<M: LineLocks> fmt::Debug for Table<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Table");
        out.field("id", &self.id()).field("name", &self.schema().name()).finish_non_exhaustive()
    }
}

fn config() -> TreeConfig {
    TreeConfig { stamped: true, ..TreeConfig::default() }
}

impl<M: LineLocks> Table<M> {
    /// Makes an empty table. Other workers open the table by its [`roots`](Table::roots).
    pub(crate) async fn create(
        memory: M,
        id: TableId,
        schema: Rc<Schema>,
    ) -> Result<Table<M>, TxnError> {
        let heap = Heap::new(memory.clone(), id, schema.rows_per_line())?;
        let mut trees = Vec::new();
        for _ in 0..=schema.indexes().len() {
            trees.push(Tree::create(memory.clone(), config()).await?);
        }
        strict_assert!(trees.len() == schema.indexes().len() + 1, "each index has a tree");
        Ok(Table(Rc::new(Inner { schema, heap, trees })))
    }

    /// Opens the table whose indexes have these roots.
    pub(crate) async fn open(
        memory: M,
        id: TableId,
        schema: Rc<Schema>,
        roots: &[GlobalAddr],
    ) -> Result<Table<M>, TxnError> {
        let heap = Heap::new(memory.clone(), id, schema.rows_per_line())?;
        let mut trees = Vec::new();
        for &root in roots {
            trees.push(Tree::open(memory.clone(), root, config()).await?);
        }
        Ok(Table(Rc::new(Inner { schema, heap, trees })))
    }

    /// Whether both handles are of the same table.
    #[inline]
    pub(crate) fn is(&self, other: &Table<M>) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.id() == other.id()
    }

    /// The number of the table, as in the log.
    pub fn id(&self) -> TableId {
        self.0.heap.table()
    }

    /// The columns and indexes of the table.
    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// The roots of the indexes, the primary index first.
    pub(crate) fn roots(&self) -> impl Iterator<Item = GlobalAddr> {
        self.0.trees.iter().map(Tree::root)
    }

    pub(crate) fn heap(&self) -> &Heap<M> {
        &self.0.heap
    }

    /// An index: 0 is the primary index, followed by the indexes of the schema.
    pub(crate) fn tree(&self, index: usize) -> &Tree<M> {
        strict_assert!(index <= self.secondaries(), "the table has no index {index}");
        &self.0.trees[index]
    }

    /// The number of secondary indexes.
    pub(crate) fn secondaries(&self) -> usize {
        self.0.trees.len() - 1
    }

    /// Whether index `index`, which is not 0, is unique.
    pub(crate) fn is_unique(&self, index: usize) -> bool {
        strict_assert!(index > 0, "the primary index is no secondary one");
        self.0.schema.indexes().get(index - 1).is_some_and(|index| index.is_unique())
    }

    /// Writes the key of a row in index `index`, which is not 0, into `to`, which is cleared first.
    pub(crate) fn index_key(
        &self,
        index: usize,
        key: &[u8],
        row: &[u8],
        to: &mut Vec<u8>,
    ) -> Result<(), TxnError> {
        to.clear();
        strict_assert!(
            index > 0 && index <= self.secondaries(),
            "the table has no secondary index {index}"
        );
        Ok(self.0.schema.index_key(index - 1, key, row, to)?)
    }

    /// Calls `visit` for each entry of the primary index. The arguments are the key, the state of
    /// the row at the time of the visit, and the value. The state is a row, a tombstone, a pending
    /// row, or nothing.
    pub(crate) async fn each<E: Into<TxnError>>(
        &self,
        mut visit: impl FnMut(&[u8], SeenRow, &[u8]) -> Result<(), E>,
    ) -> Result<(), TxnError> {
        const BATCH: usize = 256;
        let mut found: Vec<(Vec<u8>, RowId)> = Vec::with_capacity(BATCH);
        let (mut value, mut from) = (Vec::new(), None::<Vec<u8>>);
        loop {
            found.clear();
            let take = |key: &[u8], id: &[u8]| {
                found.push((key.to_vec(), name_in(id)));
                ControlFlow::Continue(())
            };
            let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            self.tree(0).scan_up(bound, BATCH, take).await?;
            strict_assert!(found.len() <= BATCH, "a batch is longer than its bound");
            for (key, id) in &found {
                let seen = self.heap().get(*id, key, &mut value).await?;
                visit(key, seen, &value).map_err(Into::into)?;
            }
            match found.pop() {
                Some((key, _)) if found.len() + 1 == BATCH => from = Some(key),
                _ => return Ok(()),
            }
        }
    }

    /// Adds a row to a table that no transaction uses yet.
    ///
    /// # Errors
    /// [`TxnError::Exists`], [`TxnError::RowTooLong`], [`TxnError::Schema`]; memory that fails or
    /// is full.
    pub(crate) async fn load(
        &self,
        key: &[u8],
        value: &[u8],
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        let mut placed = self.heap().place(New { state: State::Live, cts, key, value }).await?;
        let Some(id) = placed.id() else { return Ok(()) };
        let mut entry = Vec::new();
        for index in 0..=self.secondaries() {
            match index {
                0 => entry.extend_from_slice(key),
                _ => self.index_key(index, key, value, &mut entry)?,
            }
            let bits = id.bits().to_le_bytes();
            let tree = self.tree(index);
            let entered = tree.insert_stamped(&entry, &bits, |_| true, |_| (), |_| ()).await?;
            tree.memory().handle().coop().await;
            match entered {
                Insertion::New { .. } => {}
                _ => return Err(TxnError::Exists),
            }
        }
        placed.keep();
        Ok(())
    }
}

/// The row id in an index entry.
pub(crate) fn name_in(value: &[u8]) -> RowId {
    RowId::from_bits(value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}
