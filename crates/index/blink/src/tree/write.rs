//! Changes of the tree: one page at a time, and the splits that a full page causes.

use std::ops::Range;

use latchwork_cache::{Hint, WriteGuard};
use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

use super::Tree;
use super::cursor::{Cursor, Found, Progress};
use super::descend::{Rounds, step_right};
use super::descent::{Descent, Post, Stop, Turn};
use super::recent::Beginning;
use crate::TreeError;
use crate::leaf_stamp::{LeafStamp, Line, Split};
use crate::page::{Broken, Dirty, Edit, Page, Seek};

/// The maximum number of looks of a post at its page, under the guard of the parent. Other nodes
/// may want both lines, and take one of them away each time. Then the page stays unposted until the
/// next writer meets it.
const LOOKS_MAX: u8 = 16;

/// The page of a cursor relative to the sought key.
enum Place<'a> {
    Here(Page<'a>),
    /// The key belongs to a page further right.
    Right(Post),
    /// The page is the root, on a higher level.
    RootAbove,
}

/// A change of one page under its write guard. The arguments are the page, the result of the search
/// for the key, and the line. Returns the result of the change and the bytes that it wrote.
pub(super) type Change<'c, R> =
    dyn FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit> + 'c;

impl<M: CoherentMemory> Tree<M> {
    /// Applies `change` to the leaf of `key`. On an error no entry was changed, but pages may have
    /// been split.
    pub(super) async fn write<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Result<R, TreeError> {
        self.limits.check_key(key)?;
        let result = match self.fast_write(key, &mut change) {
            Ok(result) => result,
            Err(at) => Box::pin(self.write_slow(at, key, &mut change, &mut |_| ())).await?,
        };
        self.memory.handle().coop().await;
        Ok(result)
    }

