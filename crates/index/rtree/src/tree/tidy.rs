//! Records that no operation needs any more.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::frame::Frame;
use super::remove::Wanted;
use crate::page::{Page, Record, Role};
use crate::{RTreeError, Rect};

/// What becomes of a record.
#[derive(Clone, Copy)]
enum Fate {
    /// All operations that were in progress have ended: the record goes.
    Forget,
    /// The entry goes, and its record.
    Remove,
    /// The pending entry counts.
    Confirm,
    /// The record gets a mark.
    Mark(u64),
}

/// What a page has become.
enum Tidied<const D: usize> {
    Plain,
    Emptied,
    Shrunk(Rect<D>),
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Forgets the records of a leaf that no operation needs any more, and marks those without a
    /// mark. `path` leads to the parent of the leaf. Returns whether there is more room.
    ///
    /// A record may go if its mark is below [`ended`](CoherentMemory::ended): then every operation
    /// in progress began after the record got its role.
    pub(super) async fn tidy(
        &self,
        path: &[Frame<'_>],
        leaf: &Frame<'_>,
    ) -> Result<bool, RTreeError> {
        let addr = leaf.addr;
        let list = |page: &Page<'_, D>| {
            let is_leaf = page.level() == 0;
            let records = page.records().map(|(_, record)| record).filter(|_| is_leaf);
            records.collect::<Vec<_>>()
        };
        let records = self.read(addr, list).await?;
        if records.is_empty() {
            return Ok(false);
        }
        let ended = self.memory.ended().await?;
        let mut fates: Vec<(Record, Fate)> = Vec::new();
        let mut mark = None;
        for record in records {
            let fate = match record.mark {
                None if mark.is_none() => {
                    mark = Some(self.memory.mark().await?);
                    mark.map(Fate::Mark)
                }
                None => mark.map(Fate::Mark),
                Some(mark) if mark < ended => Some(self.fate(addr, &record).await?),
                Some(_) => None,
            };
            fates.extend(fate.map(|fate| (record, fate)));
        }
        if fates.is_empty() {
            return Ok(false);
        }
        let has_room = fates.iter().any(|(_, fate)| matches!(fate, Fate::Forget | Fate::Remove));
        let tidied = self.change(addr, |page| {
            if page.level() > 0 || page.record_count() == 0 {
                return ControlFlow::Break(());
            }
            for (seen, fate) in &fates {
                carry_out(page, seen, *fate);
            }
            let is_root = leaf.link.is_none();
            if page.count() == 0 && !is_root {
                page.set_dead();
                return ControlFlow::Continue(Tidied::Emptied);
            }
            self.note_left(page);
            let union = page.union();
            if is_root || page.cover() == union {
                return ControlFlow::Continue(Tidied::Plain);
            }
            page.shrink_cover(&union);
            let known = leaf.is_known(page.sequence());
            ControlFlow::Continue(if known { Tidied::Shrunk(union) } else { Tidied::Plain })
        });
        match tidied.await? {
            ControlFlow::Break(()) => return Ok(false),
            ControlFlow::Continue(Tidied::Plain) => {}
            ControlFlow::Continue(Tidied::Emptied) => self.unlink(path, addr).await?,
            ControlFlow::Continue(Tidied::Shrunk(cover)) => self.shrink(path, leaf, cover).await?,
        }
        Ok(has_room)
    }

    /// What becomes of a record of `leaf` that no operation in progress needs. The operation of its
    /// move has ended, too.
    async fn fate(&self, leaf: GlobalAddr, record: &Record) -> Result<Fate, RTreeError> {
        Ok(match record.role {
            Role::Arrived => Fate::Forget,
            Role::Pending if self.is_committed(leaf, record).await? => {
                // D6.
                self.persist_if_there(record.leaf).await?;
                Fate::Confirm
            }
            Role::Pending => Fate::Remove,
            Role::Departed => {
                // Without this record, the other entry would count as one that was never committed.
                if self.is_pending(record).await? {
                    let other = Record { leaf, ..*record };
                    self.confirm(record.leaf, &other).await?;
                }
                // D6.
                self.persist_if_there(record.leaf).await?;
                Fate::Remove
            }
        })
    }

