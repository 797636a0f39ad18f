//! [`Active`]: the segment that is being appended to.

use std::io;

use crate::directory::Segment;
use crate::format::{Content, FILE_HEADER, FileHeader, GROUP_HEADER, finish, names};
use crate::storage::File;
use crate::{End, LogDirectory, NodeId, WalError};

/// The last segment of a log, whole and lasting up to `length` whenever no batch is being written.
pub(super) struct Active {
    pub(super) name: String,
    pub(super) segment: Segment,
    pub(super) length: u64,
    header: FileHeader,
    file: Box<dyn File>,
}

/// Why there is no new segment.
pub(super) enum NotBegun {
    /// Nothing of it is left: go on with the one before.
    Refused(WalError),
    /// Something of it may be left, or may come back: the one before must not be appended to.
    Unknown(WalError),
}

impl Active {
    /// Begins a segment, of which name and header are lasting when this returns.
    ///
    /// Whoever reads a log takes any segment but the last for whole. So the one before must be
    /// lasting when this is called, and must not grow after it, unless nothing is left of the new
    /// one.
    pub(super) fn begin(
        directory: &LogDirectory,
        node: NodeId,
        segment: Segment,
    ) -> Result<Active, NotBegun> {
        let Segment { number, before, groups } = segment;
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
            let gone = storage.remove(&name).and_then(|()| storage.sync_directory());
            return Err(match gone {
                Ok(()) => NotBegun::Refused(refused),
                Err(error) => NotBegun::Unknown(WalError::io("removing", &name, error)),
            });
        }
        let unknown = |error| NotBegun::Unknown(WalError::io("syncing", &name, error));
        file.sync().map_err(unknown)?;
        storage.sync_directory().map_err(unknown)?;
        directory.add(node, segment);
        Ok(Active { name, segment, length: FILE_HEADER as u64, header, file })
    }

    /// Where the log ends, with so many groups.
    pub(super) fn end(&self, groups: u64) -> End {
        End { segment: self.segment.number, bytes: self.length, groups }
    }

    /// Whether nothing was appended.
    pub(super) fn is_empty(&self) -> bool {
        self.length == FILE_HEADER as u64
    }

    /// Completes the headers of the groups in `bytes`, which are going to be appended `behind`
    /// bytes behind what is durable.
    pub(super) fn finish(&self, bytes: &mut [u8], behind: usize) {
        let mut at = 0;
        while at + GROUP_HEADER <= bytes.len() {
            let length =
                u32::from_le_bytes([bytes[at + 4], bytes[at + 5], bytes[at + 6], bytes[at + 7]]);
            // All before this batch is lasting.
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

    /// Takes back what an append that failed has written. Lasting, since it must not come back
    /// behind what is appended next.
    pub(super) fn roll_back(&self) -> io::Result<()> {
        self.file.truncate(self.length)?;
        self.file.sync()
    }
}
