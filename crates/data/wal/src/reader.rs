//! [`LogRecordReader`]: reads the log records of one file in order, and finds how the file ends.

use latchwork_strict::strict_assert;

use crate::format::{
    ALIGN, Content, FILE_HEADER, FileHeader, Flaw, GROUP_HEADER, Head, LogRecordRef, read_body,
};
use crate::storage::{File, Storage};
use crate::{DatabaseId, Timestamp, WalError};

/// The minimum number of bytes that one read of the file requests, unless the file ends before.
const CHUNK: usize = 256 << 10;
const _: () = assert!(CHUNK > GROUP_HEADER && CHUNK > FILE_HEADER, "a header is read at once");

/// Reads the log records of a file one after another.
pub(crate) struct LogRecordReader {
    file: Box<dyn File>,
    name: String,
    header: FileHeader,
    length: u64,
    /// The position of the next log record.
    offset: u64,
    /// The bytes of the file from offset `buffered` on.
    buffer: Vec<u8>,
    buffered: u64,
}

/// The result of an attempt to read the next log record.
pub(crate) enum Step<'a> {
    /// A whole log record, and its position.
    LogRecord(u64, LogRecordRef<'a>),
    /// The file ends behind a log record.
    End,
    /// Bytes that are not a whole log record.
    Flaw(Flaw),
}

/// The result of opening a file.
pub(crate) enum Opened {
    Whole(LogRecordReader),
    /// The header is not whole.
    Headless(LogRecordReader),
}

impl LogRecordReader {
    /// Opens `name`, which should hold `content`.
    pub(crate) fn open(
        storage: &dyn Storage,
        name: &str,
        database: DatabaseId,
        content: Content,
    ) -> Result<Opened, WalError> {
        let file = storage.open(name).map_err(|e| WalError::io("opening", name, e))?;
        let length = file.length().map_err(|e| WalError::io("reading", name, e))?;
        let header = FileHeader { database, content, before: Timestamp::ZERO, groups: 0 };
        let offset = FILE_HEADER as u64;
        let (buffer, name) = (Vec::new(), name.to_owned());
        let mut reader =
            LogRecordReader { file, name, header, length, offset, buffer, buffered: 0 };
        let head = reader.bytes(0, FILE_HEADER.min(length as usize))?;
        let head = head.to_vec();
        match FileHeader::decode(&head, &reader.name, Some(database))? {
            None => Ok(Opened::Headless(reader)),
            Some(header) if header.content != content => {
                let what = "its header says that it is another file than its name";
                Err(WalError::damaged(&reader.name, 16, what))
            }
            Some(header) => {
                reader.header = header;
                Ok(Opened::Whole(reader))
            }
        }
    }

    pub(crate) fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The position of the next log record: behind the last whole one.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Makes the reader ignore the file beyond `length` bytes, for example a torn tail.
    pub(crate) fn end_at(&mut self, length: u64) {
        self.length = self.length.min(length);
        strict_assert!(self.offset <= self.length, "the file ends before the reader's position");
    }

    /// The file's length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The error [`WalError::Damaged`] for the present position.
    pub(crate) fn damaged(&self, what: &'static str) -> WalError {
        WalError::damaged(&self.name, self.offset, what)
    }

