//! [`Frame`]: a page on the path of a writer.

use latchwork_cache::Hint;
use latchwork_verbs::GlobalAddr;
use smallvec::SmallVec;

use crate::page::Link;

/// The pages from the root on. The path of a usual tree needs no memory of its own.
pub(super) type Path<'m> = SmallVec<[Frame<'m>; 8]>;

/// A page on the path from the root to a leaf, as the writer has seen it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'m> {
    pub(super) addr: GlobalAddr,
    pub(super) hint: &'m Hint,
    /// The page's level. `None` for the root before it was read.
    pub(super) level: Option<u8>,
    /// The sequence number of the page when its entry for the next frame was read. The entry stays
    /// in the page or in a right sibling, up to the one with this number.
    pub(super) sequence: u32,
    /// The link of the entry that led to the page, in the frame above; `None` for the root.
    pub(super) link: Option<Link>,
    /// The page that the entry above names. It is another page than this one if right links led
    /// here from there.
    pub(super) named: GlobalAddr,
}

impl<'m> Frame<'m> {
    pub(super) fn root(addr: GlobalAddr, hint: &'m Hint) -> Frame<'m> {
        Frame { addr, hint, level: None, sequence: 0, link: None, named: addr }
    }

    /// Whether the entry above is that of another page, and right links led here.
    pub(super) fn is_sibling(&self) -> bool {
        self.named != self.addr
    }

    /// Whether the entry above is the page's own, and expects this number of the page. Otherwise
    /// the page was split, and its box above may not shrink.
    pub(super) fn is_known(&self, sequence: u32) -> bool {
        !self.is_sibling() && self.link.is_some_and(|link| link.expects == sequence)
    }

    /// A page below a page of `level`.
    pub(super) fn below(level: u8, (addr, hint): (GlobalAddr, &'m Hint), link: Link) -> Frame<'m> {
        let (level, link) = (Some(level.saturating_sub(1)), Some(link));
        Frame { addr, hint, level, sequence: 0, link, named: addr }
    }
}
