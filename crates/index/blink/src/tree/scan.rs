//! Scans, one leaf at a time: upwards by right links, downwards by a new descent for each leaf.

use std::ops::{Bound, ControlFlow};

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use super::descent::Descent;
use super::scratch::Scratch;
use crate::TreeError;
use crate::leaf_stamp::{Leaf, Line};
use crate::page::{Broken, Page, Seek, head_of};

/// The maximum number of bytes of the next leaf to prefetch. More prefetched bytes would evict each
/// other from the processor's cache.
const FETCHED: usize = 4096;

impl<M: CoherentMemory> Tree<M> {
    /// Shows at most `limit` entries in ascending order, starting at `from`, until `visit` breaks.
    /// Returns the number of shown entries.
    ///
    /// Each page is seen at one instant, but the whole scan is not. An entry that is inserted or
    /// removed during the scan may or may not be seen. An entry that exists during the whole scan
    /// is seen exactly once.
    ///
    /// # Errors
    /// When memory fails.
    pub async fn scan_up(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TreeError> {
        self.scan_pages_up(from, Bound::Unbounded, limit, visit, |_| (), |()| ()).await
    }

    /// Like [`scan_up`](Tree::scan_up), no further than `to`. Also reports each leaf that it reads
    /// to `leaf`, once, before it shows the entries of that leaf. A leaf without shown entries is
    /// reported, too. The key ranges of these leaves cover everything from `from` to the end of the
    /// scan.
    ///
    /// # Errors
    /// As [`scan_up`](Tree::scan_up); [`TreeError::NotStamped`] when this tree has no leaf stamps.
    pub async fn scan_up_stamped(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        leaf: impl FnMut(Leaf),
    ) -> Result<usize, TreeError> {
        self.check_stamped()?;
        self.scan_pages_up(from, to, limit, visit, Leaf::of, leaf).await
    }

    /// Scans upwards. `look` reads the line of each page at the instant at which the page is seen.
    /// `report` receives the result of `look`.
    async fn scan_pages_up<S>(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        look: impl Fn(Line<'_>) -> S,
        mut report: impl FnMut(S),
    ) -> Result<usize, TreeError> {
        let mut scratch = self.scratch.take().unwrap_or_default();
        let Scratch { entries, key, high } = &mut scratch;
        key.clear();
        if let Bound::Included(from) | Bound::Excluded(from) = from {
            key.extend_from_slice(from);
        }
        let mut excluded = matches!(from, Bound::Excluded(_));
        // The slow path may continue where the descent on the fast path ended.
        let fast = self.fast_leaf(key, head_of(key));
        let (mut leaf, mut at) = match fast.or_else(|at| self.careful_leaf(key).ok_or(at)) {
            Ok(leaf) => (Some(leaf), leaf.descent()),
            Err(at) => (None, at.descent()),
        };
        let mut seen = 0;
        while seen < limit {
            let wanted = limit - seen;
            strict_assert!(wanted > 0, "a scan that has all goes on");
            let sibling = leaf.and_then(|leaf| leaf.siblings.first());
            let mut take = |page: &Page<'_>, line: Line<'_>| {
                let first = match page.search(key) {
                    Ok(slot) => slot + usize::from(excluded),
                    Err(slot) => slot,
                };
                let count = page.header.count();
                if count == 0 {
                    self.leaving.meet(page);
                }
                let behind = page.end_of(to);
                let end = behind.min(count).min(first.saturating_add(wanted)).max(first);
                strict_assert!(
                    end >= first && end - first <= wanted,
                    "more entries are taken than are wanted"
                );
                let is_last = end - first == wanted || behind < count;
                if let Some(sibling) = sibling.filter(|_| !is_last) {
                    self.memory.prefetch(sibling, 0..self.memory.payload_len().min(FETCHED));
                }
                entries.take(page, first..end)?;
                high.clear();
                // After the last page of the scan, its high fence and its right link are not
                // needed.
                if is_last {
                    return Ok((GlobalAddr::NULL, look(line)));
                }
                page.append_high(high);
                Ok((page.header.right, look(line)))
            };
            let (right, looked) =
                match leaf.and_then(|leaf| self.fast_page(leaf, Seek::At(key), &mut take)) {
                    Some(taken) => taken,
                    None => {
                        let operation = self.memory.enter().await?;
                        let taken =
                            self.drive(|| self.find(&mut at, Seek::At(key), 0, &mut take)).await?;
                        drop(operation);
                        taken
                    }
                };
            self.memory.handle().coop().await;
            report(looked);
            let shown = entries.show(false, &mut visit);
            let (visited, flow) = shown.map_err(|broken| self.corrupt(at.addr, broken))?;
            seen += visited;
            strict_assert!(seen <= limit, "more entries are shown than are wanted");
            if flow.is_break() || right.is_null() {
                break;
            }
            self.check_progress(at.addr, key < high)?;
            // The next page starts where this page ended. If the next page was split since, the
            // link leads to its left half.
            at = Descent::new(right, Some(0));
            leaf = leaf.map(|leaf| self.fast_sibling(leaf, right));
            std::mem::swap(key, high);
            excluded = false;
        }
        self.scratch.set(Some(scratch));
        Ok(seen)
    }

    /// Shows at most `limit` entries in descending order, starting at `from`, until `visit` breaks.
    /// Returns the number of shown entries. The guarantees are those of [`scan_up`](Tree::scan_up).
    ///
    /// Pages have no left links. So the scan descends again, to the key below the low fence of the
    /// last page.
    ///
    /// # Errors
    /// When memory fails.
    pub async fn scan_down(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TreeError> {
        self.scan_pages_down(from, limit, visit, |_| (), |()| ()).await
    }

    /// Like [`scan_down`](Tree::scan_down), and reports each leaf as
    /// [`scan_up_stamped`](Tree::scan_up_stamped) does.
    ///
    /// # Errors
    /// As [`scan_up_stamped`](Tree::scan_up_stamped).
    pub async fn scan_down_stamped(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        leaf: impl FnMut(Leaf),
    ) -> Result<usize, TreeError> {
        self.check_stamped()?;
        self.scan_pages_down(from, limit, visit, Leaf::of, leaf).await
    }

    /// Scans downwards; otherwise like [`scan_pages_up`](Tree::scan_pages_up).
    async fn scan_pages_down<S>(
        &self,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        look: impl Fn(Line<'_>) -> S,
        mut report: impl FnMut(S),
    ) -> Result<usize, TreeError> {
        let mut low;
        let mut seek = match from {
            Bound::Unbounded => Seek::Last,
            Bound::Included(key) => Seek::At(key),
            Bound::Excluded([]) => return Ok(0),
            Bound::Excluded(key) => Seek::Below(key),
        };
        // Frequent downward scans come from transactions, and their trees have leaf stamps.
        let mut tries_fast = self.config.stamped;
        let mut scratch = self.scratch.take().unwrap_or_default();
        let entries = &mut scratch.entries;
        let mut seen = 0;
        while seen < limit {
            let mut take = |page: &Page<'_>, line: Line<'_>| {
                let end = match seek {
                    Seek::Last => page.header.count(),
                    Seek::At(key) => page.search(key).map_or_else(|slot| slot, |slot| slot + 1),
                    Seek::Below(key) => page.search(key).unwrap_or_else(|slot| slot),
                };
                let end = end.min(page.header.count());
                let first = end.saturating_sub(limit - seen);
                strict_assert!(
                    end - first <= limit - seen,
                    "more entries are taken than are wanted"
                );
                entries.take(page, first..end)?;
                Ok((page.low(), look(line)))
            };
            let fast = match seek {
                Seek::At(key) | Seek::Below(key) if tries_fast => {
                    let fast = self.fast_leaf(key, head_of(key));
                    Some(fast.or_else(|at| self.careful_leaf(key).ok_or(at)))
                }
                _ => None,
            };
            let leaf = fast.and_then(Result::ok);
            let mut at = match fast {
                Some(Ok(at) | Err(at)) => at.descent(),
                None => Descent::new(self.root, None),
            };
            let (next, looked) = match leaf.and_then(|leaf| self.fast_page(leaf, seek, &mut take)) {
                Some(taken) => taken,
                None => {
                    // The page of the keys below a key may be to the left of all pages on the path
                    // to that key. So the descent starts at the root.
                    if !matches!(seek, Seek::At(_)) {
                        at = Descent::new(self.root, None);
                    }
                    let operation = self.memory.enter().await?;
                    let taken = self.drive(|| self.find(&mut at, seek, 0, &mut take)).await?;
                    drop(operation);
                    taken
                }
            };
            self.memory.handle().coop().await;
            report(looked);
            let shown = entries.show(true, &mut visit);
            let (visited, flow) = shown.map_err(|broken| self.corrupt(at.addr, broken))?;
            seen += visited;
            strict_assert!(seen <= limit, "more entries are shown than are wanted");
            if flow.is_break() || next.is_empty() {
                break;
            }
            let below = match seek {
                Seek::Below(before) => next.as_slice() < before,
                Seek::At(key) => next.as_slice() <= key,
                Seek::Last => true,
            };
            self.check_progress(at.addr, below)?;
            low = next;
            // The fast path leads to the leaf that starts at `low`, not to the leaf before it.
            (seek, tries_fast) = (Seek::Below(&low), false);
        }
        self.scratch.set(Some(scratch));
        Ok(seen)
    }

    /// The number of entries, exact while no operation changes the tree.
    ///
    /// # Errors
    /// When memory fails.
    pub async fn count(&self) -> Result<u64, TreeError> {
        let mut at = Descent::new(self.root, None);
        let mut key = Vec::new();
        let mut entries = 0;
        loop {
            let operation = self.memory.enter().await?;
            let (count, right, high): (usize, GlobalAddr, Vec<u8>) = self
                .drive(|| {
                    self.find(&mut at, Seek::At(&key), 0, |page, _| {
                        Ok((page.header.count(), page.header.right, page.high()))
                    })
                })
                .await?;
            drop(operation);
            self.memory.handle().coop().await;
            entries += count as u64;
            if right.is_null() {
                return Ok(entries);
            }
            self.check_progress(at.addr, key < high)?;
            at = Descent::new(right, Some(0));
            key = high;
        }
    }

    /// Ensures that a walk along a level comes closer to its end. The header of a damaged page may
    /// claim a range of keys that differs from its fence keys, and links could then form a cycle.
    fn check_progress(&self, page: GlobalAddr, goes_on: bool) -> Result<(), TreeError> {
        let broken = || self.corrupt(page, Broken("a page that does not end where it leads on"));
        if goes_on { Ok(()) } else { Err(broken()) }
    }
}
