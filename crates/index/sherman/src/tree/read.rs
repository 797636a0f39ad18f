//! Reads of nodes without their locks, as often as it takes.

use std::rc::Rc;

use latchwork_verbs::GlobalAddr;

use super::Inner;
use crate::ShermanError;
use crate::node::{Content, Header, Torn, View};

impl Inner {
    pub(super) fn corrupt(node: GlobalAddr, what: &'static str) -> ShermanError {
        ShermanError::Corrupt { node, what }
    }

    fn check_header(&self, node: GlobalAddr, header: &Header) -> Result<(), ShermanError> {
        if header.tag == self.tag {
            Ok(())
        } else {
            Err(Inner::corrupt(node, "it is no node of this tree"))
        }
    }

    /// Reads a node until `look` finds what it looks for in parts that belong together. After
    /// [`tries`](crate::Config::tries) READs the node is read under its lock.
    pub(super) async fn examine<R>(
        self: &Rc<Self>,
        node: GlobalAddr,
        mut look: impl FnMut(&View<'_>, &Header) -> Result<R, Torn>,
    ) -> Result<R, ShermanError> {
        let handle = &self.resources.handle;
        for _ in 0..self.config.tries {
            let begun = handle.now();
            let words = self.read_words(node).await?;
            let in_time = handle.now() - begun <= self.config.longest_read
                || self.layout.check == crate::Check::Checksum;
            let view = View { layout: &self.layout, words: &words };
            if in_time && let Ok(header) = view.header() {
                self.check_header(node, &header)?;
                if let Ok(found) = look(&view, &header) {
                    return Ok(found);
                }
            }
            self.counters.count(|c| c.repeated += 1);
        }
        self.counters.count(|c| c.locked_reads += 1);
        let guard = self.lock(node).await?;
        let words = self.read_words(node).await?;
        let view = View { layout: &self.layout, words: &words };
        let found = match view.header() {
            Ok(header) => {
                self.check_header(node, &header)?;
                look(&view, &header).ok()
            }
            Err(Torn) => None,
        };
        guard.release().await?;
        found.ok_or(Inner::corrupt(node, "its parts do not belong together"))
    }

    /// Everything that a node says.
    pub(super) async fn content(
        self: &Rc<Self>,
        node: GlobalAddr,
    ) -> Result<Content, ShermanError> {
        self.examine(node, |view, header| view.content(header)).await
    }

    /// The header of a node whose lock this task has.
    pub(super) fn header_under_lock(
        &self,
        node: GlobalAddr,
        view: &View<'_>,
    ) -> Result<Header, ShermanError> {
        let torn = |_| Inner::corrupt(node, "its parts do not belong together");
        let header = view.header().map_err(torn)?;
        self.check_header(node, &header)?;
        Ok(header)
    }
}
