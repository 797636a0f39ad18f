//! The check whether a leaf has changed since an operation saw it, and the raise of its timestamps.

use latchwork_coherence::CoherentMemory;
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{GlobalAddr, WORD};

use super::Tree;
use super::descend::Rounds;
use super::descent::Stop;
use crate::TreeError;
use crate::leaf_stamp::{Leaf, LeafStamp, Line};
use crate::page::Page;

/// The maximum number of attempts to raise a timestamp of a leaf that other operations change.
const RAISES_MAX: u32 = 1000;
const _: () = assert!(RAISES_MAX > 0);

impl<M: CoherentMemory> Tree<M> {
    /// Whether a leaf of this tree has the same structure number as when it was seen. If so, no
    /// entry was added, removed or changed in the range of keys that the leaf had. The future is
    /// ready at its first poll if the leaf is here.
    ///
    /// Two callers may each insert a key into a leaf that the other has seen, and then call
    /// `still`. At least one of the two calls returns `false`, if each caller executes a memory
    /// fence, `fence(SeqCst)`, between the insert and the call. Without the fence, the load of the
    /// other leaf may come before the store that releases the own leaf's latch.
    ///
    /// Like [`insert_stamped`](Tree::insert_stamped), the call does not count as work for `coop`.
    ///
    /// # Errors
    /// [`TreeError::NotStamped`] when this tree has no leaf stamps, [`TreeError::Corrupt`] when the
    /// leaf is damaged, and when memory fails.
    pub async fn still(&self, leaf: &Leaf) -> Result<bool, TreeError> {
        self.check_stamped()?;
        let stamp = match self.stamp_at(leaf.addr) {
            Ok(stamp) => stamp,
            Err(_) => {
                let operation = self.memory.enter().await?;
                let stamp = self.drive_stale(|| self.stamp_at(leaf.addr)).await?;
                drop(operation);
                stamp
            }
        };
        Ok(stamp.is_some_and(|stamp| stamp.structure == leaf.stamp.structure))
    }

    /// Raises the read timestamp of a leaf to at least `to`, if its structure number is unchanged.
    /// Every later change of the leaf sees that timestamp. Returns the new leaf stamp, or `None`
    /// when the structure number has changed. Writes nothing if the timestamp is high enough.
    ///
    /// # Errors
    /// As [`still`](Tree::still).
    pub async fn raise_read(&self, leaf: &Leaf, to: u64) -> Result<Option<LeafStamp>, TreeError> {
        self.check_stamped()?;
        self.raise(leaf, to, 0).await
    }

    /// Raises the removal timestamp of the leaf of `key` to at least `to`, also when the key does
    /// not exist. A caller uses this for an entry that counts as removed but stays for now. Nothing
    /// else of the leaf changes.
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
                let raised = self.drive_stale(|| self.raise_step(leaf, read, removed)).await?;
                drop(operation);
                raised
            }
        };
        self.memory.handle().coop().await;
        Ok(raised)
    }

    /// Like [`drive`](Tree::drive), for the line of a leaf that was seen long ago. `None` also when
    /// a transaction has locked the line: then it is no page of a tree any more.
    async fn drive_stale<R>(
        &self,
        mut step: impl FnMut() -> Result<Option<R>, Stop>,
    ) -> Result<Option<R>, TreeError> {
        let mut rounds = Rounds::default();
        let mut _ticket = None;
        loop {
            match step() {
                Ok(done) => return Ok(done),
                Err(Stop::Broken(page, broken)) => return Err(self.corrupt(page, broken)),
                Err(Stop::Need(need)) => {
                    rounds.count(need)?;
                    drop(_ticket.take());
                    _ticket = self.memory.ensure_stale(need).await?;
                    if _ticket.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn raise_step(&self, leaf: &Leaf, read: u64, removed: u64) -> Result<Option<LeafStamp>, Stop> {
        let addr = leaf.addr;
        let is_other = |stamp: LeafStamp| stamp.structure != leaf.stamp.structure;
        let Some(seen) = self.stamp_at(addr)?.filter(|seen| !is_other(*seen)) else {
            return Ok(None);
        };
        if seen.read >= read && seen.removed >= removed {
            return Ok(Some(seen));
        }
        let mut guard = self.memory.try_write(addr).map_err(Stop::Need)?;
        match Page::open(self.page_words(guard.line()), self.tag) {
            Err(what) if what.is_no_page() => return Ok(None),
            page => page.map_err(|broken| Stop::Broken(addr, broken))?,
        };
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

    /// The leaf stamp of the page at `addr`. `None` if the page has left the tree.
    fn stamp_at(&self, addr: GlobalAddr) -> Result<Option<LeafStamp>, Stop> {
        let stamp = |_: &Page<'_>, line: Line<'_>| Ok(Some(LeafStamp::load(line.payload())));
        match self.read_page_of(addr, None, stamp) {
            Err(Stop::Broken(_, what)) if what.is_no_page() => Ok(None),
            stamp => stamp,
        }
    }

    pub(super) fn check_stamped(&self) -> Result<(), TreeError> {
        if self.config.stamped { Ok(()) } else { Err(TreeError::NotStamped) }
    }
}
