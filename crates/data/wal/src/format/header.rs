//! [`FileHeader`]: names the database, the kind and the number of a file.

use latchwork_strict::{strict_assert, strict_assert_eq};

use super::{FILE_HEADER, GROUP_HEADER, Reader, VERSION, put};
use crate::{DatabaseId, NodeId, Timestamp, WalError};

const MAGIC: [u8; 8] = *b"LATCHWAL";
const CRC_AT: usize = FILE_HEADER - 4;
const _: () =
    assert!(CRC_AT >= 56 && FILE_HEADER == 64, "the checksum is behind the fields of a header");

/// The content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Segment `number` of the log of `node`.
    Segment { node: NodeId, number: u64 },
    /// Part `part` of checkpoint `number`.
    Part { number: u64, part: u32 },
}

/// The header of a segment or of a checkpoint part.
///
/// ```text
///  0       8        12    13    14  16        20  24        32      40       48       56  60    64
///  | magic | version | kind | node | 0 | part   | 0 | database | number | before | groups | 0 | crc |
/// ```
///
/// `before` is the highest timestamp of all earlier segments of this node. If `before` is not above
/// the floor of the checkpoint, the earlier segments may be missing. `groups` counts the log
/// records of all earlier segments. So if the previous segment loses its end, the counts differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileHeader {
    pub(crate) database: DatabaseId,
    pub(crate) content: Content,
    pub(crate) before: Timestamp,
    pub(crate) groups: u64,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        strict_assert!(
            self.groups <= u64::MAX / 2,
            "a reader refuses a header with so many records"
        );
        let (kind, node, number, part) = match self.content {
            Content::Segment { node, number } => (1, node.0, number, 0),
            Content::Part { number, part } => (2, 0, number, part),
        };
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, VERSION.to_le_bytes());
        put(&mut bytes, 12, [kind, node]);
        put(&mut bytes, 16, u32::to_le_bytes(part));
        put(&mut bytes, 24, self.database.0.to_le_bytes());
        put(&mut bytes, 32, u64::to_le_bytes(number));
        put(&mut bytes, 40, self.before.0.to_le_bytes());
        put(&mut bytes, 48, self.groups.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        put(&mut bytes, CRC_AT, crc.to_le_bytes());
        strict_assert_eq!(
            FileHeader::decode(&bytes, "", Some(self.database)).ok().flatten().map(|read| (
                read.content,
                read.before,
                read.groups
            )),
            Some((self.content, self.before, self.groups)),
            "a header is read as it was written"
        );
        bytes
    }

    /// Decodes the header of `file`.
    ///
    /// `Ok(None)` when the header is not whole. A header of another version or of another database
    /// is an error: the caller cannot use such a file.
    pub(crate) fn decode(
        bytes: &[u8],
        file: &str,
        database: Option<DatabaseId>,
    ) -> Result<Option<FileHeader>, WalError> {
        let Some(bytes) = bytes.first_chunk::<FILE_HEADER>() else { return Ok(None) };
        if bytes[..8] != MAGIC {
            return Ok(None);
        }
        let mut reader = Reader(&bytes[8..]);
        // The version comes first: it has the same position in every version of the format, and the
        // checksum may move.
        let found = reader.u32().unwrap_or(0);
        if found != VERSION && found != 0 {
            return Err(WalError::Version { file: file.to_owned(), found, understood: VERSION });
        }
        let crc = u32::from_le_bytes([bytes[60], bytes[61], bytes[62], bytes[63]]);
        if found == 0 || crc32fast::hash(&bytes[..CRC_AT]) != crc {
            return Ok(None);
        }
        let read = |reader: &mut Reader<'_>| {
            let (kind, node) = (reader.u8()?, reader.u8()?);
            reader.take(2)?;
            let part = reader.u32()?;
            reader.take(4)?;
            let (database, number) = (DatabaseId(reader.u64()?), reader.u64()?);
            let content = match kind {
                // The number of the next file must fit too.
                _ if number == u64::MAX => return None,
                1 => Content::Segment { node: NodeId(node), number },
                2 => Content::Part { number, part },
                _ => return None,
            };
            let (before, groups) = (Timestamp(reader.u64()?), reader.u64()?);
            // Later counts begin at this number, and must not overflow.
            if groups > u64::MAX / 2 {
                return None;
            }
            Some(FileHeader { database, content, before, groups })
        };
        let header = read(&mut reader).ok_or_else(|| {
            WalError::damaged(
                file,
                12,
                "there is no file of such a kind, number and count of groups",
            )
        })?;
        match database {
            Some(expected) if expected != header.database => {
                let (file, found) = (file.to_owned(), header.database);
                Err(WalError::OtherDatabase { file, found, expected })
            }
            _ => Ok(Some(header)),
        }
    }

    /// The checksum of a log record's header in this file. `head` is the header without the
    /// checksum.
    pub(crate) fn place_crc(&self, offset: u64, head: &[u8; GROUP_HEADER - 4]) -> u32 {
        let mut place = [0; 32];
        let (kind, index, number) = match self.content {
            Content::Segment { node, number } => (1, u32::from(node.0), number),
            Content::Part { number, part } => (2, part, number),
        };
        put(&mut place, 0, u32::to_le_bytes(kind));
        put(&mut place, 4, u32::to_le_bytes(index));
        put(&mut place, 8, self.database.0.to_le_bytes());
        put(&mut place, 16, u64::to_le_bytes(number));
        put(&mut place, 24, offset.to_le_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&place);
        hasher.update(head);
        hasher.finalize()
    }

    /// Whether each entry in this file has a timestamp of its own.
    pub(crate) fn stamps_entries(&self) -> bool {
        matches!(self.content, Content::Part { .. })
    }
}
