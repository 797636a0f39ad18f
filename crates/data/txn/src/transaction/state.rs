//! [`State`]: everything that a transaction knows until its end. A worker reuses the state and its
//! buffers for a later transaction, which saves allocations.

use std::ops::Range;

use latchwork_blink::Leaf;
use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_record::Record;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{TableId, Timestamp};

use super::scratch::Scratch;
use crate::heap::{Placed, Prepared};
use crate::{RowId, Table, TxnError};

/// The maximum number of table handles that are kept for the next transaction.
const TABLES_KEPT: usize = 64;
const _: () = assert!(TABLES_KEPT <= u8::MAX as usize, "tables are numbered with 8 bits");

/// A locked line.
pub(super) struct Held<L> {
    pub(super) line: GlobalAddr,
    pub(super) mode: AccessMode,
    pub(super) lock: L,
}

/// A row or a tombstone that the transaction has read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) table: u8,
    /// The hash of the key.
    pub(super) hash: u32,
    pub(super) id: RowId,
    pub(super) cts: Timestamp,
    /// A guess of the frame of its home line.
    pub(super) hint: Hint,
    /// The row stood at home, not where a stub led.
    pub(super) home: bool,
    /// Timestamp ordering: the read timestamp is raised already.
    pub(super) stamped: bool,
    /// The row has been locked to write, and was found unchanged after that. No other transaction
    /// can change it before the unlock.
    pub(super) fixed: bool,
    /// The ranges of its key and its value in the arena, for a row that was read to be written. The
    /// arena is the buffer with the bytes of this transaction.
    pub(super) kept: Option<(Range<u32>, Range<u32>)>,
}

/// A row that was read to be written, with its content at the time of the read.
pub(super) struct Kept {
    /// The index of its read.
    pub(super) read: usize,
    pub(super) base: Base,
    /// The ranges of its key and its value in the arena.
    pub(super) key: Range<u32>,
    pub(super) value: Range<u32>,
}

/// A leaf of a scan, or of a lookup that found no row.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenLeaf {
    pub(super) table: u8,
    pub(super) index: u8,
    pub(super) leaf: Leaf,
}

/// The state of the row before the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// A row.
    Row(RowId, Timestamp),
    /// A tombstone.
    Tombstone(RowId, Timestamp),
    /// No row. With a row id: the primary index has an entry with this row id, which leads to no
    /// row.
    Nothing(Option<RowId>),
    /// A row that was inserted without a lookup. The commit checks that it does not exist.
    Unknown,
}

impl Base {
    /// The row or tombstone that must be locked for the write.
    pub(super) fn named(self) -> Option<(RowId, Timestamp)> {
        match self {
            Base::Row(id, cts) | Base::Tombstone(id, cts) => Some((id, cts)),
            Base::Nothing(_) | Base::Unknown => None,
        }
    }
}

/// The effect of a write on a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// The row gets a value.
    Put,
    /// The row is deleted.
    Delete,
    /// No effect: the same transaction added and deleted the row.
    Nothing,
}

/// A row that is to be written.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) table: u8,
    pub(super) change: Change,
    pub(super) base: Base,
    pub(super) hash: u32,
    /// The ranges of its key and its value in the arena.
    pub(super) key: Range<u32>,
    pub(super) value: Range<u32>,
    /// The old value, where the write may change index entries.
    pub(super) old: Option<Range<u32>>,
    /// The changed bytes, for a value that keeps its length.
    pub(super) part: Option<Range<u32>>,
    /// A guess of the frame of the home line, for a row that exists.
    pub(super) hint: Hint,
    /// The row stood at home when it was read.
    pub(super) home: bool,
    /// The index of its read.
    pub(super) read: Option<u32>,
    pub(super) prepared: Option<Prepared>,
    pub(super) placed: Option<Placed>,
    pub(super) installed: bool,
}

impl Write {
    /// The row id, or the row id that the row will have.
    pub(super) fn id(&self) -> Option<RowId> {
        let placed = self.placed.as_ref().and_then(Placed::id);
        placed.or(self.base.named().map(|(id, _)| id))
    }
}

/// An index entry that was added, or is about to be added.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) write: u32,
    pub(super) index: u8,
    /// The earlier row id, if the entry existed before and was taken over.
    pub(super) old: Option<RowId>,
    /// The range of its key in the arena.
    pub(super) key: Range<u32>,
}

/// A set of hashes with false positives. A hash without a bit is not in the set.
#[derive(Debug, Default)]
pub(super) struct Filter([u64; 4]);

