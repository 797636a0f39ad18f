//! [`Descent`]: a path from the root to a page, as far as it has come.

use latchwork_coherence::Need;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use crate::page::Broken;

/// The reason why a step did not finish.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// A line is not here. The caller obtains the line and calls again.
    Need(Need),
    /// The page is corrupt, as found by a validated read or under its write guard.
    Broken(GlobalAddr, Broken),
}

/// A separator with its child that the level above may not have yet. A split makes a post, and an
/// operation that follows a right link finds one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Post {
    /// The level to which the separator belongs.
    pub(super) level: u8,
    pub(super) separator: Vec<u8>,
    pub(super) child: GlobalAddr,
    /// The page that was cut at the separator, and is not known to be in memory; otherwise null.
    pub(super) cut: GlobalAddr,
}

/// A path down the tree that can be interrupted at any page. A descent stores its current page. As
/// long as that page is in the tree, it leads to the key. When it has left the tree, the descent
/// starts again at the root.
#[derive(Debug)]
pub(super) struct Descent {
    pub(super) addr: GlobalAddr,
    /// The level of the page at `addr`, if the page before it on the path determined the level.
    pub(super) level: Option<u8>,
    /// The number of pages that the descent has visited.
    pub(super) visits: u32,
    /// The last right link that the descent followed.
    pub(super) missing: Option<Post>,
    /// Whether the address was read during the operation in progress, or is that of the root. Then
    /// its line has had no other life since. Otherwise the line may be anything now.
    pub(super) sure: bool,
}

impl Descent {
    /// A descent from a page of `level`, whose address may be from before the operation. With
    /// `None`, the level is unknown, as for the root.
    pub(super) fn new(addr: GlobalAddr, level: Option<u8>) -> Descent {
        Descent { addr, level, visits: 0, missing: None, sure: level.is_none() }
    }

    /// Continues at another page.
    pub(super) fn turn(&mut self, addr: GlobalAddr, level: Option<u8>) {
        self.addr = addr;
        self.level = level;
    }

    /// Starts again at the root, unless the damage `what` of the page is certain.
    ///
    /// # Errors
    /// The damage.
    pub(super) fn again(&mut self, root: GlobalAddr, what: Broken) -> Result<(), Stop> {
        if self.addr == root || self.sure && what != Broken::OUT {
            return Err(Stop::Broken(self.addr, what));
        }
        self.turn(root, None);
        (self.sure, self.missing) = (true, None);
        Ok(())
    }

    /// Takes the last visit back: the page was not here, and comes next again.
    /// [`Rounds`](super::descend::Rounds) bounds how often.
    #[cold]
    pub(super) fn not_visited(&mut self, need: Stop) -> Stop {
        self.visits -= 1;
        need
    }

    /// Continues at the page to which `turn` leads.
    pub(super) fn follow(&mut self, turn: Turn) {
        self.sure = true;
        match turn {
            Turn::Right(post) => {
                strict_assert!(post.level > 0, "a leaf has no child");
                let cut = self.addr;
                self.turn(post.child, Some(post.level - 1));
                self.missing = Some(Post { cut, ..post });
            }
            Turn::Down(child, level) => self.turn(child, Some(level)),
        }
    }
}

/// The next page after a page.
pub(super) enum Turn {
    Right(Post),
    Down(GlobalAddr, u8),
}
