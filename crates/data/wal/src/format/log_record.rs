//! [`LogRecord`]: one log record, with the writes of one commit, a note of the transaction layer,
//! rows of a checkpoint, or a mark of the log itself.

use latchwork_strict::{strict_assert, strict_assert_eq};

use super::{ALIGN, FileHeader, Flaw, GROUP_HEADER, GROUP_MAX, Reader, put};
use crate::{TableId, Timestamp, WalError};

const MAGIC: u32 = u32::from_le_bytes(*b"GRP1");
const TOMBSTONE: u32 = 1 << 31;
const _: () = assert!(
    LogRecord::KEY_MAX < TOMBSTONE as usize,
    "the length of a key leaves room for the mark of a removal"
);
const _: () = assert!(
    LogRecord::KEY_MAX + GROUP_HEADER + ALIGN + 20 < GROUP_MAX,
    "the longest key fits into a record"
);

/// The purpose of a log record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LogRecordKind {
    /// The values of a committed transaction. Replay keeps the latest value of each key.
    Commit,
    /// A note: a record of the transaction layer, for example a prepare record. Replay returns
    /// notes unchanged. The log stores the number of the note; numbers above 253 are stored as 253.
    Note(u8),
}

/// The kind of a [`Mark`](super::Mark), which the log writes for itself.
pub(super) const MARK: u8 = u8::MAX;

impl LogRecordKind {
    fn encode(self) -> u8 {
        match self {
            LogRecordKind::Commit => 0,
            LogRecordKind::Note(which) => which.min(MARK - 2) + 1,
        }
    }

    fn decode(byte: u8) -> LogRecordKind {
        byte.checked_sub(1).map_or(LogRecordKind::Commit, LogRecordKind::Note)
    }
}

/// One value of a log record, or a tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEntry<'a> {
    /// The commit timestamp.
    pub timestamp: Timestamp,
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: &'a [u8],
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
}

/// A log record that is being built. The value can be reset and used again.
///
/// ```text
///  0       4        8        16          24     28        32         36     40
///  | magic | length | synced | timestamp | kind | entries | body crc | crc  | entry, entry .. 0 .. |
///
///  entry of a log:          | table u32 | key length u32 | value length u32 | key | value |
///  entry of a checkpoint:   | timestamp u64 | as an entry of a log                        |
///  tombstone: bit 31 of the key's length is set; the value's length and the value are absent
/// ```
///
/// `length` is the length of the whole record, a multiple of 8. `synced` is the number of bytes of
/// this file that were known to be durable when the record was written. `crc` covers the header and
/// the position of the record: database, file and offset. `body crc` covers the entries and the
/// padding.
#[derive(Clone, Debug)]
pub struct LogRecord {
    timestamp: Timestamp,
    kind: u8,
    entries: u32,
    body: Vec<u8>,
}

impl LogRecord {
    /// The maximum length of a key, in bytes.
    pub const KEY_MAX: usize = 1 << 20;
    const _CHECK: () = assert!(
        GROUP_MAX < u32::MAX as usize && GROUP_MAX.is_multiple_of(ALIGN),
        "the length of a record fits into its header"
    );

    /// An empty log record.
    pub fn new(kind: LogRecordKind, timestamp: Timestamp) -> LogRecord {
        LogRecord { timestamp, kind: kind.encode(), entries: 0, body: Vec::new() }
    }

    /// An empty mark. A mark is no commit, so it has no timestamp.
    pub(super) fn mark() -> LogRecord {
        LogRecord { timestamp: Timestamp::ZERO, kind: MARK, entries: 0, body: Vec::new() }
    }

    /// Empties the record for another use.
    pub fn reset(&mut self, kind: LogRecordKind, timestamp: Timestamp) {
        (self.kind, self.timestamp, self.entries) = (kind.encode(), timestamp, 0);
        self.body.clear();
        strict_assert_eq!(self.bytes(), GROUP_HEADER, "a reset record is empty");
    }

    /// The timestamp.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The purpose of the record.
    pub fn kind(&self) -> LogRecordKind {
        LogRecordKind::decode(self.kind)
    }

    /// The count of entries.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The bytes that the record takes in a file.
    pub fn bytes(&self) -> usize {
        GROUP_HEADER + self.body.len().next_multiple_of(ALIGN)
    }

