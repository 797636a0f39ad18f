//! Empty pages leave the tree.
//!
//! ```text
//!            parent [ a, g, n ]                          parent [ a, n ]  lost
//!            /      |      \                             /             \
//!   A [a ··) ─► X [g  ) ─► R [n ··)             A [a ········) ──────► R [n ··)       X  out
//! ```
//!
//! One step holds the write guards of an empty page X, its left sibling A and their parent. It
//! changes three pages:
//!
//! 1. A takes over the high fence, the right link and the timestamps of X.
//! 2. X gets the mark *out*.
//! 3. The parent loses its entry of X, and is *lost* from then on.
//!
//! Then the line of X is freed. An inner page with one child leaves the tree in the same way: its
//! left sibling takes over the child, too. If a future is dropped or a node dies after the removal
//! and before the step, an empty leaf stays, which is correct. If it happens after the step, the
//! line stays allocated until the handle frees it. There is no state between.
//!
//! A page that is the first child of its parent stays, because its left sibling has another parent.
//! So an inner page may keep one empty leaf until it has no other child. The root keeps its level.
//!
//! # Why no operation takes a wrong page for the page of its key
//!
//! A page is *live* from the step that links it to the step that marks it *out*. The claim is: a
//! live page of the right level whose fence keys enclose a key is the page of that key, wherever
//! its address comes from. A reader may use it if its read validates, a writer under its guard.
//!
//! 1. At each instant, the ranges of the live pages of a level do not overlap and cover all keys. A
//!    split and the step above change all pages that it concerns at one instant: all their guards
//!    are held until the last write. The new page of a split is known to no operation before.
//! 2. In a line that was used before, an operation may know the address of a new page. So the new
//!    page is written under the guard of the page that is cut (`split`).
//! 3. A page that is out keeps its mark until its line is allocated again. Then the line holds
//!    something else, or a page with the mark *later*.
//! 4. So a reader that checks the tag and both fence keys needs to know nothing of the address.
//!    This is the check of `Page::open` and `Page::place`.
//! 5. A lookup on the fast path checks no low fence of a page without a mark. Such a page is the
//!    first in its line. Its parent led there, so its low fence was not above the key, and a low
//!    fence never changes.
//! 6. An operation that finds no live page, or a low fence above its key, starts again at the root.
//!    If it has read the address since it began, the line had no other life since ([epochs]), and
//!    only the mark *out* is a reason to start again. Anything else is damage.
//!
//! # Why a late post does not bring a page back
//!
//! A split posts its new page X later, perhaps after X has left the tree. A post looks at X under
//! the guard of the parent. X leaves only under that guard. If X is not live with the separator as
//! its low fence, there is nothing to post. A parent that has lost no child needs no look: X was
//! posted before it could leave, so its parent is lost. Halves of a lost page are lost as well.
//!
//! [epochs]: latchwork_coherence::CoherentMemory::enter

use latchwork_cache::WriteGuard;
use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::Tree;
use super::descent::{Descent, Stop};
use crate::TreeError;
use crate::leaf_stamp::{LeafStamp, Line};
use crate::page::{Broken, Dirty, Edit, Page, Place, Seek, write_joined};

/// The maximum number of lines to obtain for one step. After them the page stays.
const NEEDS_MAX: u32 = 64;
/// The maximum number of times that other operations may change the pages of a plan.
const PLANS_MAX: u32 = 4;
/// The maximum number of right links between the child before X and X. There are more than one only
/// if posts are missing.
const SIBLINGS_MAX: u32 = 8;

/// The three pages of a step.
#[derive(Clone, Copy, Debug)]
struct Family {
    parent: GlobalAddr,
    left: GlobalAddr,
    page: GlobalAddr,
}

/// What can be done with the page of a key on a level.
enum Plan {
    Stays,
    /// The page is the only child of its parent. The parent may leave the tree first.
    OnlyChild,
    Leaves(Family),
    /// Another operation has changed the pages during the look at them.
    Changed,
}

/// What became of the page of a key on a level.
enum Outcome {
    Stays,
    /// Too many lines were not here, or too many other operations changed the pages.
    GaveUp,
    OnlyChild,
    Left {
        /// Whether the parent has one child now, and is not the root.
        parent_may_leave: bool,
    },
}

impl<M: CoherentMemory> Tree<M> {
    /// Call this after the removal of `key` from a leaf that had `count` entries. `None`: nothing
    /// was removed.
    #[inline]
    pub(super) async fn after_removal(&self, key: &[u8], count: Option<usize>) {
        if count == Some(1) || count.is_some() && self.leaving.has_met() {
            Box::pin(self.clean_up(key, count == Some(1))).await;
        }
    }

