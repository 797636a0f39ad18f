//! Write-backs in place, with the setting `survive`.

use latchwork_engine::Persist;
use latchwork_latch::{Event, Hold, WordOp};
use latchwork_strict::strict_assert;

use crate::line::{is_whole, take_whole};
use crate::selcc::{LatchSite, Selcc};

impl Selcc {
    /// Copies the changes of the line, and posts their write-back.
    ///
    /// A node that is not the holder has changes only on their way to memory: with its operation in
    /// flight.
    pub(crate) fn write_back_in_place(&self, site: &mut LatchSite<'_>) -> Persist {
        let (machine, frame) = (&site.line.machine, site.local.frame);
        let frame_of = |id| site.worker.node.cache().frame(id);
        let is_clean =
            || frame.is_none_or(|id| frame_of(id).dirty().is_empty() && !is_whole(frame_of(id)));
        match machine.writing_back(&self.rules) {
            Some(WordOp::Persist) => return Persist::InFlight { has_all: is_clean() },
            Some(_) => return Persist::NotNow,
            None if machine.hold() != Hold::Exclusive || is_clean() => return Persist::Done,
            None if !machine.can_persist() => return Persist::NotNow,
            None => {}
        }
        let Some(id) = frame else { return Persist::Done };
        let whole = is_whole(frame_of(id));
        let Some(copied) = site.worker.copy_in_place(site.addr, id, whole) else {
            return Persist::NotNow;
        };
        take_whole(frame_of(id));
        site.in_flight.copied.set(Some(copied));
        self.drive(site, Event::Persist);
        let left = site.in_flight.copied.take();
        strict_assert!(left.is_none(), "a copy of {} is posted at once", site.addr);
        Persist::Begun
    }
}
