//! [`Prepared`]: the new pages of a split that is not done yet.

use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use crate::page::Image;

/// New pages that no other operation can reach, and their intended content.
#[derive(Debug)]
pub(super) struct Prepared(pub(super) Vec<NewPage>);

/// A new page, and whether its content is written.
#[derive(Debug)]
pub(super) struct NewPage {
    pub(super) addr: GlobalAddr,
    pub(super) image: Image,
    pub(super) filled: bool,
    /// Whether memory has the content, so that another page may link to the page.
    pub(super) persisted: bool,
    /// The number of the line's life, once the page is filled.
    pub(super) life: u32,
}

impl Prepared {
    /// Marks the pages as written that `earlier` has written with the same content.
    pub(super) fn inherit(&mut self, earlier: Option<Prepared>) {
        let Some(earlier) = earlier else { return };
        strict_assert!(self.0.iter().all(|new| !new.filled), "a new page is filled already");
        for (new, old) in self.0.iter_mut().zip(earlier.0) {
            new.filled = old.filled && new.addr == old.addr && new.image == old.image;
            new.life = if new.filled { old.life } else { 0 };
            new.persisted = new.filled && old.persisted;
        }
    }
}
