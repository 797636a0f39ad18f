//! The hot way of a read: what it does when everything that it meets is here and nobody is in its way, which is
//! nearly always. Plain functions, which wait for nothing. Whatever is unusual ends it, and the careful way
//! ([`look_up`](Database::look_up)) begins anew; a lock that was taken by then is the transaction's and stays.

use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, LockOutcome, Mode, Need};

use super::state::{Base, Held, Read, State};
use crate::heap::{Reading, Seen, Stamped};
use crate::{Conflict, Database, Scheme, Table, TupleId, TxnError};

impl<M: LineLocks> Database<M> {
    /// As [`look_up`](Database::look_up), of a row that is there; `None` when there is more to it.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the pieces of one read, all borrowed apart")]
    pub(super) fn look_up_here(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        key: &[u8],
        hash: u32,
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Option<Result<Base, TxnError>> {
        if let Some(id) = state.read_of(number, hash) {
            let hint = Hint::default();
            return self.row_here(state, table, number, (id, hint), (key, hash), value, mode);
        }
        let place = self.places().borrow().find(table.id(), hash);
        if let Some(place) = place {
            let here = self.row_in(state, table, number, place, (key, hash), value, mode);
            if here.is_some() {
                return here;
            }
        }
        let id = TupleId::from_bits(table.tree(0).try_get_seen(key, |value| value.u64(0))?.0?);
        self.row_in(state, table, number, (id, Hint::default()), (key, hash), value, mode)
    }

    /// As [`row_here`](Database::row_here), and remembers the place, or that it is none.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the pieces of one read, all borrowed apart")]
    pub(super) fn row_in(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        place: (TupleId, Hint),
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Option<Result<Base, TxnError>> {
        let here = self.row_here(state, table, number, place, (key, hash), value, mode);
        let mut places = self.places().borrow_mut();
        match (&here, state.last_read()) {
            (Some(Ok(Base::Row(id, _))), Some(read)) => {
                places.note(table.id(), hash, *id, &read.hint);
            }
            // Also where there is a lock in the way: it may be that of another row's line.
            _ => places.forget(table.id(), hash),
        }
        here
    }

    /// Reads the row in `id`, whose line is probably where the hint says, if it is that of `key`.
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
    ) -> Option<Result<Base, TxnError>> {
        let heap = table.heap();
        let line = heap.line_of(id);
        let scheme = self.scheme();
        if scheme == Scheme::TwoPhaseLocking {
            match state.held(line) {
                Some(held) if state.locks[held].mode >= mode => {}
                Some(_) => return None,
                None => match self.memory().try_lock_at(Need { addr: line, mode }, &hint) {
                    Ok(LockOutcome::Got(lock)) => state.note_lock(Held { line, mode, lock }),
                    Ok(LockOutcome::Locked) => return Some(Err(Conflict::Locked.into())),
                    Err(_) => return None,
                },
            }
        }
        let mut at = Reading::default();
        let Ok(Seen::Live(cts)) = heap.get_step(&mut at, id, &hint, key, value) else {
            return None;
        };
        if scheme == Scheme::TimestampOrdering {
            if cts > state.ts {
                // It may become later, which takes more.
                return None;
            }
            let (mine, lease) = (state.writes_line(line), state.lease_of(mode));
            match heap.stamp_step(id, &hint, (cts, at.stamp), state.ts, lease, mine) {
                Ok(Stamped::Done) => {}
                Ok(Stamped::Locked) => return Some(Err(Conflict::Locked.into())),
                Ok(Stamped::Changed) | Err(_) => return None,
            }
        }
        let kept = (mode == Mode::Exclusive).then(|| (state.keep(key), state.keep(value)));
        let home = !at.moved;
        state.note_read(Read { table: number, hash, id, cts, hint, home, fixed: false, kept });
        state.record.read(table.id().0, key, cts.0);
        Some(Ok(Base::Row(id, cts)))
    }
}
