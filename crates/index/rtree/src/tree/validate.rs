//! The check of a whole tree.

use std::collections::BTreeSet;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::drive::CHAIN_MAX;
use crate::page::{Link, Page, Record, Role};
use crate::{RTreeError, Rect};

/// The result of a walk over a whole tree.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RTreeStatistics {
    /// The number of entries.
    pub entries: u64,
    /// The number of pages on each level, leaves first. The length is the height of the tree.
    pub pages_per_level: Vec<u64>,
    /// The number of pages to which only a right link leads, because their split was cancelled
    /// before it was posted. The next writer that comes there posts the page.
    pub unposted_pages: u64,
    /// The number of empty pages that wait for the next writer to remove them.
    pub dead_pages: u64,
    /// The number of entries that have departed to other leaves or are pending there. They take
    /// room, and do not count as entries. Later writers of their leaves remove them.
    pub left_entries: u64,
}

impl RTreeStatistics {
    /// The number of pages.
    pub fn pages(&self) -> u64 {
        self.pages_per_level.iter().sum()
    }
}

/// A page as the level above describes it.
#[derive(Clone, Copy)]
struct Expected<const D: usize> {
    addr: GlobalAddr,
    level: Option<u8>,
    link: Option<Link>,
    rect: Rect<D>,
}

/// What the check needs of a page.
struct Copied<const D: usize> {
    level: u8,
    sequence: u32,
    right: GlobalAddr,
    is_dead: bool,
    cover: Rect<D>,
    rects: Vec<Rect<D>>,
    children: Vec<(GlobalAddr, Link)>,
    records: Vec<Record>,
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Walks the whole tree and checks these properties:
    ///
    /// - Levels descend by one, and every page is reached once.
    /// - The box of an entry contains the cover of its child, and the cover contains the boxes of
    ///   the child's entries.
    /// - The right siblings that no entry knows end with the expected number.
    ///
    /// Meant for a tree without writers: a step in progress may look like damage.
    ///
    /// # Errors
    /// [`RTreeError::Corrupt`] with the first fault and its page; and when memory fails.
    pub async fn validate(&self) -> Result<RTreeStatistics, RTreeError> {
        let operation = self.memory.enter().await?;
        let mut statistics = RTreeStatistics::default();
        let mut seen = BTreeSet::new();
        let root = Expected { addr: self.root, level: None, link: None, rect: Rect::EVERYTHING };
        let mut todo = vec![root];
        while let Some(next) = todo.pop() {
            let mut addr = next.addr;
            for step in 0..CHAIN_MAX {
                if !seen.insert(addr) {
                    return Err(self.corrupt(addr, "reached twice"));
                }
                let page = self.read(addr, Copied::of).await?;
                self.check_page(addr, &page, &next)?;
                let level = usize::from(page.level);
                let levels = &mut statistics.pages_per_level;
                levels.resize(levels.len().max(level + 1), 0);
                levels[level] += 1;
                statistics.unposted_pages += u64::from(step > 0);
                statistics.dead_pages += u64::from(page.is_dead);
                if page.level == 0 {
                    let left = self.left_entries(addr, &page).await?;
                    statistics.left_entries += left;
                    statistics.entries += page.rects.len() as u64 - left;
                }
                for (rect, (addr, link)) in page.rects.iter().zip(&page.children) {
                    let level = page.level.checked_sub(1);
                    todo.push(Expected { addr: *addr, level, link: Some(*link), rect: *rect });
                }
                if next.link.is_none_or(|link| link.expects == page.sequence) {
                    break;
                }
                addr = page.right;
                if addr.is_null() {
                    return Err(self.corrupt(next.addr, "no right sibling has its old number"));
                }
            }
            self.memory.handle().coop().await;
        }
        drop(operation);
        Ok(statistics)
    }

    /// The number of entries of a leaf that do not count.
    async fn left_entries(&self, addr: GlobalAddr, page: &Copied<D>) -> Result<u64, RTreeError> {
        let mut left = 0;
        for record in &page.records {
            let counts = match record.role {
                Role::Arrived => true,
                Role::Departed => false,
                Role::Pending => self.is_committed(addr, record).await?,
            };
            left += u64::from(!counts);
        }
        Ok(left)
    }

    fn check_page(
        &self,
        addr: GlobalAddr,
        page: &Copied<D>,
        expected: &Expected<D>,
    ) -> Result<(), RTreeError> {
        let corrupt = |what: String| Err(RTreeError::Corrupt { page: addr, what });
        if expected.level.is_some_and(|level| level != page.level) {
            return corrupt(format!(
                "level {} under an entry for {:?}",
                page.level, expected.level
            ));
        }
        if page.is_dead {
            return match page.rects.is_empty() {
                true => Ok(()),
                false => corrupt("a dead page has entries".into()),
            };
        }
        if page.level > 0 && page.rects.is_empty() {
            return corrupt("an inner page without children".into());
        }
        let slots: BTreeSet<usize> = page.records.iter().map(|record| record.slot).collect();
        if slots.len() < page.records.len() || slots.last() >= Some(&page.rects.len()) {
            return corrupt("its records are not those of different entries".into());
        }
        if !expected.rect.contains(&page.cover) {
            return corrupt(format!("cover {:?} outside of {:?}", page.cover, expected.rect));
        }
        match page.rects.iter().find(|rect| !page.cover.contains(rect)) {
            Some(rect) => corrupt(format!("an entry at {rect:?} outside of {:?}", page.cover)),
            None => Ok(()),
        }
    }
}

impl<const D: usize> Copied<D> {
    fn of(page: &Page<'_, D>) -> Copied<D> {
        let level = page.level();
        let slots = if level > 0 { page.count() } else { 0 };
        Copied {
            level,
            sequence: page.sequence(),
            right: page.right(),
            is_dead: page.is_dead(),
            cover: page.cover(),
            rects: (0..page.count()).map(|slot| page.rect(slot)).collect(),
            children: (0..slots).map(|slot| (page.child(slot), page.link(slot))).collect(),
            records: if level > 0 {
                Vec::new()
            } else {
                page.records().map(|(_, one)| one).collect()
            },
        }
    }
}
