//! Checks whether a leaf has changed since it was seen, and raises its timestamps.

use latchwork_coherence::CoherentMemory;
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{GlobalAddr, WORD};

use super::Tree;
use super::descent::Stop;
use crate::TreeError;
use crate::leaf_stamp::{Leaf, LeafStamp};
use crate::page::Page;

/// The attempts to raise a timestamp of a leaf that other operations change.
const RAISES_MAX: u32 = 1000;
const _: () = assert!(RAISES_MAX > 0);

impl<M: CoherentMemory> Tree<M> {
    /// Whether a leaf of this tree has the same structure number as when it was seen. Then no entry
    /// was added, removed or changed in the whole range of keys that the leaf had. Ready at the
    /// first poll if the leaf is here; seldom writes shared memory.
    ///
    /// A caller may have inserted keys before, and may rely on this: of two such callers, at least
    /// one sees the keys of the other. Such a caller needs a memory fence, `fence(SeqCst)`, between
    /// the insert and this call. Otherwise the store that releases a latch may become visible after
    /// the load of another line.
    ///
    /// Counts no unit of work, as [`insert_stamped`](Tree::insert_stamped).
    ///
    /// # Errors
    /// [`TreeError::NotStamped`] when this tree has no leaf stamps, [`TreeError::Corrupt`] when the
    /// leaf is not a page of this tree, and when memory fails.
    pub async fn still(&self, leaf: &Leaf) -> Result<bool, TreeError> {
        self.check_stamped()?;
        let stamp = match self.stamp_at(leaf.addr) {
            Ok(stamp) => stamp,
            Err(_) => {
                let operation = self.memory.enter().await?;
                let stamp = self.drive(|| self.stamp_at(leaf.addr)).await?;
                drop(operation);
                stamp
            }
        };
        Ok(stamp.structure == leaf.stamp.structure)
    }

    /// Raises the read timestamp of a leaf to at least `to`, if its structure number is unchanged.
    /// Every later change of the leaf finds that timestamp. Returns the new leaf stamp, or `None`
    /// when the structure number has changed. Writes nothing if the timestamp is high enough.
    ///
    /// # Errors
    /// As [`still`](Tree::still).
    pub async fn raise_read(&self, leaf: &Leaf, to: u64) -> Result<Option<LeafStamp>, TreeError> {
        self.check_stamped()?;
        self.raise(leaf, to, 0).await
    }

    /// Raises the removal timestamp of the leaf of `key` to at least `to`, also when the key does
    /// not exist. For an entry that counts as removed but stays for now. Nothing else of the leaf
    /// changes.
    ///
    /// # Errors
    /// As [`get_stamped`](Tree::get_stamped); [`TreeError::Starved`] when other operations change
    /// the leaf in each attempt.
    pub async fn raise_removed(&self, key: &[u8], to: u64) -> Result<(), TreeError> {
        let mut page = self.root;
        for _ in 0..RAISES_MAX {
            let (_, leaf) = self.get_stamped(key, |_| ()).await?;
            if leaf.stamp.removed >= to || self.raise(&leaf, 0, to).await?.is_some() {
                return Ok(());
            }
            page = leaf.addr;
        }
        Err(TreeError::Starved { page, rounds: RAISES_MAX })
    }

    async fn raise(
        &self,
        leaf: &Leaf,
        read: u64,
        removed: u64,
    ) -> Result<Option<LeafStamp>, TreeError> {
        let raised = match self.raise_step(leaf, read, removed) {
            Ok(raised) => raised,
            Err(_) => {
                let operation = self.memory.enter().await?;
                let raised = self.drive(|| self.raise_step(leaf, read, removed)).await?;
                drop(operation);
                raised
            }
        };
        self.memory.handle().coop().await;
        Ok(raised)
    }

    fn raise_step(&self, leaf: &Leaf, read: u64, removed: u64) -> Result<Option<LeafStamp>, Stop> {
        let addr = leaf.addr;
        let is_other = |stamp: LeafStamp| stamp.structure != leaf.stamp.structure;
        let seen = self.stamp_at(addr)?;
        if is_other(seen) {
            return Ok(None);
        }
        if seen.read >= read && seen.removed >= removed {
            return Ok(Some(seen));
        }
        let mut guard = self.memory.try_write(addr).map_err(Stop::Need)?;
        let page = Page::open(self.page_words(guard.line()), self.tag);
        page.map_err(|broken| Stop::Broken(addr, broken))?;
        let found = LeafStamp::load(guard.words());
        if is_other(found) {
            return Ok(None);
        }
        let raised = found.raised(read, removed);
        strict_assert!(
            raised.read >= found.read && raised.removed >= found.removed,
            "a leaf stamp runs backwards"
        );
        strict_assert_eq!(raised.structure, found.structure, "a raised stamp keeps the structure");
        raised.store(guard.words());
        let last = if removed == 0 { LeafStamp::READ } else { LeafStamp::REMOVED };
        guard.mark_dirty(LeafStamp::READ * WORD..(last + 1) * WORD);
        Ok(Some(raised))
    }

    /// The leaf stamp of the page at `addr`.
    fn stamp_at(&self, addr: GlobalAddr) -> Result<LeafStamp, Stop> {
        self.read_page_of(addr, None, |_, line| Ok(LeafStamp::load(line.payload())))
    }

    pub(super) fn check_stamped(&self) -> Result<(), TreeError> {
        if self.config.stamped { Ok(()) } else { Err(TreeError::NotStamped) }
    }
}
