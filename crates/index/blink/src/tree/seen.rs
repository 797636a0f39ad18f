//! Operations on one key that tell which leaf they saw, for transactions.

use latchwork_coherence::CoherentMemory;

use super::Tree;
use super::descend::Descent;
use super::write::Found;
use crate::page::{Dirty, Edit, Page, Seek, head_of};
use crate::stamp::{Insertion, Leaf, Line, Replacement, Split, Stamp};
use crate::{TreeError, Value};

impl<M: CoherentMemory> Tree<M> {
    /// As [`get_with`](Tree::get_with), with the leaf where the key is or would be, as of the same
    /// instant.
    ///
    /// # Errors
    /// As [`get_with`](Tree::get_with); [`TreeError::NotStamped`] when this tree has no stamps.
    pub async fn get_seen<R>(
        &self,
        key: &[u8],
        mut visit: impl FnMut(Value<'_>) -> R,
    ) -> Result<(Option<R>, Leaf), TreeError> {
        self.check_stamped()?;
        self.limits.check_key(key)?;
        let seen = match self.hot_get(key, &mut visit, Leaf::of) {
            Ok(seen) => seen,
            Err(at) => self.get_seen_carefully(at, key, &mut visit).await?,
        };
        self.memory.handle().coop().await;
        Ok(seen)
    }

    /// As [`get_seen`](Tree::get_seen), if all pages on the way are cached and in order: a plain
    /// function that writes no shared memory. `None`: [`get_seen`](Tree::get_seen) finds out, and
    /// tells what is wrong if something is.
    #[inline]
    pub fn try_get_seen<R>(
        &self,
        key: &[u8],
        mut visit: impl FnMut(Value<'_>) -> R,
    ) -> Option<(Option<R>, Leaf)> {
        if !self.config.stamped || self.limits.check_key(key).is_err() {
            return None;
        }
        match self.hot_get(key, &mut visit, Leaf::of) {
            Ok(seen) => Some(seen),
            // Perhaps the tree is so small that its root is a leaf.
            Err(_) => self.hot_visit(self.hot_root(), key, head_of(key), &mut visit, Leaf::of),
        }
    }

    async fn get_seen_carefully<R>(
        &self,
        mut at: Descent,
        key: &[u8],
        visit: &mut impl FnMut(Value<'_>) -> R,
    ) -> Result<(Option<R>, Leaf), TreeError> {
        let operation = self.memory.enter().await?;
        let mut look = |page: &Page<'_>, line: Line<'_>| {
            let found = page.search(key).ok().map(|slot| visit(page.value(slot)));
            Ok((found, Leaf::of(line)))
        };
        let seen = self.drive(|| self.find(&mut at, Seek::At(key), 0, &mut look)).await?;
        drop(operation);
        Ok(seen)
    }

    /// Adds a key that is not there yet, if `admit` agrees to the stamp of the leaf where it
    /// belongs.
    ///
    /// `admit` is asked under the leaf's write guard, and again when the leaf had to be split
    /// first, so it must have no effect but its answer; what it agreed to last is what the key went
    /// into. A key that is there is shown to `visit`, also under the guard, and `admit` is not
    /// asked. `split` is told of each leaf that this splits, also if it comes to nothing then:
    /// whoever has seen the leaf as it was before can depend on its halves from then on.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert) without [`TreeError::Exists`]; [`TreeError::NotStamped`] when
    /// this tree has no stamps.
    pub async fn insert_seen<R>(
        &self,
        key: &[u8],
        value: &[u8],
        mut admit: impl FnMut(&Stamp) -> bool,
        mut visit: impl FnMut(Value<'_>) -> R,
        split: impl FnMut(Split),
    ) -> Result<Insertion<R>, TreeError> {
        self.check_stamped()?;
        self.limits.check_value(value)?;
        let change = |page: &Page<'_>, found: Found, line: Line<'_>| {
            self.enter(page, found, line, (key, value), &mut admit, &mut visit)
        };
        self.add(key, change, split).await
    }

    /// As [`insert_seen`](Tree::insert_seen), if all pages on the way are here and in order, and
    /// the leaf has room: a plain function. `None`: nothing has happened, and
    /// [`insert_seen`](Tree::insert_seen) does it, or tells what is wrong.
    #[inline]
    pub fn try_insert_seen<R>(
        &self,
        key: &[u8],
        value: &[u8],
        mut admit: impl FnMut(&Stamp) -> bool,
        mut visit: impl FnMut(Value<'_>) -> R,
    ) -> Option<Insertion<R>> {
        if !self.may_insert(key, value) {
            return None;
        }
        self.hot_add(key, &mut |page, found, line| {
            self.enter(page, found, line, (key, value), &mut admit, &mut visit)
        })
        .ok()
    }

    /// Whether a tree such as this one takes the entry.
    #[inline]
    fn may_insert(&self, key: &[u8], value: &[u8]) -> bool {
        let limits = &self.limits;
        self.config.stamped && limits.check_key(key).is_ok() && limits.check_value(value).is_ok()
    }

    #[inline]
    fn enter<R>(
        &self,
        page: &Page<'_>,
        found: Found,
        line: Line<'_>,
        (key, value): (&[u8], &[u8]),
        admit: &mut impl FnMut(&Stamp) -> bool,
        visit: &mut impl FnMut(Value<'_>) -> R,
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

    /// As [`insert_seen`](Tree::insert_seen), of the first of `entries`, keys and values, and of as
    /// many that follow in strictly ascending order of keys and go into the same place of the same
    /// leaf, all at one instant. Returns how many were added; of the others nothing is known yet.
    /// `admit`, `visit`, `split` and what is told are about the first.
    ///
    /// # Errors
    /// As [`insert_seen`](Tree::insert_seen), about any of the keys and values.
    pub async fn insert_run_seen<R>(
        &self,
        entries: &[(&[u8], &[u8])],
        mut admit: impl FnMut(&Stamp) -> bool,
        mut visit: impl FnMut(Value<'_>) -> R,
        split: impl FnMut(Split),
    ) -> Result<(usize, Insertion<R>), TreeError> {
        self.check_stamped()?;
        for (key, value) in entries {
            self.limits.check_key(key)?;
            self.limits.check_value(value)?;
        }
        // Nothing is no key.
        let first = entries.first().map_or(&[][..], |(key, _)| key);
        let change = |page: &Page<'_>, found: Found, line: Line<'_>| {
            self.enter_run(page, found, line, entries, &mut admit, &mut visit)
        };
        self.add(first, change, split).await
    }

    /// As [`insert_run_seen`](Tree::insert_run_seen), if all pages on the way are here and in
    /// order, and the leaf has room for the first: a plain function. `None`: nothing has happened,
    /// and [`insert_run_seen`](Tree::insert_run_seen) does it, or tells what is wrong.
    #[inline]
    pub fn try_insert_run_seen<R>(
        &self,
        entries: &[(&[u8], &[u8])],
        mut admit: impl FnMut(&Stamp) -> bool,
        mut visit: impl FnMut(Value<'_>) -> R,
    ) -> Option<(usize, Insertion<R>)> {
        let (first, _) = entries.first()?;
        if !entries.iter().all(|(key, value)| self.may_insert(key, value)) {
            return None;
        }
        self.hot_add(first, &mut |page, found, line| {
            self.enter_run(page, found, line, entries, &mut admit, &mut visit)
        })
        .ok()
    }

    #[inline]
    fn enter_run<R>(
        &self,
        page: &Page<'_>,
        found: Found,
        line: Line<'_>,
        entries: &[(&[u8], &[u8])],
        admit: &mut impl FnMut(&Stamp) -> bool,
        visit: &mut impl FnMut(Value<'_>) -> R,
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
        Ok(((new, Insertion::New { before: leaf, after: leaf.stamp.changed() }), dirty))
    }

    /// Replaces a value, if it is `old` and `admit` agrees to the leaf's stamp (see
    /// [`insert_seen`](Tree::insert_seen)). It counts as a change of the leaf's structure, also
    /// when `new` is the same as `old`.
    ///
    /// # Errors
    /// As [`update`](Tree::update) without [`TreeError::NotFound`]; [`TreeError::NotStamped`] when
    /// this tree has no stamps.
    pub async fn replace_seen(
        &self,
        key: &[u8],
        old: &[u8],
        new: &[u8],
        mut admit: impl FnMut(&Stamp) -> bool,
    ) -> Result<Replacement, TreeError> {
        self.check_stamped()?;
        self.limits.check_value(new)?;
        self.write(key, |page, found, line| {
            let leaf = Leaf::of(line);
            let Ok(slot) = found else {
                return Ok((Replacement::Missing(leaf), Dirty::default()));
            };
            if !page.value_is(slot, old) {
                return Ok((Replacement::Different(leaf), Dirty::default()));
            }
            if !admit(&leaf.stamp) {
                return Ok((Replacement::Refused(leaf), Dirty::default()));
            }
            let dirty = page.set_value(slot, new)?.or_first_word();
            Ok((Replacement::Done { before: leaf, after: leaf.stamp.changed() }, dirty))
        })
        .await
    }

    /// Removes a key, if its value is `value`, and raises the times of its leaf to at least `read`
    /// and `removed`, all at one instant. Returns whether it did.
    ///
    /// # Errors
    /// As [`remove`](Tree::remove); [`TreeError::NotStamped`] when this tree has no stamps.
    pub async fn remove_seen(
        &self,
        key: &[u8],
        value: &[u8],
        read: u64,
        removed: u64,
    ) -> Result<bool, TreeError> {
        self.check_stamped()?;
        self.write(key, |page, found, line| {
            let Ok(slot) = found else { return Ok((false, Dirty::default())) };
            if !page.value_is(slot, value) {
                return Ok((false, Dirty::default()));
            }
            let dirty = page.remove(slot)?;
            Stamp::load(line.payload()).raised(read, removed).store(line.payload());
            Ok((true, dirty))
        })
        .await
    }
}
