//! [`Table`]: rows by key, each change of one row alone.

use std::ops::{Bound, ControlFlow};

use latchwork_blink::{Tree, TreeConfig, TreeError};
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{TableId, Timestamp};

use crate::{Heap, Seen, TupleId, TxnError};

/// How often an operation begins anew because its row was taken away and added again meanwhile.
const ROUNDS_MAX: u32 = 1_000_000;

/// One worker's handle on a table: its rows and its primary index, a tree from keys to names of tuples.
///
/// Operations are atomic for one row and know nothing of transactions: what may be read and written, when,
/// and at which timestamp is for a concurrency control to decide. What they do see to is that index and
/// rows fit together, whoever else is at work and wherever an operation is dropped:
///
/// - A row is in the heap before the index leads to it.
/// - A row that is deleted leaves a tombstone, which the index leads to until the floor has passed it:
///   then it is [purged](Table::purge), first the tuple, then the entry, then the slot's number, so an
///   entry may lead to nothing but never to another row. Whoever adds the row in between takes the
///   entry over.
#[derive(Debug)]
pub struct Table<M: CoherentMemory> {
    heap: Heap<M>,
    primary: Tree<M>,
}

impl<M: CoherentMemory> Clone for Table<M> {
    fn clone(&self) -> Self {
        Table { heap: self.heap.clone(), primary: self.primary.clone() }
    }
}

impl<M: CoherentMemory> Table<M> {
    /// Makes an empty table. Other nodes open it by its [`root`](Table::root).
    ///
    /// # Errors
    /// When memory fails or is full, and when its lines are too small.
    pub async fn create(memory: M, table: TableId) -> Result<Table<M>, TxnError> {
        let heap = Heap::new(memory.clone(), table)?;
        let primary = Tree::create(memory, TreeConfig::default()).await?;
        Ok(Table { heap, primary })
    }

    /// Opens the table whose primary index has its root at `root`.
    ///
    /// # Errors
    /// When there is no tree's root, and when memory fails.
    pub async fn open(memory: M, table: TableId, root: GlobalAddr) -> Result<Table<M>, TxnError> {
        let heap = Heap::new(memory.clone(), table)?;
        let primary = Tree::open(memory, root, TreeConfig::default()).await?;
        Ok(Table { heap, primary })
    }

    /// The root of its primary index.
    pub fn root(&self) -> GlobalAddr {
        self.primary.root()
    }

    /// Its rows.
    pub fn heap(&self) -> &Heap<M> {
        &self.heap
    }

    /// Its primary index, from keys to the bits of names, little-endian.
    pub fn primary(&self) -> &Tree<M> {
        &self.primary
    }

    /// What the index leads to for a key, if anything: a row, a tombstone, or nothing any more.
    ///
    /// # Errors
    /// When the key is empty or too long, and when memory fails.
    pub async fn find(&self, key: &[u8]) -> Result<Option<TupleId>, TxnError> {
        let found = self.primary.get_with(key, |value| value.u64(0)).await?;
        Ok(found.map(TupleId::from_bits))
    }

    /// Reads a row. Its value is in `value` afterwards, if it is there.
    ///
    /// # Errors
    /// As [`find`](Table::find); [`TxnError::Corrupt`], [`TxnError::Starved`].
    pub async fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Seen, TxnError> {
        value.clear();
        let Some(id) = self.find(key).await? else { return Ok(Seen::Absent) };
        self.follow(id, key, async |id| self.heap.get(id, key, value).await).await
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`TxnError::Exists`], [`TxnError::Stale`], [`TxnError::RowTooLong`]; when memory fails or is full.
    pub async fn insert(
        &self,
        key: &[u8],
        value: &[u8],
        cts: Timestamp,
    ) -> Result<TupleId, TxnError> {
        let mut placed = None;
        for _ in 0..ROUNDS_MAX {
            let known = self.find(key).await?;
            if let Some(id) = known {
                match self.heap.revive(id, key, value, cts).await? {
                    Seen::Live(there) if there == cts => return Ok(id),
                    Seen::Live(_) => return Err(TxnError::Exists),
                    // The entry leads to nothing: it is taken over.
                    Seen::Absent => {}
                    Seen::Deleted(there) => return Err(TxnError::Stale { there, given: cts }),
                }
            }
            let new = match placed.take() {
                Some(new) => new,
                None => self.heap.insert(key, value, cts).await?,
            };
            let Some(id) = new.id() else { continue };
            let entered = match known {
                None => match self.primary.insert(key, &id.bits().to_le_bytes()).await {
                    Ok(()) => true,
                    Err(TreeError::Exists) => false,
                    Err(error) => return Err(error.into()),
                },
                Some(old) => self.replace(key, old, id).await?,
            };
            if entered {
                new.keep();
                return Ok(id);
            }
            placed = Some(new);
        }
        Err(TxnError::Starved { line: self.root(), rounds: ROUNDS_MAX })
    }

