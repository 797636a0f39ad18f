//! [`Active`]: the last segment of a log, to which the flusher appends.

use std::io;

use latchwork_strict::strict_assert;

use crate::directory::Segment;
use crate::format::{Content, FILE_HEADER, FileHeader, GROUP_HEADER, finish, names};
use crate::storage::File;
use crate::{LogDirectory, LogEnd, NodeId, WalError};

/// The last segment of a log. Its first `length` bytes are durable. While no flush batch is being
/// written, the file has no other bytes.
pub(super) struct Active {
    pub(super) name: String,
    pub(super) segment: Segment,
    pub(super) length: u64,
    header: FileHeader,
    file: Box<dyn File>,
}

/// The reason why a new segment was not begun.
pub(super) enum NotBegun {
    /// Nothing of the new segment is left: the previous segment may be appended to.
    Refused(WalError),
    /// A part of the new segment may be left or may come back: the previous segment must not be
    /// appended to.
    Unknown(WalError),
}

impl Active {
    /// Begins a segment. When this succeeds, the name and the header of the segment are durable.
    ///
    /// A reader of a log assumes that every segment except the last one is whole. So the previous
    /// segment must be durable before this call. After this call the previous segment must not
    /// grow, unless the result is [`NotBegun::Refused`].
    pub(super) fn begin(
        directory: &LogDirectory,
        node: NodeId,
        segment: Segment,
    ) -> Result<Active, NotBegun> {
        let Segment { number, before, groups } = segment;
        strict_assert!(number > 0, "segments are numbered from 1");
        let storage = directory.storage();
        directory.ensure_witness().map_err(NotBegun::Refused)?;
        let name = names::segment(node, number);
        let content = Content::Segment { node, number };
        let header = FileHeader { database: directory.database(), content, before, groups };
        let file = match storage.create(&name) {
            Ok(file) => file,
            Err(error) => return Err(NotBegun::Refused(WalError::io("making", &name, error))),
        };
        if let Err(error) = file.append(&header.encode()) {
            let refused = WalError::io("writing", &name, error);
            let gone = storage.remove(&name).map_err(|e| WalError::io("removing", &name, e));
            return Err(match gone.and_then(|()| directory.sync_names()) {
                Ok(()) => NotBegun::Refused(refused),
                Err(error) => NotBegun::Unknown(error),
            });
        }
        file.sync().map_err(|e| NotBegun::Unknown(WalError::io("syncing", &name, e)))?;
        directory.sync_names().map_err(NotBegun::Unknown)?;
        directory.add(node, segment);
        Ok(Active { name, segment, length: FILE_HEADER as u64, header, file })
    }

    /// The end of the log, which has `groups` log records.
    pub(super) fn end(&self, groups: u64) -> LogEnd {
        LogEnd { segment: self.segment.number, bytes: self.length, groups }
    }

    /// Whether nothing was appended.
    pub(super) fn is_empty(&self) -> bool {
        self.length == FILE_HEADER as u64
    }

    /// Completes the headers of the log records in `bytes`, which will be appended `behind` bytes
    /// behind the durable part.
    pub(super) fn finish(&self, bytes: &mut [u8], behind: usize) {
        let mut at = 0;
        while at + GROUP_HEADER <= bytes.len() {
            strict_assert!(
                (bytes.len() - at).is_multiple_of(crate::format::ALIGN),
                "a record is not aligned"
            );
            let length =
                u32::from_le_bytes([bytes[at + 4], bytes[at + 5], bytes[at + 6], bytes[at + 7]]);
            strict_assert!(
                length as usize >= GROUP_HEADER && at + length as usize <= bytes.len(),
                "a record of {length} bytes in a batch of {}",
                bytes.len()
            );
            // The part of the segment before this flush batch and its mark is durable.
            let offset = self.length + (behind + at) as u64;
            finish(&mut bytes[at..], &self.header, offset, self.length);
            at += length as usize;
        }
    }

    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Removes the bytes that a failed append has written, and syncs the removal. Without the sync,
    /// a crash could bring those bytes back behind later records.
    pub(super) fn roll_back(&self) -> io::Result<()> {
        self.file.truncate(self.length)?;
        self.file.sync()
    }
}
