//! Taking away what is left of rows: tombstones, and entries of indexes that lead to a row by an
//! old key.
//!
//! Each piece is taken away under an exclusive lock of the row's line, so nobody who locks what it
//! reads depends on it. Who has read it without a lock may, and finds out: the tombstone is gone,
//! and the leaf's structure is another. The leaf takes over when the row was deleted, and the read
//! stamp of its page, for those who come later (see [`Stamp`](latchwork_blink::Stamp)). What is
//! locked at the moment is tried again later.

use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, LockOutcome, Mode, Need};
use latchwork_wal::TableId;

use crate::heap::{Patience, Reading, Seen};
use crate::{Database, Table, Timestamp, TupleId, TxnError};

/// How many pieces a commit tries to take away, at most. It leaves one behind, or fewer, by itself
/// as a rule.
const AT_ONCE: usize = 16;
/// How many pieces may wait before a commit looks at more than [`AT_ONCE`].
const WAITING: usize = 1024;

/// Something that is to be taken away.
pub(crate) struct Purge<M: LineLocks> {
    pub(crate) table: Table<M>,
    pub(crate) id: TupleId,
    pub(crate) key: Vec<u8>,
    pub(crate) what: What,
    /// Of indexes, by number: keys that lead there.
    pub(crate) entries: Vec<(u8, Vec<u8>)>,
}

/// A piece that a worker had when it ended, for others of its node.
pub(crate) struct Left {
    table: TableId,
    id: TupleId,
    key: Vec<u8>,
    what: What,
    entries: Vec<(u8, Vec<u8>)>,
}

impl<M: LineLocks> From<Purge<M>> for Left {
    fn from(purge: Purge<M>) -> Left {
        let Purge { table, id, key, what, entries } = purge;
        Left { table: table.id(), id, key, what, entries }
    }
}

/// What is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A row that was deleted at this time, and its entries.
    Row(Timestamp),
    /// Entries of a row that has other keys since this time.
    Entries(Timestamp),
}

impl<M: LineLocks> Database<M> {
    pub(crate) fn queue_purge(&self, purge: Purge<M>) {
        self.purges().borrow_mut().push_back(purge);
    }

    /// Takes away some of what waits for it. What is locked, or fails, goes back into the queue.
    pub(crate) async fn purge_some(&self) {
        if self.node().has_left() {
            self.take_left();
        }
        let waiting = self.purges().borrow().len();
        let most = if waiting > WAITING { waiting } else { waiting.min(AT_ONCE) };
        for _ in 0..most {
            let Some(purge) = self.purges().borrow_mut().pop_front() else { return };
            // Dropped half way, the rest is tried again.
            let mut kept = Kept { database: self, purge: Some(purge) };
            let Some(purge) = &kept.purge else { return };
            if let Ok(true) = self.purge(purge).await {
                kept.purge = None;
            }
        }
    }

    /// Takes over what workers of this node had when they ended, of tables that this one knows,
    /// too.
    fn take_left(&self) {
        for left in self.node().take_left(AT_ONCE, |left| self.known_table(left.table).is_some()) {
            let Left { table, id, key, what, entries } = left;
            if let Some(table) = self.known_table(table) {
                self.queue_purge(Purge { table, id, key, what, entries });
            }
        }
    }

    /// Whether there was no lock in the way.
    async fn purge(&self, purge: &Purge<M>) -> Result<bool, TxnError> {
        let Purge { table, id, key, what, entries } = purge;
        let heap = table.heap();
        let need = Need { addr: heap.line_of(*id), mode: Mode::Exclusive };
        let outcome = match self.memory().try_lock(need) {
            Ok(outcome) => outcome,
            Err(need) => self.memory().lock(need).await?,
        };
        let _lock = match outcome {
            LockOutcome::Got(lock) => lock,
            LockOutcome::Locked => return Ok(false),
        };
        // What goes is gone for all nodes, and what says so may be taken back by a crash. Nobody
        // begins to detain the line while it is locked.
        if self.releases_early() && self.memory().is_detained(need.addr, &Hint::default()) {
            return Ok(false);
        }
        let bits = id.bits().to_le_bytes();
        let step = || heap.tombstone_step(*id, key);
        let tombstone = heap.drive(Patience::NoWait, step).await?;
        if let (What::Row(cts), Some((at, read))) = (*what, tombstone)
            && at == cts
        {
            for (index, entry) in entries {
                let tree = table.tree(usize::from(*index));
                tree.remove_seen(entry, &bits, read.0, cts.0).await?;
            }
            table.tree(0).remove_seen(key, &bits, read.0, cts.0).await?;
            heap.erase(*id, key, false, Patience::NoWait).await?;
            return Ok(true);
        }
        // The row is there, or there again, or another one has come to its place: what leads here
        // by other keys than those of whichever is here now goes. Nobody comes while the line is
        // locked.
        let (mut there, mut row, mut now) = (Vec::new(), Vec::new(), Vec::new());
        let step = || heap.key_step(*id, &Hint::default(), &mut there);
        let taken = heap.drive(Patience::NoWait, step).await?;
        let key = if taken { &there } else { key };
        let (mut at, hint) = <(Reading, Hint)>::default();
        let step = || heap.get_step(&mut at, *id, &hint, key, &mut row);
        let seen = heap.drive(Patience::NoWait, step).await?;
        if seen == Seen::Pending {
            // Just added: what leads here may be the new row's by now.
            return Ok(false);
        }
        for (index, entry) in entries {
            let leads_here = matches!(seen, Seen::Live(_))
                && table.index_key(usize::from(*index), key, &row, &mut now).is_ok()
                && now == *entry;
            if !leads_here {
                // Earlier readers have to notice. If the row is gone by now, that was later.
                let (What::Row(cts) | What::Entries(cts)) = *what;
                let left = seen.at().unwrap_or_default().max(cts);
                let tree = table.tree(usize::from(*index));
                tree.remove_seen(entry, &bits, 0, left.0).await?;
            }
        }
        Ok(true)
    }
}

/// A piece that goes back into the queue when it is dropped.
struct Kept<'a, M: LineLocks> {
    database: &'a Database<M>,
    purge: Option<Purge<M>>,
}

impl<M: LineLocks> Drop for Kept<'_, M> {
    fn drop(&mut self) {
        if let Some(purge) = self.purge.take() {
            self.database.queue_purge(purge);
        }
    }
}