    /// Forgets the records of a leaf if they are many.
    pub(super) async fn tidy_at(
        &self,
        path: &[Frame<'_>],
        leaf: &Frame<'_>,
        records: usize,
    ) -> Result<(), RTreeError> {
        if records >= MANY {
            self.tidy(path, leaf).await?;
        }
        Ok(())
    }

    /// Remembers a leaf in which all entries have departed. Perhaps no writer comes there again.
    pub(super) fn note_left(&self, leaf: &Page<'_, D>) {
        if leaf.count() == 0 || leaf.record_count() < leaf.count() {
            return;
        }
        let departed = |record: &Record| record.role == Role::Departed;
        if leaf.records().filter(|(_, record)| departed(record)).count() == leaf.count()
            && let Some((_, one)) = leaf.records().next()
        {
            self.remember_left(leaf.rect(one.slot), one.number);
        }
    }

    fn remember_left(&self, rect: Rect<D>, number: u64) {
        let mut left = self.left.borrow_mut();
        if left.len() < LEFT_MAX && left.iter().all(|(_, other)| *other != number) {
            left.push_back((rect, number));
        }
    }

    /// Tidies the leaf that has been on the list of [`note_left`](RTree::note_left) for longest, at
    /// some of the calls.
    pub(super) async fn tidy_left(&self) -> Result<(), RTreeError> {
        if self.left.borrow().is_empty() {
            return Ok(());
        }
        let calls = self.calls.get() + 1;
        self.calls.set(if calls < CALLS { calls } else { 0 });
        if calls < CALLS { Ok(()) } else { self.tidy_next().await.map(drop) }
    }

    /// Tidies the next leaf of the list. It comes to the end of the list, unless it is done.
    async fn tidy_next(&self) -> Result<(), RTreeError> {
        let next = self.left.borrow_mut().pop_front();
        let Some((rect, number)) = next else { return Ok(()) };
        let operation = self.memory.enter().await?;
        let found = self.search_for(&rect, Wanted::Departed(number)).await;
        if let Ok(Some(path)) = &found
            && let Some((leaf, above)) = path.split_last()
            && !self.tidy(above, leaf).await?
        {
            self.remember_left(rect, number);
        }
        drop(operation);
        found.map(drop)
    }

    /// Tidies all leaves of the list, as far as operations in progress permit.
    pub(super) async fn tidy_all_left(&self) -> Result<(), RTreeError> {
        // The first round marks the records, the second one removes them.
        for _ in 0..2 {
            let count = self.left.borrow().len();
            for _ in 0..count {
                self.tidy_next().await?;
            }
        }
        Ok(())
    }

    /// Removes a pending entry whose move was refused.
    pub(super) async fn take_back(&self, leaf: GlobalAddr, number: u64) -> Result<(), RTreeError> {
        let emptied = self.change_leaf(leaf, |page| {
            let (_, record) = page.record_in(number, Role::Pending)?;
            page.remove(record.slot);
            if page.count() == 0 {
                // The next writer that comes here removes the page.
                page.set_dead();
            }
            self.note_left(page);
            Some(())
        });
        emptied.await.map(drop)
    }
}

/// The records of a leaf that are worth the two verbs of [`RTree::tidy`].
const MANY: usize = 4;
/// The most leaves that a handle remembers. Others wait for a writer that comes there.
const LEFT_MAX: usize = 4096;
/// Every so many updates and removes tidy one of these leaves.
const CALLS: u32 = 8;

fn carry_out<const D: usize>(page: &Page<'_, D>, seen: &Record, fate: Fate) {
    let Some((at, now)) = page.record_in(seen.number, seen.role) else { return };
    match fate {
        Fate::Forget => page.remove_record(at),
        Fate::Remove => page.remove(now.slot),
        Fate::Confirm => {
            page.set_record(at, Record { role: Role::Arrived, mark: None, ..now });
        }
        Fate::Mark(mark) => page.set_record(at, Record { mark: Some(mark), ..now }),
    }
}