impl Filter {
    #[inline]
    pub(super) fn add(&mut self, hash: u32) {
        self.0[(hash >> 6 & 3) as usize] |= 1 << (hash & 63);
        strict_assert!(self.may_have(hash), "the filter forgets what was added");
    }

    #[inline]
    pub(super) fn may_have(&self, hash: u32) -> bool {
        self.0[(hash >> 6 & 3) as usize] >> (hash & 63) & 1 != 0
    }
}

pub(crate) struct State<M: LineLocks> {
    /// The timestamp under timestamp ordering. From the log append on, the commit timestamp.
    pub(super) ts: Timestamp,
    /// The highest timestamp of all that the transaction has read, and of the leaves that its
    /// entries entered. Except under timestamp ordering, the commit timestamp must be above this
    /// one.
    pub(super) floor: Timestamp,
    /// Timestamp ordering: the read lease, as the maximum distance of read timestamps ahead of
    /// `ts`.
    pub(super) lease: u64,
    /// Whether the transaction may take a later timestamp, and how many later timestamps it has
    /// taken.
    pub(super) may_move: bool,
    pub(super) moves: u32,
    /// The transaction can only be aborted.
    pub(super) doomed: bool,
    pub(super) tables: Vec<Table<M>>,
    pub(super) locks: Vec<Held<M::Lock>>,
    pub(super) reads: Vec<Read>,
    pub(super) leaves: Vec<SeenLeaf>,
    pub(super) writes: Vec<Write>,
    /// Filters of the lines that the transaction has locked, of the rows that it has read, and of
    /// the rows that it writes.
    pub(super) may_hold: Filter,
    pub(super) may_read: Filter,
    pub(super) may_write: Filter,
    pub(super) entries: Vec<Entry>,
    pub(super) arena: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    /// The buffers of the last scan.
    pub(super) scan: Option<Box<Scratch>>,
    /// The history record, if recording is on.
    pub(super) record: Record,
}

impl<M: LineLocks> Default for State<M> {
    fn default() -> Self {
        State {
            ts: Timestamp::ZERO,
            floor: Timestamp::ZERO,
            lease: 0,
            may_move: false,
            moves: 0,
            doomed: false,
            tables: Vec::new(),
            locks: Vec::new(),
            reads: Vec::new(),
            leaves: Vec::new(),
            writes: Vec::new(),
            may_hold: Filter::default(),
            may_read: Filter::default(),
            may_write: Filter::default(),
            entries: Vec::new(),
            arena: Vec::new(),
            scratch: Vec::new(),
            scan: None,
            record: Record::off(),
        }
    }
}

/// [`State::check`] compares each element of a list with at most this many elements before it.
const CHECKED_MAX: usize = 64;

impl<M: LineLocks> State<M> {
    /// Asserts the relations of a transaction's lists between two phases. `ordered`: the scheme is
    /// timestamp ordering, under which the transaction has its timestamp from the beginning.
    pub(super) fn check(&self, ordered: bool) {
        let (tables, arena) = (self.tables.len(), self.arena.len());
        let is_inside =
            |range: &Range<u32>| range.start <= range.end && range.end as usize <= arena;
        for read in &self.reads {
            assert!(usize::from(read.table) < tables, "a read of no table");
            assert!(self.may_read.may_have(read.hash), "the filter forgets a read");
            assert!(read.cts <= self.floor, "the floor is below a row that was read");
            let kept = read.kept.iter();
            assert!(
                kept.clone().all(|(key, value)| is_inside(key) && is_inside(value)),
                "a row that was read is outside the arena"
            );
        }
        for (at, write) in self.writes.iter().enumerate() {
            assert!(usize::from(write.table) < tables, "a write of no table");
            assert!(self.may_write.may_have(write.hash), "the filter forgets a write");
            assert!(is_inside(&write.key) && is_inside(&write.value), "a write outside the arena");
            assert!(write.old.iter().all(is_inside), "an old value outside the arena");
            assert_eq!(hash_of(self.bytes(&write.key)), write.hash, "a key has another hash");
            assert!(
                write.part.iter().all(|part| part.end as usize <= write.value.len()),
                "a part outside the value"
            );
            assert!(
                write.read.is_none_or(|read| (read as usize) < self.reads.len()),
                "a write of a row that was not read"
            );
            assert!(
                write.prepared.is_none() || write.base.named().is_some(),
                "room for a row that does not exist"
            );
            match write.change {
                Change::Put => {}
                Change::Delete => assert!(
                    matches!(write.base, Base::Row(..)),
                    "a row that does not exist is deleted: {:?}",
                    write.base
                ),
                Change::Nothing => assert!(
                    !matches!(write.base, Base::Row(..) | Base::Unknown),
                    "a row that exists is not changed: {:?}",
                    write.base
                ),
            }
            let before = &self.writes[..at.min(CHECKED_MAX)];
            assert!(
                !before.iter().any(|other| {
                    (other.table, other.hash) == (write.table, write.hash)
                        && self.bytes(&other.key) == self.bytes(&write.key)
                }),
                "a row is written twice"
            );
        }
        for entry in &self.entries {
            let write = self.writes.get(entry.write as usize);
            assert!(write.is_some(), "an entry of no write");
            assert!(is_inside(&entry.key), "an entry outside the arena");
            let most = write.map_or(0, |write| self.table(write.table).secondaries());
            assert!(usize::from(entry.index) <= most, "an entry of no index");
        }
        assert!(
            self.leaves.iter().all(|leaf| usize::from(leaf.table) < tables),
            "a leaf of no table"
        );
        for (at, held) in self.locks.iter().enumerate() {
            assert!(self.may_hold.may_have(hash_of_line(held.line)), "the filter forgets a lock");
            let before = &self.locks[..at.min(CHECKED_MAX)];
            assert!(before.iter().all(|other| other.line != held.line), "a line is locked twice");
        }
        assert!(!ordered || self.ts > Timestamp::ZERO, "a transaction without its timestamp");
    }