    /// Adds a value. Of several values of one key the last one counts.
    ///
    /// # Errors
    /// [`WalError::TooLarge`]; the record stays as it was.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), WalError> {
        self.push(None, table, key, Some(value))
    }

    /// Adds a tombstone.
    ///
    /// # Errors
    /// [`WalError::TooLarge`]; the record stays as it was.
    pub fn remove(&mut self, table: TableId, key: &[u8]) -> Result<(), WalError> {
        self.push(None, table, key, None)
    }

    /// Adds an entry of a checkpoint. The record's timestamp becomes the highest of its entries.
    pub(crate) fn stamped(&mut self, entry: LogEntry<'_>) -> Result<(), WalError> {
        self.push(Some(entry.timestamp), entry.table, entry.key, entry.value)?;
        strict_assert!(self.entries > 0, "an entry is lost");
        self.timestamp = self.timestamp.max(entry.timestamp);
        strict_assert!(self.timestamp >= entry.timestamp, "a record is older than its entry");
        Ok(())
    }

    fn push(
        &mut self,
        stamp: Option<Timestamp>,
        table: TableId,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), WalError> {
        if key.len() > LogRecord::KEY_MAX {
            return Err(WalError::TooLarge { bytes: key.len(), most: LogRecord::KEY_MAX });
        }
        let length = value.map_or(0, <[u8]>::len);
        let bytes = self.bytes().saturating_add(ALIGN + 20 + key.len()).saturating_add(length);
        if bytes > GROUP_MAX {
            return Err(WalError::TooLarge { bytes, most: GROUP_MAX });
        }
        let body = &mut self.body;
        if let Some(stamp) = stamp {
            body.extend_from_slice(&stamp.0.to_le_bytes());
        }
        body.extend_from_slice(&table.0.to_le_bytes());
        let tombstone = if value.is_none() { TOMBSTONE } else { 0 };
        body.extend_from_slice(&(key.len() as u32 | tombstone).to_le_bytes());
        if value.is_some() {
            body.extend_from_slice(&(length as u32).to_le_bytes());
        }
        body.extend_from_slice(key);
        body.extend_from_slice(value.unwrap_or_default());
        self.entries += 1;
        strict_assert!(self.bytes() <= GROUP_MAX, "a record of {} bytes", self.bytes());
        Ok(())
    }

    /// The checksum of the entries and their padding. This checksum does not depend on the record's
    /// position. So a caller computes it before it takes the lock under which records get their
    /// order.
    pub(crate) fn body_crc(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        strict_assert!(self.padding() < ALIGN, "a padding of {} bytes", self.padding());
        hasher.update(&self.body);
        hasher.update(&[0; ALIGN][..self.padding()]);
        hasher.finalize()
    }

    fn padding(&self) -> usize {
        self.bytes() - GROUP_HEADER - self.body.len()
    }

    /// Appends the record to `target`. [`finish`] fills in the fields that depend on the record's
    /// position: `synced` and the checksum of the header.
    pub(crate) fn encode(&self, body_crc: u32, target: &mut Vec<u8>) {
        let mut head = [0; GROUP_HEADER];
        let begin = target.len();
        strict_assert_eq!(self.body_crc(), body_crc, "the checksum is of another record");
        put(&mut head, 0, MAGIC.to_le_bytes());
        put(&mut head, 4, (self.bytes() as u32).to_le_bytes());
        put(&mut head, 16, self.timestamp.0.to_le_bytes());
        put(&mut head, 24, [self.kind]);
        put(&mut head, 28, self.entries.to_le_bytes());
        put(&mut head, 32, body_crc.to_le_bytes());
        target.extend_from_slice(&head);
        target.extend_from_slice(&self.body);
        target.extend_from_slice(&[0; ALIGN][..self.padding()]);
        strict_assert_eq!(
            target.len() - begin,
            self.bytes(),
            "the length in a record's header is its length"
        );
    }
}

/// Completes the header of the log record at the start of `bytes`. The record will have the
/// position `offset` in `file`.
pub(crate) fn finish(bytes: &mut [u8], file: &FileHeader, offset: u64, synced: u64) {
    put(bytes, 8, synced.to_le_bytes());
    strict_assert!(synced <= offset, "more is synced than there is");
    strict_assert!(bytes.len() >= GROUP_HEADER, "a record without a header");
    let Some(head) = bytes.first_chunk() else { return };
    let crc = file.place_crc(offset, head);
    put(bytes, GROUP_HEADER - 4, crc.to_le_bytes());
    strict_assert!(
        Head::decode(bytes, file, offset).is_ok_and(|head| head.sensible(offset).is_ok()),
        "a written record can be read"
    );
}

/// The header of a log record. Its checksum covers the position, so a header that was copied to
/// another position is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) synced: u64,
    pub(crate) timestamp: Timestamp,
    kind: u8,
    entries: u32,
    body_crc: u32,
}

