//! The check of a whole tree, with statistics of its pages.

use std::collections::BTreeSet;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use crate::TreeError;
use crate::page::{Image, Page, check};

/// The result of a walk over a whole tree.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TreeStatistics {
    /// The number of entries.
    pub entries: u64,
    /// The number of pages on each level, leaves first. The length is the height of the tree.
    pub pages_per_level: Vec<u64>,
    /// The number of leaves without entries.
    pub empty_leaves: u64,
    /// The number of pages to which only a right link leads, because a split was cancelled before
    /// its post. Such a page costs readers one step. The next writer that meets the link posts the
    /// page.
    pub unposted_pages: u64,
    /// The used bytes of payload.
    pub used_bytes: u64,
    /// The bytes of payload of all pages.
    pub total_bytes: u64,
    /// The number of empty leaves, and of inner pages above them, that this handle and its clones
    /// took out of the tree.
    pub leaves_unlinked: u64,
    /// The number of these pages whose lines are freed.
    pub leaves_freed: u64,
}

impl TreeStatistics {
    /// The number of pages in use.
    pub fn pages(&self) -> u64 {
        self.pages_per_level.iter().sum()
    }

    /// The used share of the bytes of all pages.
    pub fn fill(&self) -> f64 {
        self.used_bytes as f64 / self.total_bytes.max(1) as f64
    }
}

/// A child as its parent describes it.
struct Child {
    low: Vec<u8>,
    addr: GlobalAddr,
}

impl<M: CoherentMemory> Tree<M> {
    /// Walks the whole tree and checks these properties:
    ///
    /// - In each page the keys ascend between the fence keys, and every byte is accounted for.
    /// - The fence keys of neighbours meet, and the low fences of children are the separators of
    ///   their parents.
    /// - Levels descend by one.
    /// - A walk along a level reaches every page exactly once, and every child of the level above.
    ///
    /// Meant for a tree without writers: a split in progress looks like damage.
    ///
    /// # Errors
    /// [`TreeError::Corrupt`] with the first fault and its page; and when memory fails.
    pub async fn validate(&self) -> Result<TreeStatistics, TreeError> {
        let mut statistics = TreeStatistics::default();
        let mut seen = BTreeSet::new();
        let root = self.snapshot(self.root).await?;
        let mut level = self.checked(self.root, &root)?.header.level;
        let mut expected = vec![Child { low: Vec::new(), addr: self.root }];
        loop {
            let children = self.walk_level(level, &expected, &mut seen, &mut statistics).await?;
            if level == 0 {
                statistics.pages_per_level.reverse();
                statistics.leaves_unlinked = self.leaving.unlinked.get();
                statistics.leaves_freed = self.leaving.freed.get();
                return Ok(statistics);
            }
            expected = children;
            level -= 1;
        }
    }

    /// Walks a level along its right links and compares it with the children of the level above
    /// (`expected`). Returns the children of its pages.
    async fn walk_level(
        &self,
        level: u8,
        expected: &[Child],
        seen: &mut BTreeSet<GlobalAddr>,
        statistics: &mut TreeStatistics,
    ) -> Result<Vec<Child>, TreeError> {
        let mut children = Vec::new();
        let mut expected = expected.iter().peekable();
        let Some(mut addr) = expected.peek().map(|child| child.addr) else {
            return Err(fault(self.root, "a level without pages".into()));
        };
        let mut low = Vec::new();
        let mut pages = 0;
        while !addr.is_null() {
            if !seen.insert(addr) {
                return Err(fault(addr, "reached twice".into()));
            }
            let image = self.snapshot(addr).await?;
            let page = self.checked(addr, &image)?;
            let used = check(&page).map_err(|what| fault(addr, what))?.used;
            if page.header.level != level {
                let what = format!("level {} among pages of level {level}", page.header.level);
                return Err(fault(addr, what));
            }
            if addr == self.root && !page.header.right.is_null() {
                return Err(fault(addr, "the root has a right sibling".into()));
            }
            if page.low() != low {
                let what = format!(
                    "starts at {:02x?}, but its left neighbour ends at {low:02x?}",
                    page.low()
                );
                return Err(fault(addr, what));
            }
            match expected.next_if(|child| child.addr == addr) {
                Some(child) if child.low != low => {
                    let what =
                        format!("starts at {low:02x?}, but its parent says {:02x?}", child.low);
                    return Err(fault(addr, what));
                }
                Some(_) => {}
                None => statistics.unposted_pages += 1,
            }
            if level == 0 {
                statistics.entries += page.header.count() as u64;
                statistics.empty_leaves += u64::from(page.header.count() == 0);
            } else {
                for slot in 0..page.header.count() {
                    let low = if slot == 0 { page.low() } else { page.key(slot) };
                    let child = page.child(slot).map_err(|broken| self.corrupt(addr, broken))?;
                    children.push(Child { low, addr: child });
                }
            }
            pages += 1;
            statistics.used_bytes += used as u64;
            statistics.total_bytes += page.words.len() as u64;
            low = page.high();
            addr = page.header.right;
            self.memory.handle().coop().await;
        }
        if let Some(child) = expected.next() {
            let what = format!(
                "its parent leads there for keys from {:02x?}, but the right links of level {level} do not",
                child.low
            );
            return Err(fault(child.addr, what));
        }
        statistics.pages_per_level.push(pages);
        Ok(children)
    }

    /// A consistent copy of a page.
    async fn snapshot(&self, addr: GlobalAddr) -> Result<Image, TreeError> {
        let operation = self.memory.enter().await?;
        let image = self.image();
        let copy = |page: &Page<'_>| {
            self.image_page(&image).copy_from(page.words);
            Ok(())
        };
        self.drive(|| self.read_page(addr, copy)).await?;
        drop(operation);
        Ok(image)
    }

    fn checked<'i>(&self, addr: GlobalAddr, image: &'i Image) -> Result<Page<'i>, TreeError> {
        Page::open(self.image_page(image), self.tag).map_err(|broken| self.corrupt(addr, broken))
    }
}

fn fault(page: GlobalAddr, what: String) -> TreeError {
    TreeError::Corrupt { page, what }
}