    /// Whether each row that is overwritten is locked to write.
    pub(super) fn locks_cover_writes(&self) -> bool {
        let is_locked = |write: &Write| {
            let named = write.base.named();
            named.is_none_or(|(id, _)| self.writes_line(self.table(write.table).heap().line_of(id)))
        };
        self.writes.iter().all(is_locked)
    }

    /// Clears the state. Tables stay if they are few, because the next transaction probably uses
    /// them.
    pub(crate) fn clear(&mut self) {
        self.ts = Timestamp::ZERO;
        self.floor = Timestamp::ZERO;
        self.lease = 0;
        (self.may_move, self.moves) = (false, 0);
        self.doomed = false;
        self.locks.clear();
        self.reads.clear();
        self.leaves.clear();
        self.writes.clear();
        self.may_hold = Filter::default();
        self.may_read = Filter::default();
        self.may_write = Filter::default();
        self.entries.clear();
        self.arena.clear();
        strict_assert!(
            self.locks.is_empty() && self.writes.is_empty() && self.entries.is_empty(),
            "a cleared state remembers a transaction"
        );
        if self.tables.len() > TABLES_KEPT {
            self.tables.clear();
        }
        self.record = Record::off();
    }

    /// Leaves locks and pending rows in place until a restart.
    pub(super) fn leave_locked(&mut self) {
        std::mem::take(&mut self.locks).into_iter().for_each(std::mem::forget);
        strict_assert!(self.locks.is_empty(), "a lock that stays is given back");
        for write in &mut self.writes {
            if let Some(mut row) = write.placed.take() {
                row.keep();
            }
        }
    }

    pub(crate) fn take_record(&mut self) -> Record {
        std::mem::take(&mut self.record)
    }

    /// Records the writes for the history. Deletes come before puts, because an index key may leave
    /// one row and come to another.
    pub(super) fn record_writes(&mut self) {
        if !self.record.is_on() {
            return;
        }
        let mut record = self.take_record();
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for write in &self.writes {
            let table = self.table(write.table);
            let (key, value) = (self.bytes(&write.key), self.bytes(&write.value));
            let put = write.change == Change::Put;
            let to = if put { &mut come } else { &mut gone };
            to.push((table.id().0, key.to_vec()));
            // If the old value is not kept, the index entries stay.
            if matches!(write.base, Base::Row(..)) && write.old.is_none() {
                continue;
            }
            for index in 1..=table.secondaries() {
                let entry_of = |row: &[u8]| {
                    let mut entry = Vec::new();
                    table.index_key(index, key, row, &mut entry).ok().map(|()| entry)
                };
                let old = write.old.as_ref().and_then(|old| entry_of(self.bytes(old)));
                let new = if put { entry_of(value) } else { None };
                if old != new {
                    let of = index_number(table.id(), index);
                    gone.extend(old.map(|entry| (of, entry)));
                    come.extend(new.map(|entry| (of, entry)));
                }
            }
        }
        use latchwork_record::RecordedChange::{Delete, Put};
        gone.iter().for_each(|(table, key)| record.write(*table, key, Delete));
        come.iter().for_each(|(table, key)| record.write(*table, key, Put));
        self.record = record;
    }

