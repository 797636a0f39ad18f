//! [`Image`]: a page outside of shared memory.

use std::sync::atomic::AtomicU64;

use latchwork_verbs::Words;

use super::{Layout, Page};
use crate::Rect;

/// A page that no other task can see.
#[derive(Debug)]
pub(crate) struct Image(Box<[AtomicU64]>);

impl Image {
    /// A page of zeros.
    pub(crate) fn zeroed(layout: &Layout) -> Image {
        Image((0..layout.bytes() / 8).map(|_| AtomicU64::new(0)).collect())
    }

    /// An empty page.
    pub(crate) fn new<const D: usize>(layout: &Layout, level: u8, cover: &Rect<D>) -> Image {
        let image = Image::zeroed(layout);
        image.page(layout).format(level, cover);
        image
    }

    pub(crate) fn words(&self) -> Words<'_> {
        Words::new(&self.0)
    }

    /// The page, whatever is in it.
    pub(crate) fn page<'a, const D: usize>(&'a self, layout: &'a Layout) -> Page<'a, D> {
        Page::unchecked(self.words(), layout)
    }
}
