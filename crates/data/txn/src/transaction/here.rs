//! The hot way of a read: what it does when everything that it meets is here and nobody is in its
//! way, which is nearly always. Plain functions, which wait for nothing. Whatever is unusual ends
//! it, and the careful way ([`look_up`](Database::look_up)) begins anew. A lock that was taken by
//! then at a place that turned out to be none is given back.

use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, LockOutcome, Mode, Need};
use latchwork_wal::Timestamp;

use super::state::{Held, Read, State};
use crate::heap::{Reading, Seen, Stamped};
use crate::{Database, Scheme, Table, TupleId};

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Here {
    /// The row is there: it was read and noted, and its value was added to the others.
    Row,
    /// A lock is in the way.
    Locked,
    /// There is more to it, or no such row.
    More,
}

impl<M: LineLocks> Database<M> {
    /// Reads the row `key`.
    #[inline]
    pub(super) fn look_up_here(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Here {
        if let Some(place) = state.read_of(number, hash) {
            return self.row_here(state, table, number, place, (key, hash), value, mode);
        }
        let place = self.places().borrow().find(table.id(), hash);
        if let Some(place) = place {
            let here = self.row_here(state, table, number, place, (key, hash), value, mode);
            if here != Here::More {
                return here;
            }
        }
        let found = table.tree(0).try_get_seen(key, |value| value.u64(0));
        let Some((Some(id), _)) = found else { return Here::More };
        let place = (TupleId::from_bits(id), Hint::default());
        self.row_here(state, table, number, place, (key, hash), value, mode)
    }

    /// Reads the row in `id`, whose line is probably where the hint says, if it is that of `key`.
    /// Remembers the place, or that it is none.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one read, all borrowed apart")]
    pub(super) fn row_here(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        (id, hint): (TupleId, Hint),
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Here {
        let (start, held) = (value.len(), state.locks.len());
        let mut places = self.places().borrow_mut();
        match self.read_here(state, table, (id, &hint), key, value, mode) {
            Ok((cts, home, stamped)) => {
                places.note(table.id(), hash, id, &hint);
                let kept = match mode {
                    Mode::Exclusive => Some((state.keep(key), state.keep(&value[start..]))),
                    Mode::Shared => None,
                };
                state.note_read(Read {
                    table: number,
                    hash,
                    id,
                    cts,
                    hint,
                    home,
                    stamped,
                    fixed: false,
                    kept,
                });
                state.record.read(table.id().0, key, cts.0);
                Here::Row
            }
            // Also where there is a lock in the way: it may be that of another row's line.
            Err(end) => {
                places.forget(table.id(), hash);
                value.truncate(start);
                if end == Here::More {
                    // Of a line of which nothing was learned, and that may be another row's.
                    state.locks.truncate(held);
                }
                end
            }
        }
    }

    /// Locks and stamps what reading the row takes, and adds its value to `value`: when it was
    /// written, whether it stood at home, and whether it has its stamp, if one is needed. After an
    /// error there may be anything in `value`.
    #[inline(always)]
    pub(super) fn read_here(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        (id, hint): (TupleId, &Hint),
        key: &[u8],
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Result<(Timestamp, bool, bool), Here> {
        let heap = table.heap();
        let line = heap.line_of(id);
        let scheme = self.scheme();
        if scheme == Scheme::TwoPhaseLocking {
            match state.held(line) {
                Some(held) => {
                    let held = &mut state.locks[held];
                    if held.mode < mode {
                        if !self.memory().try_upgrade_lock(&mut held.lock) {
                            return Err(Here::More);
                        }
                        held.mode = mode;
                    }
                }
                None => match self.memory().try_lock_at(Need { addr: line, mode }, hint) {
                    Ok(LockOutcome::Got(lock)) => state.note_lock(Held { line, mode, lock }),
                    Ok(LockOutcome::Locked) => return Err(Here::Locked),
                    Err(_) => return Err(Here::More),
                },
            }
        }
        let ordered = scheme == Scheme::TimestampOrdering;
        let asks_alone = ordered && mode == Mode::Exclusive;
        let (cts, stamp, alone, home) = match heap.live_step(id, hint, key, value, asks_alone) {
            Some(live) => (live.cts, live.stamp, live.alone, true),
            None => {
                let mut at = Reading::default();
                let Ok(Seen::Live(cts)) = heap.get_step(&mut at, id, hint, key, value) else {
                    return Err(Here::More);
                };
                (cts, at.stamp, false, !at.moved)
            }
        };
        if ordered && cts > state.ts {
            // It may become later, which takes more.
            return Err(Here::More);
        }
        // What is read to be written, from a line that can be written at once, is looked at again
        // when it is locked; if it is not written, in the end. Elsewhere the stamp brings the line
        // here, before somebody else changes the row.
        if ordered && !alone {
            let (mine, lease) = (state.writes_line(line), state.lease_of(mode));
            match heap.stamp_step(id, hint, (cts, stamp), state.ts, lease, mine) {
                Ok(Stamped::Done) => {}
                Ok(Stamped::Locked) => return Err(Here::Locked),
                Ok(Stamped::Changed) | Err(_) => return Err(Here::More),
            }
        }
        Ok((cts, home, !alone))
    }
}
