//! Bulk loading: fills pages from sorted input, level by level from the leaves.

use std::future::{Future as _, poll_fn};
use std::task::Poll;

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use super::descent::Stop;
use super::spare::Spare;
use crate::TreeError;
use crate::leaf_stamp::{LeafStamp, Line};
use crate::page::{Broken, Builder, CHILD, Image, LEVEL_MAX, Page, Tally, align, shortest_between};

/// The number of pages that a load persists at a time.
const PERSISTS: usize = 16;

/// The limits up to which pages are filled.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// The target size of a page in bytes.
    target: usize,
    key_max: usize,
    entries_max: usize,
}

/// The page of a level that is being filled, and the written pages of the level.
#[derive(Debug)]
struct Level {
    level: u8,
    /// The leaf stamp of its pages, in a stamped tree.
    stamp: LeafStamp,
    low: Vec<u8>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    tally: Tally,
    here: Option<Spare>,
    written: Vec<(Vec<u8>, Spare)>,
}

impl Level {
    fn new(level: u8, stamp: LeafStamp) -> Level {
        let (low, entries, written) = (Vec::new(), Vec::new(), Vec::new());
        Level { level, stamp, low, entries, tally: Tally::new(0), here: None, written }
    }

    fn push(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.tally.push(&key, value.len());
        strict_assert!(
            self.level > 0 || self.entries.last().is_none_or(|(last, _)| *last < key),
            "keys of a leaf are out of order"
        );
        self.entries.push((key, value));
    }

    /// Whether the page takes another entry, and then still has room for any high fence.
    fn has_room(&self, key: &[u8], value: &[u8], room: Room) -> bool {
        let size = self.tally.size_with(key, value.len());
        // A separator behind the last key of a leaf is at most one byte longer than that key.
        let fence = if self.level == 0 { key.len() + 1 } else { room.key_max };
        // A page always has room for this number of the largest entries. An inner page needs
        // several children, because otherwise the number of pages would not shrink from level to
        // level.
        let least = if self.level == 0 { 1 } else { 3 };
        self.entries.len() < least
            || self.entries.len() < room.entries_max
                && size + align(fence.min(room.key_max)) <= room.target
    }
}

