//! What became of a leaf that was seen.

use latchwork_coherence::{CoherentMemory, Mode, Need};
use latchwork_verbs::{GlobalAddr, WORD};

use super::Tree;
use super::descend::Stop;
use crate::TreeError;
use crate::page::Page;
use crate::stamp::{Leaf, Stamp};

/// How often a leaf is looked for again that others change.
const RAISES_MAX: u32 = 1000;

impl<M: CoherentMemory> Tree<M> {
    /// Whether a leaf of this tree still is as it was seen: then no entry came, went or got another
    /// value in the whole range of keys that it had. A plain function that writes no shared memory.
    ///
    /// Who has entered keys before, and relies on one of two seeing the other's, puts a
    /// `fence(SeqCst)` in between: a store that gives a latch back may become visible after a load
    /// of another line.
    ///
    /// # Errors
    /// The line to [`ensure`](CoherentMemory::ensure) before trying again; [`still`](Tree::still)
    /// does that. It also tells what is wrong with a page or with a tree without stamps, which here
    /// is a need.
    pub fn try_still(&self, leaf: &Leaf) -> Result<bool, Need> {
        let need = Need { addr: leaf.addr, mode: Mode::Shared };
        if !self.config.stamped {
            return Err(need);
        }
        match self.stamp_at(leaf.addr) {
            Ok(stamp) => Ok(stamp.structure == leaf.stamp.structure),
            Err(Stop::Need(need)) => Err(need),
            Err(Stop::Broken(..)) => Err(need),
        }
    }

    /// As [`try_still`](Tree::try_still), and obtains the leaf if it is not here.
    ///
    /// # Errors
    /// [`TreeError::NotStamped`] when this tree has no stamps, [`TreeError::Corrupt`] when the leaf
    /// is none of its pages, and when memory fails.
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
        self.memory.handle().coop().await;
        Ok(stamp.structure == leaf.stamp.structure)
    }

    /// Raises the read time of a leaf to at least `to`, if its structure still is as it was seen:
    /// whoever changes the leaf from now on finds that time. Returns the leaf's stamp then; `None`
    /// when it has changed. Nothing is written where the time is as high already.
    ///
    /// # Errors
    /// As [`still`](Tree::still).
    pub async fn raise_read(&self, leaf: &Leaf, to: u64) -> Result<Option<Stamp>, TreeError> {
        self.check_stamped()?;
        self.raise(leaf, to, 0).await
    }

    /// Raises the removal time of the leaf that has `key`, or would, to at least `to`: as if an
    /// entry had gone that stays for now. Nothing else of the leaf changes.
    ///
    /// # Errors
    /// As [`get_seen`](Tree::get_seen); [`TreeError::Starved`] when others change the leaf over and
    /// over.
    pub async fn raise_removed(&self, key: &[u8], to: u64) -> Result<(), TreeError> {
        let mut page = self.root;
        for _ in 0..RAISES_MAX {
            let (_, leaf) = self.get_seen(key, |_| ()).await?;
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
    ) -> Result<Option<Stamp>, TreeError> {
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

    fn raise_step(&self, leaf: &Leaf, read: u64, removed: u64) -> Result<Option<Stamp>, Stop> {
        let addr = leaf.addr;
        let is_other = |stamp: Stamp| stamp.structure != leaf.stamp.structure;
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
        let found = Stamp::load(guard.words());
        if is_other(found) {
            return Ok(None);
        }
        let raised = found.raised(read, removed);
        raised.store(guard.words());
        let last = if removed == 0 { Stamp::READ } else { Stamp::REMOVED };
        guard.mark_dirty(Stamp::READ * WORD..(last + 1) * WORD);
        Ok(Some(raised))
    }

    /// The stamp of the page at `addr`.
    fn stamp_at(&self, addr: GlobalAddr) -> Result<Stamp, Stop> {
        self.read_page_of(addr, None, |_, line| Ok(Stamp::load(line.payload())))
    }

    pub(super) fn check_stamped(&self) -> Result<(), TreeError> {
        if self.config.stamped { Ok(()) } else { Err(TreeError::NotStamped) }
    }
}
