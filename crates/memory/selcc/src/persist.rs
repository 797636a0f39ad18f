//! Write-backs in place, with the setting `survive`.

use latchwork_engine::Persist;
use latchwork_latch::{Event, Hold, WordOp};
use latchwork_strict::strict_assert;

use crate::selcc::{LatchSite, Selcc};

impl Selcc {
    /// Copies the changes of the line, and posts their write-back.
    ///
    /// A node that is not the holder has changes only on their way to memory: with its operation in
    /// flight.
    pub(crate) fn write_back_in_place(&self, site: &mut LatchSite<'_>) -> Persist {
        let (machine, frame) = (&site.line.machine, site.local.frame);
        let is_clean = || match frame {
            Some(id) => site.worker.node.cache().frame(id).dirty().is_empty(),
            None => true,
        };
        match machine.writing_back(&self.rules) {
            Some(WordOp::Persist) => return Persist::InFlight { has_all: is_clean() },
            Some(_) => return Persist::NotNow,
            None if machine.hold() != Hold::Exclusive || is_clean() => return Persist::Done,
            None if !machine.can_persist() => return Persist::NotNow,
            None => {}
        }
        let Some(copied) = frame.and_then(|id| site.worker.copy_in_place(site.addr, id)) else {
            return Persist::NotNow;
        };
        site.in_flight.copied.set(Some(copied));
        self.drive(site, Event::Persist);
        let left = site.in_flight.copied.take();
        strict_assert!(left.is_none(), "a copy of {} is posted at once", site.addr);
        Persist::Begun
    }
}