    /// Whether pages leave the tree. Where lines do not stay, three lines are never here at one
    /// time. Where a death may return each of the three pages to an older version by itself, the
    /// step is no step.
    pub(super) fn unlinks(&self) -> bool {
        self.memory.keeps_lines() && !self.memory.persists()
    }

    /// Takes empty pages out of the tree and frees their lines. An error is ignored: the removal is
    /// done, and a later one does what is left.
    async fn clean_up(&self, key: &[u8], is_empty: bool) {
        let met = self.leaving.take_met();
        if !self.unlinks() {
            return;
        }
        if is_empty {
            let _ = self.unlink(key).await;
        }
        if let Some(low) = met
            && let Ok(true) = self.unlink(&low).await
        {
            self.leaving.stays(low);
        }
        let _ = self.free_unlinked().await;
    }

    /// Takes the leaf of `key` out of the tree if it is empty, and also each inner page above it
    /// that has one child left. Returns whether all of them have to stay.
    async fn unlink(&self, key: &[u8]) -> Result<bool, TreeError> {
        let operation = self.memory.enter().await?;
        let (mut level, mut has_moved) = (0, false);
        let mut stays = true;
        loop {
            level = match self.unlink_page(key, level).await? {
                Outcome::OnlyChild => level + 1,
                Outcome::Left { parent_may_leave } => {
                    stays = false;
                    has_moved |= level > 0;
                    if parent_may_leave { level + 1 } else { 0 }
                }
                // The leaf has got another parent, and siblings there.
                Outcome::Stays if has_moved => {
                    has_moved = false;
                    0
                }
                Outcome::Stays => break,
                Outcome::GaveUp => {
                    stays = false;
                    break;
                }
            };
        }
        drop(operation);
        Ok(stays)
    }

    async fn unlink_page(&self, key: &[u8], level: u8) -> Result<Outcome, TreeError> {
        for _ in 0..PLANS_MAX {
            let mut at = Descent::new(self.root, None);
            let plan = self.drive_briefly(|| self.plan(&mut at, key, level)).await?;
            let family = match plan {
                Some(Plan::Leaves(family)) => family,
                Some(Plan::OnlyChild) => return Ok(Outcome::OnlyChild),
                Some(Plan::Stays) => return Ok(Outcome::Stays),
                Some(Plan::Changed) => continue,
                None => break,
            };
            match self.drive_briefly(|| self.take_out(family, key, level)).await? {
                Some(Some(outcome)) => {
                    if !self.config.rules.marks_at_once {
                        self.memory.handle().yield_now().await;
                        self.drive(|| self.mark_later(family.page, level)).await?;
                    }
                    if let Outcome::Left { .. } = outcome {
                        self.leaving.stays(Vec::new());
                    }
                    return Ok(outcome);
                }
                Some(None) => {}
                None => break,
            }
        }
        Ok(Outcome::GaveUp)
    }

    /// Like [`drive`](Tree::drive), but gives up after some lines. `None`: gave up.
    async fn drive_briefly<R>(
        &self,
        mut step: impl FnMut() -> Result<R, Stop>,
    ) -> Result<Option<R>, TreeError> {
        let mut _ticket = None;
        for _ in 0..NEEDS_MAX {
            match step() {
                Ok(done) => return Ok(Some(done)),
                Err(Stop::Broken(page, broken)) => return Err(self.corrupt(page, broken)),
                Err(Stop::Need(need)) => {
                    drop(_ticket.take());
                    _ticket = Some(self.memory.ensure(need).await?);
                }
            }
        }
        Ok(None)
    }

    /// Looks for the page of `key` on `level`, its parent and its left sibling.
    fn plan(&self, at: &mut Descent, key: &[u8], level: u8) -> Result<Plan, Stop> {
        match self.plan_family(at, key, level) {
            Err(Stop::Broken(_, what)) if what.is_no_page() => Ok(Plan::Changed),
            plan => plan,
        }
    }

    fn plan_family(&self, at: &mut Descent, key: &[u8], level: u8) -> Result<Plan, Stop> {
        if self.read_page(self.root, |page| Ok(page.header.level))? <= level {
            return Ok(Plan::Stays);
        }
        let child_of_key = |page: &Page<'_>, _: Line<'_>| {
            let slot = slot_of(page, key)?;
            let before = slot.checked_sub(1).map(|before| page.child(before)).transpose()?;
            Ok((page.child(slot)?, before, page.header.count()))
        };
        let (page, before, count) = self.find(at, Seek::At(key), level + 1, child_of_key)?;
        let parent = at.addr;
        if before.is_none() && (count > 1 || parent == self.root) {
            return Ok(Plan::Stays);
        }
        let may_leave = |page: &Page<'_>| Ok(may_leave(page, key, level));
        if !self.read_page(page, may_leave)? {
            return Ok(Plan::Stays);
        }
        let Some(mut left) = before else { return Ok(Plan::OnlyChild) };
        for _ in 0..SIBLINGS_MAX {
            let right = self.read_page(left, |page| Ok(page.header.right))?;
            if right == page {
                return Ok(Plan::Leaves(Family { parent, left, page }));
            }
            if right.is_null() {
                break;
            }
            left = right;
        }
        Ok(Plan::Stays)
    }