    /// Like [`write`](Tree::write), for a change that probably adds the key. `split` receives each
    /// leaf of a stamped tree that this call splits, also when the call then fails.
    ///
    /// The call does not count as work of the task for [`coop`](latchwork_runtime::Handle::coop),
    /// because a commit that holds locks should not yield. Other callers await `coop` themselves.
    pub(super) async fn add<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
        mut split: impl FnMut(Split),
    ) -> Result<R, TreeError> {
        self.limits.check_key(key)?;
        match self.fast_add(key, &mut change) {
            Ok(result) => Ok(result),
            Err(at) => Box::pin(self.write_slow(at, key, &mut change, &mut split)).await,
        }
    }

    async fn write_slow<R>(
        &self,
        at: Descent,
        key: &[u8],
        change: &mut Change<'_, R>,
        split: &mut dyn FnMut(Split),
    ) -> Result<R, TreeError> {
        if let Some(result) = self.careful_change(key, &mut *change) {
            return Ok(result);
        }
        let operation = self.memory.enter().await?;
        let mut cursor = Cursor { at, ..self.cursor(key, 0) };
        let result = loop {
            let progress = self.advance(&mut cursor, change).await?;
            cursor.split.take().into_iter().for_each(&mut *split);
            match progress {
                Progress::Done(result) => break result,
                Progress::Split(Some(post)) => self.post(post).await?,
                Progress::Split(None)
                | Progress::Spares(_)
                | Progress::Persist
                | Progress::Gone => {}
            }
        };
        if let Some(missing) = cursor.at.missing.take() {
            self.repair(missing).await;
        }
        drop(operation);
        Ok(result)
    }

    fn cursor<'k>(&self, key: &'k [u8], level: u8) -> Cursor<'k> {
        let at = Descent::new(self.root, None);
        let (spares, prepared, split) = Default::default();
        Cursor { key, level, child: None, looks: 0, at, arrived: false, spares, prepared, split }
    }

    /// Repeats steps until the change is done or a page was split.
    async fn advance<R>(
        &self,
        cursor: &mut Cursor<'_>,
        change: &mut Change<'_, R>,
    ) -> Result<Progress<R>, TreeError> {
        let mut rounds = Rounds::default();
        let mut _ticket = None;
        loop {
            match self.step(cursor, change) {
                Ok(Progress::Spares(wanted)) => {
                    drop(_ticket.take());
                    while cursor.spares.len() < wanted {
                        cursor.spares.push(self.spare().await?);
                    }
                }
                Ok(Progress::Persist) => {
                    drop(_ticket.take());
                    let prepared = cursor.prepared.iter_mut().flat_map(|prepared| &mut prepared.0);
                    for page in prepared.filter(|page| page.filled && !page.persisted) {
                        self.memory.persist(page.addr).await?;
                        page.persisted = true;
                    }
                }
                Ok(progress) => return Ok(progress),
                Err(Stop::Broken(page, broken)) => return Err(self.corrupt(page, broken)),
                Err(Stop::Need(need)) => {
                    rounds.count(need)?;
                    drop(_ticket.take());
                    _ticket = Some(self.memory.ensure(need).await?);
                }
            }
        }
    }

    fn step<R>(
        &self,
        cursor: &mut Cursor<'_>,
        change: &mut Change<'_, R>,
    ) -> Result<Progress<R>, Stop> {
        if let Some(prepared) = &mut cursor.prepared {
            self.fill(prepared)?;
        }
        let seek = Seek::At(cursor.key);
        loop {
            if !cursor.arrived {
                self.approach(&mut cursor.at, seek, cursor.level)?;
                cursor.arrived = true;
            }
            let addr = cursor.at.addr;
            let broken = |broken| Stop::Broken(addr, broken);
            let mut guard = self.memory.try_write(addr).map_err(Stop::Need)?;
            let line = Line::new(addr, guard.line());
            let words = self.page_words(guard.line());
            if cursor.level == 0 {
                Page::fetch_leaf(words);
            }
            let page = match self.open_on(addr, words, seek, cursor.level) {
                Ok(Place::Here(page)) => page,
                Ok(Place::Right(post)) => {
                    self.count_visit(&mut cursor.at)?;
                    cursor.at.follow(Turn::Right(post));
                    cursor.prepared = None;
                    continue;
                }
                // The root has got a higher level since the descent read it.
                Ok(Place::RootAbove) => {
                    self.restart(cursor)?;
                    continue;
                }
                Err(what) => {
                    cursor.at.again(self.root, what)?;
                    self.restart(cursor)?;
                    continue;
                }
            };
            if let Some(child) = cursor.child
                && page.has_lost()
            {
                match self.is_child(child, &page, cursor.key) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Progress::Gone),
                    Err(_) if cursor.looks == LOOKS_MAX => return Ok(Progress::Gone),
                    Err(need) => {
                        cursor.looks += 1;
                        return Err(need);
                    }
                }
            }
            let found = page.search(cursor.key);
            return match change(&page, found, line) {
                Ok((result, dirty)) => {
                    self.mark_changed(&mut guard, dirty, cursor.level);
                    strict_assert!(
                        self.limits.check_key(cursor.key).is_ok() || cursor.level > 0,
                        "a key that was not checked"
                    );
                    if let (0, Some(next)) = (cursor.level, page.slot_behind(found)) {
                        let start = Beginning::of(cursor.key);
                        self.hints.recent.leaf(start).note(start, addr, &Hint::default(), next);
                    }
                    Ok(Progress::Done(result))
                }
                Err(Edit::Full) => self.split(cursor, guard),
                Err(Edit::Broken(what)) => Err(broken(what)),
            };
        }
    }

    /// Opens the page of `addr` under its write guard, on the way of `seek` to the page on `level`.
    #[inline]
    fn open_on<'a>(
        &self,
        addr: GlobalAddr,
        words: Words<'a>,
        seek: Seek<'_>,
        level: u8,
    ) -> Result<Place<'a>, Broken> {
        let page = Page::open(words, self.tag)?;
        if page.header.level != level {
            if addr != self.root || page.header.level < level {
                return Err(Broken("a page on another level than the way to it"));
            }
            return Ok(Place::RootAbove);
        }
        Ok(step_right(&page, seek)?.map_or(Place::Here(page), Place::Right))
    }

    /// Whether `child` is in the tree and belongs to `parent`, which is under its write guard, as
    /// the child of `separator`. A page leaves the tree only under the guard of its parent.
    #[cold]
    fn is_child(
        &self,
        child: GlobalAddr,
        parent: &Page<'_>,
        separator: &[u8],
    ) -> Result<bool, Stop> {
        let level = parent.header.level;
        let is_child =
            |page: &Page<'_>| Ok(page.header.level + 1 == level && page.low_is(separator));
        match self.read_page(child, is_child) {
            Err(Stop::Broken(..)) => Ok(false),
            is_child => is_child,
        }
    }

    /// Marks the bytes that a change of a page on `level` wrote. In a stamped tree every change of
    /// a leaf changes its structure number, whichever operation made the change.
    #[inline(always)]
    pub(super) fn mark_changed(&self, guard: &mut WriteGuard<'_>, dirty: Dirty, level: u8) {
        let page_at = self.page_at * WORD;
        for Range { start, end } in dirty.ranges() {
            let is_stamped = level == 0 && self.config.stamped;
            if is_stamped {
                let stamp = LeafStamp::load(guard.words());
                strict_assert!(
                    stamp.changed().structure != stamp.structure,
                    "a change keeps the structure"
                );
                stamp.changed().store_structure(guard.words());
            }
            // The leaf stamp is in front of the page.
            let start = if is_stamped { LINE_HEADER } else { start + page_at };
            guard.mark_line_dirty(start..end + page_at);
            strict_assert!(start <= end + page_at, "a dirty range ends before it begins");
        }
    }

    /// Returns the cursor to the root.
    pub(super) fn restart(&self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        self.count_visit(&mut cursor.at)?;
        cursor.at.turn(self.root, None);
        cursor.arrived = false;
        cursor.prepared = None;
        Ok(())
    }

    /// Posts a page to the level above. A second post of the same page changes nothing. The post
    /// may split pages of that level, whose halves are posted to the next level, and so on.
    async fn post(&self, post: Post) -> Result<(), TreeError> {
        let mut posts = vec![post];
        while let Some(post) = posts.last_mut() {
            let cut = std::mem::replace(&mut post.cut, GlobalAddr::NULL);
            if !cut.is_null() {
                self.memory.persist(cut).await?;
            }
            let post = &*post;
            let child = Some(post.child);
            let mut cursor = Cursor { child, ..self.cursor(&post.separator, post.level) };
            let mut change =
                |page: &Page<'_>, found, _: Line<'_>| self.insert_child(page, found, post);
            strict_assert!(post.level > 0 && !post.child.is_null(), "a child without a level");
            match self.advance(&mut cursor, &mut change).await? {
                Progress::Split(above) => posts.extend(above),
                Progress::Done(new) => {
                    if let Some(slot) = new {
                        self.shift_hints(cursor.at.addr, slot);
                    }
                    posts.pop();
                }
                Progress::Gone => drop(posts.pop()),
                Progress::Spares(_) | Progress::Persist => {}
            }
        }
        Ok(())
    }

    /// Adds a child, unless the page has the child already. The result is the slot of the new
    /// child.
    fn insert_child(
        &self,
        page: &Page<'_>,
        found: Found,
        post: &Post,
    ) -> Result<(Option<usize>, Dirty), Edit> {
        let known = if page.low_is(&post.separator) { Ok(0) } else { found };
        match known {
            Ok(slot) if page.child(slot)? == post.child => Ok((None, Dirty::default())),
            Ok(_) => Err(Broken("one separator for two children").into()),
            Err(_) if page.header.count() >= self.config.max_entries(post.level) => Err(Edit::Full),
            Err(slot) => {
                let child = post.child.bits().to_le_bytes();
                page.insert(slot, &post.separator, &child).map(|dirty| (Some(slot), dirty))
            }
        }
    }

    /// Posts a page that this operation reached only by a right link, because the split of that
    /// page may have been cancelled. An error is ignored: this operation is done, and the next
    /// writer that follows the link tries again.
    async fn repair(&self, missing: Post) {
        if let Ok(false) = self.is_posted(&missing).await {
            let _ = self.post(missing).await;
        }
    }

    /// Whether the level above contains the page already.
    async fn is_posted(&self, post: &Post) -> Result<bool, TreeError> {
        let key = post.separator.as_slice();
        let mut at = Descent::new(self.root, None);
        let find = || {
            let known =
                |page: &Page<'_>, _: Line<'_>| Ok(page.low_is(key) || page.search(key).is_ok());
            self.find(&mut at, Seek::At(key), post.level, known)
        };
        self.drive(find).await
    }
}