impl Head {
    /// Decodes the header at `offset` of `file`.
    pub(crate) fn decode(bytes: &[u8], file: &FileHeader, offset: u64) -> Result<Head, Flaw> {
        let Some(bytes) = bytes.first_chunk::<GROUP_HEADER>() else {
            return Err(Flaw("a group's header is cut off"));
        };
        let read = |mut reader: Reader<'_>| {
            let (magic, length, synced) = (reader.u32()?, reader.u32()?, reader.u64()?);
            let (timestamp, kind) = (Timestamp(reader.u64()?), reader.u8()?);
            reader.take(3)?;
            let (entries, body_crc, crc) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let length = length as usize;
            Some((magic, crc, Head { length, synced, timestamp, kind, entries, body_crc }))
        };
        let Some((magic, crc, head)) = read(Reader(bytes)) else {
            return Err(Flaw("a group's header is cut off"));
        };
        if magic != MAGIC {
            return Err(Flaw("no group begins here"));
        }
        let covered = bytes.first_chunk().ok_or(Flaw("a group's header is cut off"))?;
        if file.place_crc(offset, covered) != crc {
            return Err(Flaw("the checksum of a group's header is wrong"));
        }
        Ok(head)
    }

    pub(crate) fn is_mark(&self) -> bool {
        self.kind == MARK
    }

    /// Checks that this program can have written the header. The caller has checked the checksum,
    /// so the header is not torn. An error means that another program wrote the header.
    pub(crate) fn sensible(&self, offset: u64) -> Result<(), Flaw> {
        let whole = GROUP_HEADER..=GROUP_MAX;
        if !whole.contains(&self.length) || !self.length.is_multiple_of(ALIGN) {
            return Err(Flaw("a group has an impossible length"));
        }
        if self.synced > offset {
            return Err(Flaw("a group says that more was synced than there was"));
        }
        Ok(())
    }
}

/// A whole log record, borrowed from the bytes that were read.
#[derive(Clone, Copy, Debug)]
pub struct LogRecordRef<'a> {
    timestamp: Timestamp,
    kind: u8,
    entries: u32,
    stamps: bool,
    body: &'a [u8],
}

/// The log record with the header `head` and this body.
pub(crate) fn read_body<'a>(
    head: &Head,
    body: &'a [u8],
    file: &FileHeader,
) -> Result<LogRecordRef<'a>, Flaw> {
    if crc32fast::hash(body) != head.body_crc {
        return Err(Flaw("the checksum of a group is wrong"));
    }
    let Head { timestamp, kind, entries, .. } = *head;
    Ok(LogRecordRef { timestamp, kind, entries, stamps: file.stamps_entries(), body })
}

impl<'a> LogRecordRef<'a> {
    /// The commit timestamp. In a checkpoint: the highest timestamp of the record's entries.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The purpose of the record.
    pub fn kind(&self) -> LogRecordKind {
        LogRecordKind::decode(self.kind)
    }

    /// Whether the record is a mark of the log, not a commit or a note.
    pub(crate) fn is_mark(&self) -> bool {
        self.kind == MARK
    }

    /// The entries, in the order in which they were added.
    pub fn entries(&self) -> Entries<'a> {
        let LogRecordRef { timestamp, stamps, body, entries, .. } = *self;
        Entries { timestamp, stamps, left: entries, reader: Reader(body) }
    }

    /// Whether the entries fill the record. The caller has checked the checksum, so a failure means
    /// that another program wrote the record.
    pub(crate) fn sensible(&self) -> Result<(), Flaw> {
        let mut entries = self.entries();
        let read = entries.by_ref().count();
        let padding = entries.reader.0;
        if read != self.entries as usize
            || padding.len() >= ALIGN
            || padding.iter().any(|&b| b != 0)
        {
            return Err(Flaw("the entries of a group do not fill it"));
        }
        Ok(())
    }
}

/// The entries of a log record.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    timestamp: Timestamp,
    stamps: bool,
    left: u32,
    reader: Reader<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = LogEntry<'a>;

    fn next(&mut self) -> Option<LogEntry<'a>> {
        self.left = self.left.checked_sub(1)?;
        let reader = &mut self.reader;
        let timestamp = if self.stamps { Timestamp(reader.u64()?) } else { self.timestamp };
        let (table, key) = (TableId(reader.u32()?), reader.u32()?);
        let length = if key & TOMBSTONE == 0 { Some(reader.u32()?) } else { None };
        let key = reader.take((key & !TOMBSTONE) as usize)?;
        let value = match length {
            Some(length) => Some(reader.take(length as usize)?),
            None => None,
        };
        Some(LogEntry { timestamp, table, key, value })
    }
}