impl<M: CoherentMemory> Tree<M> {
    /// Fills an empty tree with full pages from entries in strictly ascending order. This is much
    /// faster than inserts. Returns the number of entries.
    ///
    /// `fill` is the share of each page to use: 1 for data that is only read, less to leave room
    /// for inserts. The entries become visible at one instant at the end. No operation should
    /// insert during the load: then the load fails, unless the inserted key was removed again.
    ///
    /// # Errors
    /// [`TreeError::Unsorted`], [`TreeError::NotEmpty`], [`TreeError::InUse`] or
    /// [`TreeError::FillFactor`]; when a key or a value is too long or a key is empty; and when
    /// memory fails or is full. After an error the tree is unchanged.
    pub async fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        fill: f64,
    ) -> Result<u64, TreeError> {
        if !(0.1..=1.0).contains(&fill) {
            return Err(TreeError::FillFactor(fill));
        }
        let target = (self.image_page(&self.image()).len() as f64 * fill) as usize;
        let loaded = self.load_levels(entries, target).await;
        if loaded.is_err() {
            // An error of the release is ignored: the error of the load is reported, and lines that
            // could not be freed stay with the handle.
            let _ = self.release_spares().await;
        }
        loaded
    }

    async fn load_levels<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        target: usize,
    ) -> Result<u64, TreeError> {
        // The new pages inherit the timestamps of the empty leaf that they replace.
        let stamp = self.empty_root().await?.inherited();
        let mut leaves = Level::new(0, stamp);
        let mut count = 0;
        for (key, value) in entries {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.limits.check_key(key)?;
            self.limits.check_value(value)?;
            // After the first entry, the page that is being filled always has an entry, so `last`
            // is the key before.
            let last = leaves.entries.last().map_or(&[][..], |(last, _)| last);
            if last >= key {
                return Err(TreeError::Unsorted { index: count });
            }
            if !leaves.has_room(key, value, self.room(target, 0)) {
                let separator = shortest_between(last, key);
                self.close_page(&mut leaves, separator).await?;
            }
            leaves.push(key.to_vec(), value.to_vec());
            strict_assert!(
                leaves.entries.len() <= self.room(target, 0).entries_max,
                "a leaf was filled beyond its size"
            );
            count += 1;
        }

        let mut pages: Vec<Spare> = Vec::new();
        let mut top = leaves;
        while !top.written.is_empty() {
            let mut above = Level::new(top.level + 1, stamp);
            if above.level > LEVEL_MAX {
                return Err(self.corrupt(self.root, Broken("more levels than any tree has")));
            }
            self.close_level(&mut top).await?;
            for (low, page) in top.written {
                let child = page.addr().bits().to_le_bytes().to_vec();
                pages.push(page);
                if !above.has_room(&low, &child, self.room(target, above.level)) {
                    self.close_page(&mut above, low).await?;
                    above.push(Vec::new(), child);
                } else {
                    above.push(low, child);
                }
            }
            top = above;
        }
        let root = self.page_image(&top, &[], GlobalAddr::NULL)?;
        self.persist_pages(&pages).await?;
        self.replace_empty_root(&root).await?;
        strict_assert!(
            count == 0 || !pages.is_empty() || top.level == 0,
            "a tree of several levels has no pages"
        );
        pages.into_iter().for_each(Spare::keep);
        Ok(count)
    }

    /// Persists the pages, several at a time.
    async fn persist_pages(&self, pages: &[Spare]) -> Result<(), TreeError> {
        if !self.memory.persists() {
            return Ok(());
        }
        for some in pages.chunks(PERSISTS) {
            let persist = |page: &Spare| Some(Box::pin(self.memory.persist(page.addr())));
            let mut open: Vec<_> = some.iter().map(persist).collect();
            poll_fn(|context| {
                for future in &mut open {
                    if let Some(running) = future
                        && let Poll::Ready(end) = running.as_mut().poll(context)
                    {
                        *future = None;
                        if end.is_err() {
                            return Poll::Ready(end);
                        }
                    }
                }
                let all = open.iter().all(Option::is_none);
                if all { Poll::Ready(Ok(())) } else { Poll::Pending }
            })
            .await?;
        }
        Ok(())
    }

    fn room(&self, target: usize, level: u8) -> Room {
        let (key_max, entries_max) = (self.limits.key_max, self.config.max_entries(level));
        Room { target, key_max, entries_max }
    }

    /// Writes the full page, and starts its right sibling at `separator`.
    async fn close_page(&self, level: &mut Level, separator: Vec<u8>) -> Result<(), TreeError> {
        strict_assert!(!level.entries.is_empty(), "an empty page is closed");
        strict_assert!(level.low < separator, "a page ends before it begins");
        let here = match level.here.take() {
            Some(here) => here,
            None => self.spare().await?,
        };
        let next = self.spare().await?;
        let image = self.page_image(level, &separator, next.addr())?;
        self.write_page(here.addr(), &image).await?;
        self.memory.handle().coop().await;
        strict_assert!(level.here.is_none(), "a page is in work twice");
        level.here = Some(next);
        level.entries.clear();
        level.tally = Tally::new(separator.len());
        level.written.push((std::mem::replace(&mut level.low, separator), here));
        Ok(())
    }

    /// Writes the last page of a level with several pages.
    async fn close_level(&self, level: &mut Level) -> Result<(), TreeError> {
        let Some(here) = level.here.take() else { return Ok(()) };
        let image = self.page_image(level, &[], GlobalAddr::NULL)?;
        self.write_page(here.addr(), &image).await?;
        level.written.push((std::mem::take(&mut level.low), here));
        Ok(())
    }

    fn page_image(
        &self,
        level: &Level,
        high: &[u8],
        right: GlobalAddr,
    ) -> Result<Image, TreeError> {
        let image = self.image();
        let build = || {
            let mut page =
                Builder::new(self.image_page(&image), self.tag, level.level, &level.low, high)?;
            for (key, value) in &level.entries {
                debug_assert!(level.level == 0 || value.len() == CHILD);
                if !page.push(key, value) {
                    return Err(Broken("a page was filled beyond its size"));
                }
            }
            page.finish(right);
            Ok(())
        };
        build().map_err(|broken| self.corrupt(self.root, broken))?;
        self.stamp_image(&image, level.stamp);
        Ok(image)
    }

    /// The leaf stamp of the root, if the root is an empty leaf.
    async fn empty_root(&self) -> Result<LeafStamp, TreeError> {
        let operation = self.memory.enter().await?;
        let empty = |page: &Page<'_>, line: Line<'_>| {
            Ok(is_empty(page).then(|| LeafStamp::load(line.payload())))
        };
        let stamp = self.drive(|| self.read_page_of(self.root, None, empty)).await?;
        drop(operation);
        stamp.ok_or(TreeError::NotEmpty)
    }

    /// Writes `image` to the root, if the root is an empty leaf that still has the timestamps that
    /// the image inherited.
    async fn replace_empty_root(&self, image: &Image) -> Result<(), TreeError> {
        let operation = self.memory.enter().await?;
        let replaced = self
            .drive(|| {
                let mut guard = self.memory.try_write(self.root).map_err(Stop::Need)?;
                let page = Page::open(self.page_words(guard.line()), self.tag)
                    .map_err(|broken| Stop::Broken(self.root, broken))?;
                if !is_empty(&page) {
                    return Ok(Err(TreeError::NotEmpty));
                }
                let stamp = LeafStamp::load(guard.words());
                if self.config.stamped && stamp.inherited() != LeafStamp::load(image.words()) {
                    return Ok(Err(TreeError::InUse));
                }
                guard.words().copy_from(image.words());
                if self.config.stamped {
                    stamp.changed().store(guard.words());
                }
                guard.mark_dirty(0..image.words().len());
                Ok(Ok(()))
            })
            .await?;
        drop(operation);
        replaced
    }
}

fn is_empty(page: &Page<'_>) -> bool {
    page.header.is_leaf() && page.header.count() == 0
}