    /// Takes the page of the family out of the tree, under three guards. `None`: the pages have
    /// changed since the plan.
    fn take_out(&self, of: Family, key: &[u8], level: u8) -> Result<Option<Outcome>, Stop> {
        let rules = self.config.rules;
        let write = |addr| self.memory.try_write(addr).map_err(Stop::Need);
        let (mut parent, mut left, mut page) =
            (write(of.parent)?, write(of.left)?, write(of.page)?);
        let (Some(above), Some(before), Some(gone)) = (
            self.live(parent.line(), level + 1),
            self.live(left.line(), level),
            self.live(page.line(), level),
        ) else {
            return Ok(None);
        };
        let slot = match above.place(Seek::At(key)) {
            Ok(Place::Here) => slot_of(&above, key).unwrap_or(0),
            _ => 0,
        };
        let is_family =
            slot > 0 && above.child(slot) == Ok(of.page) && before.header.right == of.page;
        let is_empty = may_leave(&gone, key, level) || level == 0 && !rules.looks_again;
        if !is_family || !is_empty {
            return Ok(None);
        }
        strict_assert!(before.high() == gone.low(), "a right sibling begins elsewhere");
        let image = self.image();
        let has_room = level == 0 || before.header.count() < self.config.max_entries(level);
        let joined = write_joined(&before, &gone, self.image_page(&image));
        if !joined.map_err(|broken| Stop::Broken(of.left, broken))? || !has_room {
            return Ok(Some(Outcome::Stays));
        }

        let dirty = match above.lose_child(slot) {
            Ok(dirty) => dirty,
            Err(Edit::Broken(broken)) => return Err(Stop::Broken(of.parent, broken)),
            Err(Edit::Full) => return Ok(Some(Outcome::Stays)),
        };
        self.mark_changed(&mut parent, dirty, level + 1);
        if rules.links_neighbour {
            let (stamp, taken) = (LeafStamp::load(left.words()), LeafStamp::load(page.words()));
            // The keys that the left sibling had have not changed.
            self.stamp_image(&image, stamp.raised(taken.read, taken.removed));
            left.words().copy_from(image.words());
            left.mark_dirty(0..image.words().len());
        }
        if rules.marks_at_once {
            self.mark_out(&mut page, level);
        }
        drop((parent, left, page));
        self.close_hints(of.parent, slot);
        let parent_may_leave = above.header.count() == 2 && of.parent != self.root;
        Ok(Some(Outcome::Left { parent_may_leave }))
    }

    /// The page in a line, if it is a live page of the tree on this level.
    fn live<'a>(&self, line: Words<'a>, level: u8) -> Option<Page<'a>> {
        let page = Page::open(self.page_words(line), self.tag).ok()?;
        (page.header.level == level).then_some(page)
    }

    /// Marks a page that is no longer linked.
    fn mark_out(&self, page: &mut WriteGuard<'_>, level: u8) {
        self.tag.out().store(self.page_words(page.line()));
        self.mark_changed(page, Dirty::range(0..2 * WORD), level);
        self.leaving.unlinked.set(self.leaving.unlinked.get() + 1);
        self.memory.count_leaves(1, 0);
        let lines =
            if self.config.rules.frees_by_epochs { &self.leaving.lines } else { &self.spares };
        lines.borrow_mut().push(page.addr());
    }

    /// The second half of a step in two halves, which is a bug that a checker makes on purpose.
    fn mark_later(&self, page: GlobalAddr, level: u8) -> Result<(), Stop> {
        let mut guard = self.memory.try_write(page).map_err(Stop::Need)?;
        self.mark_out(&mut guard, level);
        Ok(())
    }
}

/// The slot of the child that leads to `key`.
fn slot_of(page: &Page<'_>, key: &[u8]) -> Result<usize, Broken> {
    let slot = page.search(key).map_or_else(|behind| behind.checked_sub(1), Some);
    slot.ok_or(Broken("no child below its first separator"))
}

/// Whether the page of `key` on `level` has nothing that keeps it in the tree.
fn may_leave(page: &Page<'_>, key: &[u8], level: u8) -> bool {
    page.header.level == level
        && page.header.count() == usize::from(level > 0)
        && page.place(Seek::At(key)) == Ok(Place::Here)
}
