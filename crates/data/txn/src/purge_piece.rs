//! [`Purge`]: a piece that is to be removed, as in [`purge`](crate::purge).

use latchwork_coherence::LineLocks;
use latchwork_wal::TableId;

use crate::{RowId, Table, Timestamp};

/// A piece that is to be removed.
pub(crate) struct Purge<M: LineLocks> {
    pub(crate) table: Table<M>,
    pub(crate) id: RowId,
    pub(crate) key: Vec<u8>,
    pub(crate) what: What,
    /// Keys in secondary indexes that lead to the row, with the numbers of their indexes.
    pub(crate) entries: Vec<(u8, Vec<u8>)>,
}

/// A piece in the queue of a worker that ended, for the other workers of its node.
pub(crate) struct Left {
    pub(crate) table: TableId,
    pub(crate) id: RowId,
    pub(crate) key: Vec<u8>,
    pub(crate) what: What,
    pub(crate) entries: Vec<(u8, Vec<u8>)>,
}

impl<M: LineLocks> From<Purge<M>> for Left {
    fn from(purge: Purge<M>) -> Left {
        let Purge { table, id, key, what, entries } = purge;
        Left { table: table.id(), id, key, what, entries }
    }
}

/// The kind of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// The tombstone of a row that was deleted at this time, and its entries.
    Row(Timestamp),
    /// Old entries of a row whose keys in secondary indexes changed at this time.
    Entries(Timestamp),
}
