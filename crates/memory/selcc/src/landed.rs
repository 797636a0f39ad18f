//! The end of a word operation: the line machine gets the completion, or the line fails.

use latchwork_latch::{Event, WordOp};
use latchwork_strict::strict_assert;
use latchwork_verbs::{Target, VerbError};

use crate::counts::LatchCount;
use crate::line::mark_whole;
use crate::operations::Finished;
use crate::selcc::{LatchSite, Selcc};

impl Selcc {
    /// Handles the end of a word operation and its forwards.
    #[inline]
    pub(crate) fn operation_ended(&self, site: &mut LatchSite<'_>, end: Finished) {
        match (end.failed, end.op) {
            // Whether the word changed may be unknown, so this node may not touch the line again.
            (Some(error), op) => {
                if op == Some(WordOp::Persist) {
                    site.worker.persisted(site.addr, Err(error));
                }
                site.local.fail(error);
                site.worker.give_frame_back(site.local);
            }
            // The word discipline never writes such a word. The line was not read, and the word
            // does not name the nodes to request the line from.
            (None, Some(op)) if op.reads_line() && end.old.is_impossible() => {
                site.local.fail(VerbError::Ambiguous { target: Target::Memory(site.addr.node()) });
                site.worker.give_frame_back(site.local);
            }
            (None, Some(op)) => {
                strict_assert!(site.line.landed.is_none(), "R1: two operations on {}", site.addr);
                site.line.landed = Some((op, end.old));
                self.complete_landed(site);
            }
            // The operation could not be posted, which has failed the line already.
            (None, None) => {
                strict_assert!(site.local.failed.is_some(), "{} lost its operation", site.addr);
            }
        }
    }

    /// Reports an operation complete to the line machine, when no probe of its forwards is pending.
    #[inline]
    pub(crate) fn complete_landed(&self, site: &mut LatchSite<'_>) {
        if !site.local.is_in_doubt()
            && let Some((op, old)) = site.line.landed.take()
        {
            let swapped = op.expected(site.worker.node.id()) == Some(old);
            match op {
                WordOp::TakeOver(_) | WordOp::UpgradeOver(_) if swapped => {
                    LatchCount::Takeovers.count(site.worker);
                }
                WordOp::Persist => site.worker.persisted(site.addr, Ok(())),
                _ => {}
            }
            if swapped
                && self.rules.inherits_changes
                && matches!(op, WordOp::Inherit(_))
                && let Some(id) = site.local.frame
            {
                mark_whole(site.worker.node.cache().frame(id));
            }
            self.drive(site, Event::Completed { op, old });
        }
    }
}
