//! Operations on one key that report the leaf that they saw, for transactions.

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;

use super::Tree;
use super::cursor::Found;
use super::descent::Descent;
use crate::leaf_stamp::{Insertion, Leaf, LeafStamp, Line, ReplaceOutcome, Split};
use crate::page::{Dirty, Edit, Page, Seek, head_of};
use crate::{TreeError, TreeValue};

impl<M: CoherentMemory> Tree<M> {
    /// Like [`get_with`](Tree::get_with), and returns the leaf of the key as of the same instant.
    /// The leaf is returned also when the key does not exist.
    ///
    /// # Errors
    /// As [`get_with`](Tree::get_with); [`TreeError::NotStamped`] when this tree has no leaf
    /// stamps.
    pub async fn get_stamped<R>(
        &self,
        key: &[u8],
        mut visit: impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<(Option<R>, Leaf), TreeError> {
        self.check_stamped()?;
        self.limits.check_key(key)?;
        let seen = match self.fast_get_stamped(key, &mut visit) {
            Ok(seen) => seen,
            Err(at) => Box::pin(self.get_stamped_slow(at, key, &mut visit)).await?,
        };
        self.memory.handle().coop().await;
        Ok(seen)
    }

    #[inline]
    fn fast_get_stamped<R>(
        &self,
        key: &[u8],
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<(Option<R>, Leaf), Descent> {
        match self.fast_get(key, visit, Leaf::of) {
            // A small tree may have a leaf as its root.
            Err(at) if at.addr == self.root => {
                self.fast_visit(self.fast_root(), key, head_of(key), visit, Leaf::of).ok_or(at)
            }
            seen => seen,
        }
    }

    async fn get_stamped_slow<R>(
        &self,
        mut at: Descent,
        key: &[u8],
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<(Option<R>, Leaf), TreeError> {
        if let Some(seen) = self.careful_get(key, visit, Leaf::of) {
            return Ok(seen);
        }
        let operation = self.memory.enter().await?;
        let mut look = |page: &Page<'_>, line: Line<'_>| {
            let found = page.search(key).ok().map(|slot| visit(page.value(slot)));
            Ok((found, Leaf::of(line)))
        };
        let seen = self.drive(|| self.find(&mut at, Seek::At(key), 0, &mut look)).await?;
        drop(operation);
        Ok(seen)
    }

    /// Inserts a new key, if `admit` accepts the leaf stamp of the leaf to which the key belongs.
    ///
    /// - `admit` is called under the leaf's write guard, and again if the leaf had to be split
    ///   first. So `admit` must have no effect but its result. The key enters the leaf with the
    ///   stamp that `admit` accepted last.
    /// - If the key exists, `visit` sees its value under the guard, and `admit` is not called.
    /// - `split` receives each leaf that this call splits, also if the insert then fails. So a
    ///   transaction that has recorded the leaf before the split can replace it by both halves.
    ///
    /// The future is ready at its first poll if all pages on the path are here and undamaged, and
    /// the leaf has room. The call does not count as work of the task for
    /// [`coop`](latchwork_runtime::Handle::coop), because a commit that holds locks should not
    /// yield. A caller that loops awaits `coop` itself.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert) without [`TreeError::Exists`]; [`TreeError::NotStamped`] when
    /// this tree has no leaf stamps.
    pub async fn insert_stamped<R>(
        &self,
        key: &[u8],
        value: &[u8],
        mut admit: impl FnMut(&LeafStamp) -> bool,
        mut visit: impl FnMut(TreeValue<'_>) -> R,
        split: impl FnMut(Split),
    ) -> Result<Insertion<R>, TreeError> {
        self.check_stamped()?;
        self.limits.check_value(value)?;
        let change = |page: &Page<'_>, found: Found, line: Line<'_>| {
            self.enter(page, found, line, (key, value), &mut admit, &mut visit)
        };
        self.add(key, change, split).await
    }

    #[inline]
    fn enter<R>(
        &self,
        page: &Page<'_>,
        found: Found,
        line: Line<'_>,
        (key, value): (&[u8], &[u8]),
        admit: &mut impl FnMut(&LeafStamp) -> bool,
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<(Insertion<R>, Dirty), Edit> {
        let leaf = Leaf::of(line);
        let slot = match found {
            Ok(slot) => {
                let found = visit(page.value(slot));
                return Ok((Insertion::Exists { found, leaf }, Dirty::default()));
            }
            Err(slot) => slot,
        };
        if !admit(&leaf.stamp) {
            return Ok((Insertion::Refused(leaf), Dirty::default()));
        }
        let dirty = self.insert_entry(page, slot, key, value)?;
        Ok((Insertion::New { before: leaf, after: leaf.stamp.changed() }, dirty))
    }

    /// Like [`insert_stamped`](Tree::insert_stamped), for several ascending `entries` at one
    /// instant. Inserts the first entry, and following entries that belong into the same position
    /// of the same leaf and have room there. Their keys must be strictly ascending. Returns the
    /// number of inserted entries; the other entries are not inserted. `admit`, `visit`, `split`
    /// and the returned [`Insertion`] concern the first entry.
    ///
    /// # Errors
    /// As [`insert_stamped`](Tree::insert_stamped), for any of the keys and values.
    pub async fn insert_run_stamped<R>(
        &self,
        entries: &[(&[u8], &[u8])],
        mut admit: impl FnMut(&LeafStamp) -> bool,
        mut visit: impl FnMut(TreeValue<'_>) -> R,
        split: impl FnMut(Split),
    ) -> Result<(usize, Insertion<R>), TreeError> {
        self.check_stamped()?;
        for (key, value) in entries {
            self.limits.check_key(key)?;
            self.limits.check_value(value)?;
        }
        // Without entries, the key is empty, which is an error.
        let first = entries.first().map_or(&[][..], |(key, _)| key);
        let change = |page: &Page<'_>, found: Found, line: Line<'_>| {
            self.enter_run(page, found, line, entries, &mut admit, &mut visit)
        };
        self.add(first, change, split).await
    }

    #[inline]
    fn enter_run<R>(
        &self,
        page: &Page<'_>,
        found: Found,
        line: Line<'_>,
        entries: &[(&[u8], &[u8])],
        admit: &mut impl FnMut(&LeafStamp) -> bool,
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
    ) -> Result<((usize, Insertion<R>), Dirty), Edit> {
        let leaf = Leaf::of(line);
        let slot = match found {
            Ok(slot) => {
                let found = visit(page.value(slot));
                return Ok(((0, Insertion::Exists { found, leaf }), Dirty::default()));
            }
            Err(slot) => slot,
        };
        if !admit(&leaf.stamp) {
            return Ok(((0, Insertion::Refused(leaf)), Dirty::default()));
        }
        let most = self.config.max_entries(0).saturating_sub(page.header.count());
        if most == 0 {
            return Err(Edit::Full);
        }
        let (new, dirty) = page.insert_run(slot, entries, most)?;
        strict_assert!(
            new > 0 && new <= entries.len(),
            "a run of {new} of {} entries",
            entries.len()
        );
        Ok(((new, Insertion::New { before: leaf, after: leaf.stamp.changed() }), dirty))
    }

    /// Replaces a value, if the value is `old` and `admit` accepts the leaf stamp (see
    /// [`insert_stamped`](Tree::insert_stamped)). The structure number changes, also when `new`
    /// equals `old`.
    ///
    /// # Errors
    /// As [`update`](Tree::update) without [`TreeError::NotFound`]; [`TreeError::NotStamped`] when
    /// this tree has no leaf stamps.
    pub async fn replace_stamped(
        &self,
        key: &[u8],
        old: &[u8],
        new: &[u8],
        mut admit: impl FnMut(&LeafStamp) -> bool,
    ) -> Result<ReplaceOutcome, TreeError> {
        self.check_stamped()?;
        self.limits.check_value(new)?;
        self.write(key, |page, found, line| {
            let leaf = Leaf::of(line);
            let Ok(slot) = found else {
                return Ok((ReplaceOutcome::Missing(leaf), Dirty::default()));
            };
            if !page.value_is(slot, old) {
                return Ok((ReplaceOutcome::Different(leaf), Dirty::default()));
            }
            if !admit(&leaf.stamp) {
                return Ok((ReplaceOutcome::Refused(leaf), Dirty::default()));
            }
            let dirty = page.set_value(slot, new)?.or_first_word();
            Ok((ReplaceOutcome::Done { before: leaf, after: leaf.stamp.changed() }, dirty))
        })
        .await
    }

    /// Removes a key, if its value is `value`. At the same instant, raises the two timestamps of
    /// the leaf to at least `read` and `removed`. Returns whether the key was removed.
    ///
    /// # Errors
    /// As [`remove`](Tree::remove); [`TreeError::NotStamped`] when this tree has no leaf stamps.
    pub async fn remove_stamped(
        &self,
        key: &[u8],
        value: &[u8],
        read: u64,
        removed: u64,
    ) -> Result<bool, TreeError> {
        self.check_stamped()?;
        let remove = |page: &Page<'_>, found: Found, line: Line<'_>| {
            let Ok(slot) = found else { return Ok((None, Dirty::default())) };
            if !page.value_is(slot, value) {
                return Ok((None, Dirty::default()));
            }
            let dirty = page.remove(slot)?;
            LeafStamp::load(line.payload()).raised(read, removed).store(line.payload());
            Ok((Some(page.header.count()), dirty))
        };
        let count = self.write(key, remove).await?;
        self.after_removal(key, count).await;
        Ok(count.is_some())
    }
}
