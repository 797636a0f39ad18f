//! The path from the root to a page. Plain functions stop at the first line that is not here, and a
//! loop obtains that line.

use latchwork_coherence::{AccessMode, CoherentMemory, Need};
use latchwork_verbs::GlobalAddr;

use super::Tree;
use super::descent::{Descent, Post, Stop, Turn};
use crate::TreeError;
use crate::leaf_stamp::Line;
use crate::page::{Broken, Page, Place, Seek};

/// The maximum number of attempts of an optimistic read. After them the reader returns a need for
/// the line, and so waits for the writers.
const READS_MAX: u32 = 8;
/// The maximum number of times that one step may have to obtain a line. Each time another operation
/// has taken a line away, and so made progress.
const ROUNDS_MAX: u32 = 1_000_000;
/// The maximum number of pages that one descent visits: far more than a tree has levels and
/// unfinished splits.
const VISITS_MAX: u32 = 1 << 16;
const _: () = assert!(
    READS_MAX > 0 && VISITS_MAX > crate::page::LEVEL_MAX as u32,
    "a descent visits each level"
);

/// The result of a visit of a page.
enum Visit<R> {
    Turn(Turn),
    Arrived(R),
}

impl<M: CoherentMemory> Tree<M> {
    pub(super) fn corrupt(&self, page: GlobalAddr, broken: Broken) -> TreeError {
        TreeError::Corrupt { page, what: broken.0.into() }
    }

    /// Repeats a step until it finishes. Between two attempts, obtains one line.
    pub(super) async fn drive<R>(
        &self,
        mut step: impl FnMut() -> Result<R, Stop>,
    ) -> Result<R, TreeError> {
        let mut rounds = Rounds::default();
        let mut _ticket = None;
        loop {
            match step() {
                Ok(done) => return Ok(done),
                Err(Stop::Broken(page, broken)) => return Err(self.corrupt(page, broken)),
                Err(Stop::Need(need)) => {
                    rounds.count(need)?;
                    drop(_ticket.take());
                    _ticket = Some(self.memory.ensure(need).await?);
                }
            }
        }
    }

