//! The fast path of a read: plain functions without an await, for the usual case. In this case the
//! lines of the row are here, and no lock is in the way. In any other case the slow path
//! ([`look_up`](Database::look_up)) decides. If the fast path has locked a line that turns out not
//! to have the row, the fast path releases the lock.

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks, LockOutcome, Need};
use latchwork_wal::Timestamp;

use super::state::{Base, Held, Kept, Read, State};
use crate::heap::{Reading, SeenRow, Stamped};
use crate::{Database, RowId, Scheme, Table};

/// The outcome of the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FastRead {
    /// The row exists, was read and recorded, and its value was appended.
    Row,
    /// A lock is in the way.
    Locked,
    /// The slow path must decide, or the row does not exist.
    More,
}

impl<M: LineLocks> Database<M> {
    /// Reads the row `key` at the location that the transaction or the location cache has for it.
    #[inline]
    pub(super) fn look_up_fast(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> FastRead {
        let read = state.read_of(number, hash);
        match read.or_else(|| self.locations().borrow().find(table.id(), hash)) {
            Some(place) => self.row_here(state, table, number, place, (key, hash), value, mode),
            None => FastRead::More,
        }
    }

    /// Reads the row with the id `id`, if it has the key `key`. The hint is a guess of the frame of
    /// its line. Updates the location cache with the result.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one read, all borrowed apart")]
    pub(super) fn row_here(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        (id, hint): (RowId, Hint),
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> FastRead {
        let (start, held) = (value.len(), state.locks.len());
        let mut places = self.locations().borrow_mut();
        match self.read_here(state, table, (id, &hint), key, value, mode) {
            Ok((cts, home, stamped)) => {
                places.note(table.id(), hash, id, &hint);
                let kept = match mode {
                    AccessMode::Exclusive => Some((state.keep(key), state.keep(&value[start..]))),
                    AccessMode::Shared => None,
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
                FastRead::Row
            }
            // The cached location is dropped even if a lock is in the way: the locked line may not
            // have this row.
            Err(end) => {
                places.forget(table.id(), hash);
                value.truncate(start);
                if end == FastRead::More {
                    // Releases the lock of a line from which nothing was read, and which may hold
                    // another row.
                    state.locks.truncate(held);
                }
                end
            }
        }
    }

    /// The row `key` as it was read to be written. If the transaction has read the row only to read
    /// it, this function reads it again to write it. `None`: the slow path must decide, or the
    /// transaction has not read the row.
    #[inline]
    pub(super) fn kept_fast(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        (key, hash): (&[u8], u32),
    ) -> Option<Kept> {
        let kept = state.kept(number, hash, key);
        kept.or_else(|| self.read_again(state, table, number, (key, hash)))
    }

    /// Reads a row to write it that the transaction has read only to read it.
    fn read_again(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        (key, hash): (&[u8], u32),
    ) -> Option<Kept> {
        let (id, hint) = state.read_of(number, hash)?;
        let held = state.locks.len();
        let mut value = std::mem::take(&mut state.scratch);
        value.clear();
        let read =
            self.read_here(state, table, (id, &hint), key, &mut value, AccessMode::Exclusive);
        let kept = read.ok().map(|(cts, home, stamped)| {
            let (key_at, value_at) = (state.keep(key), state.keep(&value));
            let kept = Some((key_at.clone(), value_at.clone()));
            let (fixed, read) = (false, state.reads.len());
            state.note_read(Read {
                table: number,
                hash,
                id,
                cts,
                hint,
                home,
                stamped,
                fixed,
                kept,
            });
            state.record.read(table.id().0, key, cts.0);
            Kept { read, base: Base::Row(id, cts), key: key_at, value: value_at }
        });
        state.scratch = value;
        if kept.is_none() {
            state.locks.truncate(held);
        }
        kept
    }

    /// Takes the lock and raises the read timestamp that the read needs, and appends the value to
    /// `value`. Returns the timestamp of the row, whether the row stood at home, and whether the
    /// read timestamp is raised or not needed. After an error the content of `value` is
    /// unspecified.
    #[inline(always)]
    pub(super) fn read_here(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        (id, hint): (RowId, &Hint),
        key: &[u8],
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> Result<(Timestamp, bool, bool), FastRead> {
        let heap = table.heap();
        let line = heap.line_of(id);
        let scheme = self.scheme();
        if scheme == Scheme::TwoPhaseLocking {
            match state.held(line) {
                Some(held) => {
                    let held = &mut state.locks[held];
                    if held.mode < mode {
                        if !self.memory().try_upgrade_lock(&mut held.lock) {
                            return Err(FastRead::More);
                        }
                        held.mode = mode;
                    }
                }
                None => match self.memory().try_lock_at(Need { addr: line, mode }, hint) {
                    Ok(LockOutcome::Got(lock)) => state.note_lock(Held { line, mode, lock }),
                    Ok(LockOutcome::Locked) => return Err(FastRead::Locked),
                    Err(_) => return Err(FastRead::More),
                },
            }
        }
        let ordered = scheme == Scheme::TimestampOrdering;
        let asks_alone = ordered && mode == AccessMode::Exclusive;
        let (cts, stamp, alone, home) = match heap.live_step(id, hint, key, value, asks_alone) {
            Some(live) => (live.cts, live.stamp, live.alone, true),
            None => {
                let mut at = Reading::default();
                let Ok(SeenRow::Live(cts)) = heap.get_step(&mut at, id, hint, key, value) else {
                    return Err(FastRead::More);
                };
                (cts, at.stamp, false, !at.moved)
            }
        };
        if ordered && cts > state.ts {
            // The transaction may take a later timestamp, on the slow path.
            return Err(FastRead::More);
        }
        // A row that is read to be written needs no read timestamp now if this node owns its line
        // alone. The row is checked again when it is locked, or at the end if it is not written. If
        // the node does not own the line alone, raising the read timestamp brings the line here,
        // before another transaction changes the row.
        if ordered && !alone {
            let (mine, lease) = (state.writes_line(line), state.lease_of(mode));
            match heap.stamp_step(id, hint, (cts, stamp), state.ts, lease, mine) {
                Ok(Stamped::Done) => {}
                Ok(Stamped::Locked) => return Err(FastRead::Locked),
                Ok(Stamped::Changed) | Err(_) => return Err(FastRead::More),
            }
        }
        Ok((cts, home, !alone))
    }
}
