//! Purge: the removal of tombstones, and of index entries that lead to a row by an old key.
//!
//! A piece is a tombstone with its entries, or a set of old entries of one row. The removal of a
//! piece is safe for these reasons:
//!
//! 1. The purge holds a write lock of the row's home line. So no transaction that locks what it
//!    reads depends on the piece.
//! 2. A transaction that reads without locks may depend on the piece. Its validation detects the
//!    removal: the tombstone is missing, or the leaf has another structure number.
//! 3. For later transactions the leaf takes over the time of the deletion, and for a tombstone also
//!    the read timestamp of its page (see [`LeafStamp`](latchwork_blink::LeafStamp)).
//!
//! If another transaction has locked the line, the purge tries the piece again later.

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks, LockOutcome, Need};
use latchwork_strict::strict_assert;

use crate::heap::{Patience, Reading, SeenRow};
use crate::purge_piece::{Left, Purge, What};
use crate::{Database, TxnError};

/// The maximum number of pieces that a commit tries to remove, unless more than [`WAITING`] wait.
const AT_ONCE: usize = 16;
/// The number of waiting pieces above which a commit tries all of them.
const WAITING: usize = 1024;
const _: () = assert!(AT_ONCE > 0 && AT_ONCE < WAITING, "a backlog makes the purge hurry");

impl<M: LineLocks> Database<M> {
    pub(crate) fn queue_purge(&self, purge: Purge<M>) {
        strict_assert!(
            purge.entries.iter().all(|(index, _)| usize::from(*index) <= purge.table.secondaries()),
            "a purge of an index that is not there"
        );
        self.purges().borrow_mut().push_back(purge);
    }

    /// Tries to remove some of the waiting pieces. A piece with a locked line, or with a failed
    /// removal, goes back into the queue.
    pub(crate) async fn purge_some(&self) {
        if self.node().has_left() {
            self.take_left();
        }
        let waiting = self.purges().borrow().len();
        let most = if waiting > WAITING { waiting } else { waiting.min(AT_ONCE) };
        strict_assert!(most <= waiting, "more purges are tried than wait");
        for _ in 0..most {
            let Some(purge) = self.purges().borrow_mut().pop_front() else { return };
            // If this future is dropped in the middle, the piece is tried again.
            let mut kept = Kept { database: self, purge: Some(purge) };
            let Some(purge) = &kept.purge else { return };
            if let Ok(true) = self.purge(purge).await {
                kept.purge = None;
            }
        }
    }

    /// Takes over pieces of ended workers of this node, for tables that this worker has open.
    fn take_left(&self) {
        for left in self.node().take_left(AT_ONCE, |left| self.known_table(left.table).is_some()) {
            let Left { table, id, key, what, entries } = left;
            if let Some(table) = self.known_table(table) {
                self.queue_purge(Purge { table, id, key, what, entries });
            }
        }
    }

    /// Removes a piece. Returns false if it must be tried again.
    async fn purge(&self, purge: &Purge<M>) -> Result<bool, TxnError> {
        let Purge { table, id, key, what, entries } = purge;
        let heap = table.heap();
        let need = Need { addr: heap.line_of(*id), mode: AccessMode::Exclusive };
        let outcome = match self.memory().try_lock(need) {
            Ok(outcome) => outcome,
            Err(need) => self.memory().lock(need).await?,
        };
        let _lock = match outcome {
            LockOutcome::Got(lock) => lock,
            LockOutcome::Locked => return Ok(false),
        };
        // A node lock means that the line has a commit that is not durable yet. A crash may take
        // back the commit that made this piece, but all nodes see the removal at once. So the purge
        // tries the piece later. No transaction gives the line a node lock while `_lock` exists.
        if self.releases_early() && self.memory().has_node_lock(need.addr, &Hint::default()) {
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
                tree.remove_stamped(entry, &bits, read.0, cts.0).await?;
            }
            table.tree(0).remove_stamped(key, &bits, read.0, cts.0).await?;
            heap.erase(*id, key, false, Patience::NoWait).await?;
            return Ok(true);
        }
        // The slot may contain the row, the row added again, another row, or nothing. Only those
        // entries are removed that lead here by a key that the present row does not have. No other
        // row comes to the slot while the line is locked.
        let (mut there, mut row, mut now) = (Vec::new(), Vec::new(), Vec::new());
        let step = || heap.key_step(*id, &Hint::default(), &mut there);
        let taken = heap.drive(Patience::NoWait, step).await?;
        let key = if taken { &there } else { key };
        let (mut at, hint) = <(Reading, Hint)>::default();
        let step = || heap.get_step(&mut at, *id, &hint, key, &mut row);
        let seen = heap.drive(Patience::NoWait, step).await?;
        if seen == SeenRow::Pending && !self.erase_abandoned(table, *id, key).await? {
            // A transaction is adding the pending row, and may have taken the entries over.
            return Ok(false);
        }
        for (index, entry) in entries {
            let leads_here = matches!(seen, SeenRow::Live(_))
                && table.index_key(usize::from(*index), key, &row, &mut now).is_ok()
                && now == *entry;
            if !leads_here {
                // The leaf keeps the time of the removal, so that transactions with earlier
                // timestamps notice it. If the row has been deleted since, the time of the deletion
                // is the later one and counts.
                let (What::Row(cts) | What::Entries(cts)) = *what;
                let left = seen.at().unwrap_or_default().max(cts);
                let tree = table.tree(usize::from(*index));
                tree.remove_stamped(entry, &bits, 0, left.0).await?;
            }
        }
        Ok(true)
    }
}

/// A piece that goes back into the queue when this value is dropped.
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