    /// The number of a table in this transaction.
    #[inline]
    pub(super) fn number(&mut self, table: &Table<M>) -> Result<u8, TxnError> {
        if let Some(known) = self.tables.iter().position(|known| known.is(table)) {
            return Ok(known as u8);
        }
        let number = u8::try_from(self.tables.len()).map_err(|_| TxnError::TooManyTables)?;
        self.tables.push(table.clone());
        strict_assert!(self.table(number).is(table), "a table has the number of another");
        Ok(number)
    }

    #[inline]
    pub(super) fn table(&self, number: u8) -> &Table<M> {
        strict_assert!(usize::from(number) < self.tables.len(), "no table has number {number}");
        &self.tables[usize::from(number)]
    }

    #[inline]
    pub(super) fn bytes(&self, range: &Range<u32>) -> &[u8] {
        strict_assert!(
            range.start <= range.end && range.end as usize <= self.arena.len(),
            "bytes {range:?} of an arena of {}",
            self.arena.len()
        );
        &self.arena[range.start as usize..range.end as usize]
    }

    /// Copies bytes into the arena.
    #[inline]
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Range<u32> {
        let from = self.arena.len() as u32;
        self.arena.extend_from_slice(bytes);
        strict_assert!(
            self.arena.len() <= u32::MAX as usize,
            "the arena is longer than its numbers"
        );
        from..self.arena.len() as u32
    }

    /// The index of this transaction's write to a row.
    #[inline]
    pub(super) fn write_of(&self, table: u8, hash: u32, key: &[u8]) -> Option<usize> {
        if !self.may_write.may_have(hash) {
            return None;
        }
        self.writes.iter().position(|write| {
            write.hash == hash && write.table == table && self.bytes(&write.key) == key
        })
    }

    /// The row id of the last read of a row whose key has this hash, with a guess of its frame.
    #[inline]
    pub(super) fn read_of(&self, table: u8, hash: u32) -> Option<(RowId, Hint)> {
        if !self.may_read.may_have(hash) {
            return None;
        }
        let read = self.reads.iter().rev().find(|read| read.hash == hash && read.table == table);
        read.map(|read| {
            let hint = Hint::default();
            hint.copy_from(&read.hint);
            (read.id, hint)
        })
    }

    /// The row with this key that was read to be written.
    #[inline]
    pub(super) fn kept(&self, table: u8, hash: u32, key: &[u8]) -> Option<Kept> {
        if !self.may_read.may_have(hash) {
            return None;
        }
        let at = self.reads.iter().rposition(|read| read.hash == hash && read.table == table)?;
        let read = &self.reads[at];
        let (kept, value) = read.kept.clone()?;
        let base = Base::Row(read.id, read.cts);
        (self.bytes(&kept) == key).then_some(Kept { read: at, base, key: kept, value })
    }

    /// Adds a read to the state.
    #[inline]
    pub(super) fn note_read(&mut self, read: Read) {
        self.may_read.add(read.hash);
        self.be_later_than(read.cts);
        strict_assert!(self.floor >= read.cts, "the floor is below a row that was read");
        self.reads.push(read);
    }

    /// Adds a lock to the state.
    #[inline]
    pub(super) fn note_lock(&mut self, held: Held<M::Lock>) {
        strict_assert!(!held.line.is_null(), "the null address is locked");
        self.may_hold.add(hash_of_line(held.line));
        strict_assert!(self.held(held.line).is_none(), "a line is locked twice");
        self.locks.push(held);
    }

    #[inline]
    pub(super) fn held(&self, line: GlobalAddr) -> Option<usize> {
        if !self.may_hold.may_have(hash_of_line(line)) {
            return None;
        }
        self.locks.iter().position(|held| held.line == line)
    }

    /// Whether this transaction has locked the line to write.
    #[inline]
    pub(super) fn writes_line(&self, line: GlobalAddr) -> bool {
        self.held(line).is_some_and(|held| self.locks[held].mode == AccessMode::Exclusive)
    }

    /// The read lease for a read in this mode.
    #[inline]
    pub(super) fn lease_of(&self, mode: AccessMode) -> u64 {
        if mode == AccessMode::Shared { self.lease } else { 0 }
    }

    #[inline]
    pub(super) fn be_later_than(&mut self, cts: Timestamp) {
        self.floor = self.floor.max(cts);
    }
}

/// The number of an index in histories. For the primary index this is the table id.
pub(super) fn index_number(table: TableId, index: usize) -> u32 {
    table.0 | (index as u32) << 24
}

/// A hash of a line address.
#[inline]
fn hash_of_line(line: GlobalAddr) -> u32 {
    (line.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// A hash of a key, the same on every platform: a variant of FNV-1a over words, with rotation.
#[inline]
pub(super) fn hash_of(key: &[u8]) -> u32 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(23);
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    }
    (hash ^ hash >> 32) as u32
}