    /// Reads one page. `read` may see any bytes. Its result counts only if the page was consistent.
    pub(super) fn read_page<R>(
        &self,
        addr: GlobalAddr,
        mut read: impl FnMut(&Page<'_>) -> Result<R, Broken>,
    ) -> Result<R, Stop> {
        self.read_page_of(addr, None, |page, _| read(page))
    }

    /// Like [`read_page`](Tree::read_page), for a page whose level may be known.
    #[inline]
    pub(super) fn read_page_of<R>(
        &self,
        addr: GlobalAddr,
        level: Option<u8>,
        mut read: impl FnMut(&Page<'_>, Line<'_>) -> Result<R, Broken>,
    ) -> Result<R, Stop> {
        for _ in 0..READS_MAX {
            let seen = self.memory.try_read(addr).map_err(Stop::Need)?;
            let words = self.page_words(seen.line());
            if level == Some(0) {
                Page::fetch_leaf(words);
            }
            let line = Line::new(addr, seen.line());
            let result = Page::open(words, self.tag).and_then(|page| read(&page, line));
            if seen.validate() {
                return result.map_err(|broken| Stop::Broken(addr, broken));
            }
        }
        Err(Stop::Need(Need { addr, mode: AccessMode::Shared }))
    }

    /// Descends to the page of `level` to which `seek` leads, and visits the page.
    pub(super) fn find<R>(
        &self,
        at: &mut Descent,
        seek: Seek<'_>,
        level: u8,
        mut visit: impl FnMut(&Page<'_>, Line<'_>) -> Result<R, Broken>,
    ) -> Result<R, Stop> {
        loop {
            self.count_visit(at)?;
            let visited = self.read_page_of(at.addr, at.level, |page, line| {
                match self.turn(at, page, seek, level)? {
                    Some(turn) => Ok(Visit::Turn(turn)),
                    None => visit(page, line).map(Visit::Arrived),
                }
            });
            match visited {
                Ok(Visit::Turn(turn)) => at.follow(turn),
                Ok(Visit::Arrived(result)) => return Ok(result),
                Err(Stop::Broken(_, what)) => at.again(self.root, what)?,
                Err(need) => return Err(at.not_visited(need)),
            }
        }
    }

    /// Descends to the page of `level` to which the parent level leads for `seek`, and does not
    /// read that page. So a writer can request the page in exclusive mode at once.
    pub(super) fn approach(&self, at: &mut Descent, seek: Seek<'_>, level: u8) -> Result<(), Stop> {
        while at.level != Some(level) {
            self.count_visit(at)?;
            match self.read_page(at.addr, |page| self.turn(at, page, seek, level)) {
                Ok(Some(turn)) => at.follow(turn),
                Ok(None) => break,
                Err(Stop::Broken(_, what)) => at.again(self.root, what)?,
                Err(need) => return Err(at.not_visited(need)),
            }
        }
        Ok(())
    }

    /// The next step of `seek` from `page`. `None` when `page` is on `level`.
    #[inline]
    fn turn(
        &self,
        at: &Descent,
        page: &Page<'_>,
        seek: Seek<'_>,
        level: u8,
    ) -> Result<Option<Turn>, Broken> {
        let here = page.header.level;
        if page.header.tag != self.tag {
            self.leaving.has_used.set(true);
        }
        // Only the root changes its level: the level rises while the address stays.
        if at.level.is_some_and(|level| level != here) && at.addr != self.root {
            return Err(Broken("a page on another level than the way to it"));
        }
        if let Some(post) = step_right(page, seek)? {
            return Ok(Some(Turn::Right(post)));
        }
        match here.cmp(&level) {
            std::cmp::Ordering::Equal => Ok(None),
            std::cmp::Ordering::Greater => Ok(Some(Turn::Down(page.child_for(seek)?, here - 1))),
            std::cmp::Ordering::Less => Err(Broken("the tree has fewer levels than it had")),
        }
    }

    pub(super) fn count_visit(&self, at: &mut Descent) -> Result<(), Stop> {
        at.visits += 1;
        if at.visits > VISITS_MAX {
            return Err(Stop::Broken(at.addr, Broken("right links without end")));
        }
        Ok(())
    }
}

/// The right link of `page`, if `seek` leads beyond the high fence.
#[inline]
pub(super) fn step_right(page: &Page<'_>, seek: Seek<'_>) -> Result<Option<Post>, Broken> {
    match page.place(seek)? {
        Place::Here => Ok(None),
        Place::Right(child) => Ok(Some(right_link(page, child))),
    }
}

#[cold]
fn right_link(page: &Page<'_>, child: GlobalAddr) -> Post {
    let (level, separator) = (page.header.level + 1, page.high());
    Post { level, separator, child, cut: GlobalAddr::NULL }
}

/// Counts the lines that one step had to obtain.
#[derive(Debug, Default)]
pub(super) struct Rounds(u32);

impl Rounds {
    pub(super) fn count(&mut self, need: Need) -> Result<(), TreeError> {
        self.0 += 1;
        if self.0 > ROUNDS_MAX {
            return Err(TreeError::Starved { page: need.addr, rounds: ROUNDS_MAX });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use latchwork_verbs::MemoryNodeId;

    use super::*;

    /// Bug: a strict build panicked where an ordinary build returns `Starved`. Mechanism: an
    /// assertion of the bound stood before the test of the bound, and other writers can cause the
    /// case. Fix: no assertion.
    #[test]
    fn a_step_that_loses_its_lines_too_often_is_starved_in_a_strict_build_too() {
        let addr = GlobalAddr::new(MemoryNodeId(0), 512);
        let need = Need { addr, mode: AccessMode::Shared };
        let mut rounds = Rounds(ROUNDS_MAX - 1);
        rounds.count(need).expect("the last round that is permitted");
        let error = rounds.count(need).expect_err("one round too many");
        assert!(
            matches!(error, TreeError::Starved { page, rounds: ROUNDS_MAX } if page == addr),
            "{error}"
        );
    }
}