    /// Replaces the value of a row.
    ///
    /// # Errors
    /// [`TxnError::NotFound`]; else as [`insert`](Table::insert).
    pub async fn update(&self, key: &[u8], value: &[u8], cts: Timestamp) -> Result<(), TxnError> {
        let id = self.find(key).await?.ok_or(TxnError::NotFound)?;
        let seen = self.follow(id, key, async |id| self.heap.update(id, key, value, cts).await);
        there(seen.await?)
    }

    /// Overwrites a part of a row's value.
    ///
    /// # Errors
    /// [`TxnError::OutsideValue`]; else as [`update`](Table::update).
    pub async fn update_part(
        &self,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        let id = self.find(key).await?.ok_or(TxnError::NotFound)?;
        let update = async |id| self.heap.update_part(id, key, offset, bytes, cts).await;
        there(self.follow(id, key, update).await?)
    }

    /// Deletes a row. It leaves a tombstone.
    ///
    /// # Errors
    /// As [`update`](Table::update).
    pub async fn delete(&self, key: &[u8], cts: Timestamp) -> Result<(), TxnError> {
        let id = self.find(key).await?.ok_or(TxnError::NotFound)?;
        match self.follow(id, key, async |id| self.heap.bury(id, key, cts).await).await? {
            Seen::Deleted(at) if at == cts => Ok(()),
            _ => Err(TxnError::NotFound),
        }
    }

    /// Takes a tombstone away that was written at `floor` or before. Returns whether it did.
    ///
    /// If the future is dropped half way, or memory fails, a slot of 4 bytes or an entry of the index stays
    /// that leads to nothing; the entry goes when the row is added again.
    ///
    /// # Errors
    /// When memory fails.
    pub async fn purge(&self, key: &[u8], floor: Timestamp) -> Result<bool, TxnError> {
        let Some(id) = self.find(key).await? else { return Ok(false) };
        if !self.heap.reserve(id, key, floor).await? {
            return Ok(false);
        }
        self.primary.remove_if(key, &id.bits().to_le_bytes()).await?;
        self.heap.release(id).await?;
        Ok(true)
    }

    /// Shows rows in the order of their keys from `from` on, tombstones not, until `visit` has had enough:
    /// each as it was at some time during the scan. Returns how many it showed.
    ///
    /// # Errors
    /// As [`get`](Table::get).
    pub async fn scan(
        &self,
        from: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8], Timestamp) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        const BATCH: usize = 64;
        let (mut value, mut shown) = (Vec::new(), 0);
        let mut from = from.map(<[u8]>::to_vec);
        loop {
            let mut found: Vec<(Vec<u8>, u64)> = Vec::with_capacity(BATCH);
            let take = |key: &[u8], id: &[u8]| {
                let bits = id.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                found.push((key.to_vec(), bits));
                ControlFlow::Continue(())
            };
            self.primary.scan_up(from.as_ref().map(Vec::as_slice), BATCH, take).await?;
            let last = found.len() < BATCH;
            for (key, id) in &found {
                let id = TupleId::from_bits(*id);
                let seen =
                    self.follow(id, key, async |id| self.heap.get(id, key, &mut value).await);
                if let Seen::Live(cts) = seen.await? {
                    shown += 1;
                    if visit(key, &value, cts).is_break() {
                        return Ok(shown);
                    }
                }
            }
            match found.pop() {
                Some((key, _)) if !last => from = Bound::Excluded(key),
                _ => return Ok(shown),
            }
        }
    }

    /// Applies `step` to the tuple `id` of row `key`; where there is none of this row, to the one that the
    /// index leads to now, unless it is the same: then the row is absent.
    async fn follow(
        &self,
        mut id: TupleId,
        key: &[u8],
        mut step: impl AsyncFnMut(TupleId) -> Result<Seen, TxnError>,
    ) -> Result<Seen, TxnError> {
        for _ in 0..ROUNDS_MAX {
            match step(id).await? {
                Seen::Absent => {}
                seen => return Ok(seen),
            }
            match self.find(key).await? {
                Some(now) if now != id => id = now,
                _ => return Ok(Seen::Absent),
            }
        }
        Err(TxnError::Starved { line: self.root(), rounds: ROUNDS_MAX })
    }

    /// Makes the entry of a key lead to `new`, if it leads to `old`.
    async fn replace(&self, key: &[u8], old: TupleId, new: TupleId) -> Result<bool, TxnError> {
        let replaced = self.primary.modify(key, |value| {
            let same = value.u64(0) == old.bits();
            if same {
                value.set_u64(0, new.bits());
            }
            same
        });
        match replaced.await {
            Err(TreeError::NotFound) => Ok(false),
            other => Ok(other?),
        }
    }
}

fn there(seen: Seen) -> Result<(), TxnError> {
    match seen {
        Seen::Live(_) => Ok(()),
        Seen::Deleted(_) | Seen::Absent => Err(TxnError::NotFound),
    }
}