    /// The next log record.
    pub(crate) fn next(&mut self) -> Result<Step<'_>, WalError> {
        let (at, left) = (self.offset, self.length - self.offset);
        strict_assert!(at <= self.length, "the reader is behind the end of the file");
        if left == 0 {
            return Ok(Step::End);
        }
        let header = self.header;
        let front = self.bytes(at, (GROUP_HEADER as u64).min(left) as usize)?;
        let head = match Head::decode(front, &header, at) {
            Ok(head) => head,
            Err(flaw) => return Ok(Step::Flaw(flaw)),
        };
        // A right checksum proves that these bytes were written. So an impossible header is damage,
        // not a torn tail.
        head.sensible(at).map_err(|flaw| self.damaged(flaw.0))?;
        if head.length as u64 > left {
            return Ok(Step::Flaw(Flaw("a group is cut off")));
        }
        self.bytes(at, head.length)?;
        let begin = (at - self.buffered) as usize;
        strict_assert!(self.buffered <= at, "the record is not in the buffer");
        let body = &self.buffer[begin + GROUP_HEADER..begin + head.length];
        let group = match read_body(&head, body, &header) {
            Ok(group) => group,
            Err(flaw) => return Ok(Step::Flaw(flaw)),
        };
        if let Err(flaw) = group.sensible() {
            return Err(WalError::damaged(&self.name, at, flaw.0));
        }
        self.offset += head.length as u64;
        strict_assert!(self.offset <= self.length, "the reader is behind the end of the file");
        Ok(Step::LogRecord(at, group))
    }

    /// Counts the records behind `cut` by their headers, except marks. The bodies of the records
    /// need not be whole. With `all`, every such record counts. Otherwise only those count that a
    /// later header states to be synced.
    pub(crate) fn commits_behind(&mut self, cut: u64, all: bool) -> Result<u64, WalError> {
        let header = self.header;
        let (mut commits, mut synced) = (Vec::new(), if all { u64::MAX } else { 0 });
        let mut at = cut.max(FILE_HEADER as u64).next_multiple_of(ALIGN as u64);
        while at + GROUP_HEADER as u64 <= self.length {
            let length = match Head::decode(self.bytes(at, GROUP_HEADER)?, &header, at) {
                Ok(head) if head.sensible(at).is_ok() => {
                    synced = synced.max(head.synced);
                    if !head.is_mark() {
                        commits.push(at);
                    }
                    head.length
                }
                _ => ALIGN,
            };
            // The length of a log record is a multiple of `ALIGN`.
            at += length as u64;
        }
        Ok(commits.into_iter().filter(|at| *at < synced).count() as u64)
    }

    /// Whether a log record behind `cut` states that more than `cut` bytes were durable when the
    /// record was written. If so, the bytes at `cut` were durable, and are damaged. Otherwise the
    /// bytes at `cut` are the start of a tail that was never acknowledged.
    ///
    /// The header of that record is proof enough, because its checksum covers its position.
    pub(crate) fn was_synced_beyond(&mut self, cut: u64) -> Result<bool, WalError> {
        let header = self.header;
        let mut at = cut.max(FILE_HEADER as u64).next_multiple_of(ALIGN as u64);
        while at + GROUP_HEADER as u64 <= self.length {
            let front = self.bytes(at, GROUP_HEADER)?;
            if let Ok(head) = Head::decode(front, &header, at)
                && head.synced > cut
            {
                return Ok(true);
            }
            at += ALIGN as u64;
        }
        Ok(false)
    }

    /// Returns `length` bytes from `at` on, which the file must have.
    pub(crate) fn bytes(&mut self, at: u64, length: usize) -> Result<&[u8], WalError> {
        let held = self.buffered..self.buffered + self.buffer.len() as u64;
        if at < held.start || at + length as u64 > held.end {
            let left = usize::try_from(self.length - at).unwrap_or(usize::MAX);
            let wanted = length.max(CHUNK).min(left);
            // After a large log record the buffer gives its memory back.
            self.buffer.resize(wanted, 0);
            self.buffer.shrink_to(CHUNK);
            self.buffered = at;
            let reading = self.file.read(at, &mut self.buffer);
            let read = reading.map_err(|e| WalError::io("reading", &self.name, e))?;
            self.buffer.truncate(read);
            if read < length {
                return Err(WalError::damaged(&self.name, at + read as u64, "the file shrank"));
            }
        }
        let begin = (at - self.buffered) as usize;
        strict_assert!(
            self.buffered <= at && begin + length <= self.buffer.len(),
            "the bytes are not in the buffer"
        );
        Ok(&self.buffer[begin..begin + length])
    }
}
