//! One step on one page: plain functions stop at a line that is not here, and a loop obtains it.

use std::ops::ControlFlow;

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need};
use latchwork_strict::STRICT;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::stop::Stop;
use crate::RTreeError;
use crate::page::{Image, Page};

/// The attempts of an optimistic read. Then the reader requests the line, and so lets the writers
/// finish.
pub(super) const READS_MAX: u32 = 8;
/// The limit for the lines that one step may have to obtain. A line that another operation takes
/// away is progress of that operation.
const ROUNDS_MAX: u32 = 1_000_000;
/// The limit for the new beginnings of one operation.
pub(super) const RESTARTS_MAX: u32 = 100_000;
/// The limit for the pages that one entry of a parent leads to.
pub(super) const CHAIN_MAX: u32 = 1 << 16;

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    pub(super) fn corrupt(&self, page: GlobalAddr, what: &str) -> RTreeError {
        RTreeError::Corrupt { page, what: what.into() }
    }

    /// Repeats a step until it finishes. Between two attempts, obtains one line.
    pub(super) async fn drive<R>(
        &self,
        mut step: impl FnMut() -> Result<R, Stop>,
    ) -> Result<R, RTreeError> {
        let mut rounds = 0;
        let mut _ticket = None;
        loop {
            match step() {
                Ok(done) => return Ok(done),
                Err(Stop::Broken(page, broken)) => return Err(self.corrupt(page, broken.0)),
                Err(Stop::Need(need)) => {
                    rounds += 1;
                    if rounds > ROUNDS_MAX {
                        return Err(RTreeError::Starved { page: need.addr, rounds });
                    }
                    drop(_ticket.take());
                    _ticket = Some(self.memory.ensure(need).await?);
                }
            }
        }
    }

    /// Reads a page that is here, and is probably in the frame of `hint`. `read` may see any bytes,
    /// and gets the hints for the children. Its result counts only if the page was consistent.
    #[inline]
    pub(super) fn try_page<'m, R>(
        &'m self,
        addr: GlobalAddr,
        hint: &Hint,
        mut read: impl FnMut(&Page<'_, D>, &'m [Hint]) -> R,
    ) -> Result<R, Stop> {
        for _ in 0..READS_MAX {
            let seen = self.memory.try_read_at(addr, hint).map_err(Stop::Need)?;
            let result = Page::open(seen.words(), &self.layout).map(|page| {
                // The cache has hints for some pages only, and a leaf needs none.
                let hints = if page.level() > 0 { self.memory.hints(&seen) } else { &[] };
                read(&page, hints)
            });
            if seen.validate() {
                return result.map_err(|broken| Stop::Broken(addr, broken));
            }
        }
        Err(Stop::Need(Need { addr, mode: AccessMode::Shared }))
    }

    /// Reads a page. `read` is called again if the page changed meanwhile.
    pub(super) async fn read<R>(
        &self,
        addr: GlobalAddr,
        mut read: impl FnMut(&Page<'_, D>) -> R,
    ) -> Result<R, RTreeError> {
        let hint = self.memory.guess(addr);
        self.drive(|| self.try_page(addr, &hint, |page, _| read(page))).await
    }

    /// Changes a page under its write guard. `Break`: `change` has written nothing.
    pub(super) async fn change<B, C>(
        &self,
        addr: GlobalAddr,
        change: impl FnMut(&Page<'_, D>) -> ControlFlow<B, C>,
    ) -> Result<ControlFlow<B, C>, RTreeError> {
        self.change_at(addr, &self.memory.guess(addr), change).await
    }

    /// Like [`change`](RTree::change), for a page that is probably in the frame of `hint`.
    pub(super) async fn change_at<B, C>(
        &self,
        addr: GlobalAddr,
        hint: &Hint,
        mut change: impl FnMut(&Page<'_, D>) -> ControlFlow<B, C>,
    ) -> Result<ControlFlow<B, C>, RTreeError> {
        self.drive(|| self.try_change(addr, hint, &mut change)).await
    }

    /// Changes a page that is here, and is probably in the frame of `hint`.
    pub(super) fn try_change<B, C>(
        &self,
        addr: GlobalAddr,
        hint: &Hint,
        change: &mut impl FnMut(&Page<'_, D>) -> ControlFlow<B, C>,
    ) -> Result<ControlFlow<B, C>, Stop> {
        let mut guard = self.memory.try_write_at(addr, hint).map_err(Stop::Need)?;
        let page = Page::open(guard.words(), &self.layout);
        let page = page.map_err(|broken| Stop::Broken(addr, broken))?;
        let result = change(&page);
        if result.is_continue() {
            page.count_change();
            guard.mark_dirty(0..self.layout.bytes());
        }
        if STRICT {
            page.check();
        }
        Ok(result)
    }

    /// Writes a page that no other operation can reach yet.
    pub(super) async fn fill(
        &self,
        addr: GlobalAddr,
        write: impl Fn(&Page<'_, D>),
    ) -> Result<(), RTreeError> {
        self.drive(|| {
            let mut guard = self.memory.try_write(addr).map_err(Stop::Need)?;
            let page = Page::unchecked(guard.words(), &self.layout);
            write(&page);
            guard.mark_dirty(0..self.layout.bytes());
            if STRICT {
                page.check();
            }
            Ok(())
        })
        .await
    }

    /// Persists a page in which an entry was changed, and the root, which may have had the entry
    /// before it grew.
    pub(super) async fn persist_entry_in(&self, holder: GlobalAddr) -> Result<(), RTreeError> {
        if holder != self.root {
            self.persist_if_there(holder).await?;
        }
        Ok(self.memory.persist(self.root).await?)
    }

    /// Persists a page, unless its line is free.
    pub(super) async fn persist_if_there(&self, page: GlobalAddr) -> Result<(), RTreeError> {
        match self.memory.persist(page).await {
            Ok(()) | Err(MemoryError::BadAddress { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A consistent copy of a page.
    pub(super) async fn snapshot(&self, addr: GlobalAddr) -> Result<Image, RTreeError> {
        let image = Image::zeroed(&self.layout);
        let copy = || {
            for _ in 0..READS_MAX {
                let seen = self.memory.try_read(addr).map_err(Stop::Need)?;
                image.words().copy_from(seen.words().slice(0..self.layout.bytes()));
                if seen.validate() {
                    let page = Page::<D>::open(image.words(), &self.layout);
                    return page.map(drop).map_err(|broken| Stop::Broken(addr, broken));
                }
            }
            Err(Stop::Need(Need { addr, mode: AccessMode::Shared }))
        };
        self.drive(copy).await?;
        Ok(image)
    }
}
