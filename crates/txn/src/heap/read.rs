//! Reading a row: a plain function over lines that are here, and the loop that obtains them.

use latchwork_coherence::{CoherentMemory, Mode, Need};
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Timestamp;

use super::Heap;
use crate::page::{Broken, Page, State};
use crate::{TupleId, TxnError};

/// How often an optimistic read is repeated before its reader asks for the line and so makes way.
const READS_MAX: u32 = 8;

/// What a row turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It is there, written at this time.
    Live(Timestamp),
    /// It was deleted at this time.
    Deleted(Timestamp),
    /// The tuple with this name is none of this row, or there is none: the row was deleted so long ago that
    /// no transaction can be older, or it has another name now.
    Absent,
}

/// Why a step did not finish.
#[derive(Debug)]
pub(super) enum Stop {
    Need(Need),
    Broken(GlobalAddr, Broken),
    /// The row moved while it was read.
    Moved,
}

/// What stands in the slot.
enum Home {
    Seen(Seen),
    Stub(TupleId, Timestamp),
}

/// How far a read of one row has come. One that stops for a line goes on where it was: without a cache
/// two lines are never here at once.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reading {
    /// Where the stub led, and when it was written.
    away: Option<(TupleId, Timestamp)>,
}

impl<M: CoherentMemory> Heap<M> {
    /// Reads the row `key` in `id`, if its lines are here: a plain function that writes no shared memory.
    /// The value is in `value` afterwards, if the row is there. With `None` it moved meanwhile: try again.
    ///
    /// # Errors
    /// The line to [`ensure`](CoherentMemory::ensure) before trying again with the same `at`;
    /// [`get`](Heap::get) does that, and tells what is wrong with a page, which here is a need.
    pub fn try_get(
        &self,
        at: &mut Reading,
        id: TupleId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<Seen>, Need> {
        match self.get_step(at, id, key, value) {
            Ok(seen) => Ok(Some(seen)),
            Err(Stop::Moved) => Ok(None),
            Err(Stop::Need(need)) => Err(need),
            Err(Stop::Broken(addr, _)) => Err(Need { addr, mode: Mode::Shared }),
        }
    }

    /// Reads the row `key` in `id`. The value is in `value` afterwards, if the row is there.
    ///
    /// # Errors
    /// [`TxnError::Corrupt`], [`TxnError::Starved`], and when memory fails.
    pub async fn get(
        &self,
        id: TupleId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Seen, TxnError> {
        let mut at = Reading::default();
        let mut rounds = 0;
        let mut _ticket = None;
        loop {
            match self.get_step(&mut at, id, key, value) {
                Ok(seen) => return Ok(seen),
                Err(Stop::Broken(line, broken)) => return Err(self.corrupt(line, broken)),
                Err(Stop::Moved) => self.memory.handle().yield_now().await,
                Err(Stop::Need(need)) => {
                    drop(_ticket.take());
                    _ticket = Some(self.memory.ensure(need).await?);
                }
            }
            self.count_round(id, &mut rounds)?;
        }
    }

    fn get_step(
        &self,
        at: &mut Reading,
        id: TupleId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Seen, Stop> {
        let (away, cts) = match at.away {
            Some(away) => away,
            None => match self.get_home(id, key, value)? {
                Home::Seen(seen) => return Ok(seen),
                Home::Stub(away, cts) => *at.away.insert((away, cts)),
            },
        };
        let slot = self.slot_of(away);
        let found = self.read_page(self.line_of(away), |page| {
            value.clear();
            let Some(tuple) = page.tuple(slot)? else { return Ok(None) };
            if tuple.state != State::Away || tuple.cts != cts || !tuple.key_is(key) {
                return Ok(None);
            }
            tuple.append_value(value);
            Ok(Some(Seen::Live(cts)))
        })?;
        at.away = None;
        found.ok_or(Stop::Moved)
    }

    fn get_home(&self, id: TupleId, key: &[u8], value: &mut Vec<u8>) -> Result<Home, Stop> {
        let slot = self.slot_of(id);
        self.read_page(self.line_of(id), |page| {
            value.clear();
            let Some(tuple) = page.tuple(slot)? else { return Ok(Home::Seen(Seen::Absent)) };
            if !tuple.key_is(key) {
                return Ok(Home::Seen(Seen::Absent));
            }
            Ok(match tuple.state {
                State::Live => {
                    tuple.append_value(value);
                    Home::Seen(Seen::Live(tuple.cts))
                }
                State::Tombstone => Home::Seen(Seen::Deleted(tuple.cts)),
                State::Stub => Home::Stub(TupleId::from_bits(tuple.target()?), tuple.cts),
                // An index leads here that is out of date.
                State::Away => Home::Seen(Seen::Absent),
            })
        })
    }

    /// Reads one page. `read` may see garbage; its result is used only if the page was consistent.
    pub(super) fn read_page<R>(
        &self,
        line: GlobalAddr,
        mut read: impl FnMut(&Page<'_>) -> Result<R, Broken>,
    ) -> Result<R, Stop> {
        for _ in 0..READS_MAX {
            let seen = self.memory.try_read(line).map_err(Stop::Need)?;
            let result = Page::open(seen.words(), self.table.0).and_then(|page| read(&page));
            if seen.validate() {
                return result.map_err(|broken| Stop::Broken(line, broken));
            }
        }
        Err(Stop::Need(Need { addr: line, mode: Mode::Shared }))
    }
}
