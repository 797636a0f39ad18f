//! [`Manifest`]: names the current checkpoint and its files.

use std::collections::BTreeMap;

use latchwork_strict::strict_assert;

use crate::format::{Reader, VERSION, names};
use crate::fresh::Fresh;
use crate::storage::Storage;
use crate::{DatabaseId, LogEnd, NodeId, Timestamp, WalError};

const MAGIC: [u8; 8] = *b"LATCHCKP";
/// The flag of [settled](Manifest::settled) ends, beside the number of open logs.
const SETTLED: u32 = 1 << 16;

/// The content of the file `CHECKPOINT`.
///
/// ```text
///  | magic | version u32 | open logs u16 | flags u16 | database | number | floor | parts u32 |
///  | bytes u64, entries u64   of each part |
///  | node u32, segment u64    of each log that was open: the first segment that replay needs |
///  | logs u32 |
///  | node u32, segment u64, bytes u64, records u64, through u64   of each log |
///  | crc of all before |
/// ```
///
/// Flag 1: the ends of the logs are [settled](Manifest::settled).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Manifest {
    pub(crate) database: DatabaseId,
    /// The number of the checkpoint, which is part of the names of its files.
    pub(crate) number: u64,
    /// Every version up to this timestamp is in the parts, unless a later commit overwrote or
    /// deleted it.
    pub(crate) floor: Timestamp,
    pub(crate) parts: Vec<Part>,
    /// For each log that was open at the checkpoint, the first segment that replay needs.
    pub(crate) continues: BTreeMap<NodeId, u64>,
    /// The end of each log that the checkpoint needs: it contains no write of a record behind it.
    pub(crate) logs: BTreeMap<NodeId, CheckpointedEnd>,
    /// No record up to these ends has seen a record behind them. So none of them is given up for a
    /// record behind them.
    pub(crate) settled: bool,
}

/// The end of a log that a checkpoint needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CheckpointedEnd {
    /// The records up to this end were durable when the checkpoint was put in place. With
    /// [`CommitMode::Async`](crate::CommitMode::Async) the last of them may stand behind the
    /// segment and the bytes that it states.
    pub(crate) end: LogEnd,
    /// The highest timestamp in the log when the checkpoint was put in place.
    pub(crate) through: Timestamp,
}

/// The file of one part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Manifest {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        strict_assert!(
            self.parts.len() <= u32::MAX as usize,
            "the parts of a checkpoint are numbered with 32 bits"
        );
        bytes.extend(VERSION.to_le_bytes());
        let settled = if self.settled { SETTLED } else { 0 };
        bytes.extend((self.continues.len() as u32 | settled).to_le_bytes());
        bytes.extend(self.database.0.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.floor.0.to_le_bytes());
        bytes.extend((self.parts.len() as u32).to_le_bytes());
        for part in &self.parts {
            bytes.extend(part.bytes.to_le_bytes());
            bytes.extend(part.entries.to_le_bytes());
        }
        for (node, segment) in &self.continues {
            bytes.extend(u32::from(node.0).to_le_bytes());
            bytes.extend(segment.to_le_bytes());
        }
        bytes.extend((self.logs.len() as u32).to_le_bytes());
        for (node, CheckpointedEnd { end, through }) in &self.logs {
            bytes.extend(u32::from(node.0).to_le_bytes());
            for number in [end.segment, end.bytes, end.groups, through.0] {
                bytes.extend(number.to_le_bytes());
            }
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], database: Option<DatabaseId>) -> Result<Manifest, WalError> {
        let file = names::MANIFEST;
        let damaged = |what| WalError::damaged(file, 0, what);
        // The file is renamed into place only when it is whole, so it cannot be torn.
        let mut reader = Reader(bytes);
        if reader.take(MAGIC.len()) != Some(&MAGIC) {
            return Err(damaged("it is no checkpoint"));
        }
        let found = reader.u32().ok_or_else(|| damaged("it is cut off"))?;
        if found != VERSION {
            return Err(WalError::Version { file: file.to_owned(), found, understood: VERSION });
        }
        let Some((covered, crc)) = bytes.split_last_chunk::<4>() else {
            return Err(damaged("it is cut off"));
        };
        if crc32fast::hash(covered) != u32::from_le_bytes(*crc) {
            return Err(damaged("its checksum is wrong"));
        }
        let manifest = Manifest::fields(reader).ok_or_else(|| {
            damaged("it does not have the length that it states, or a number is impossible")
        })?;
        match database {
            Some(expected) if expected != manifest.database => Err(WalError::OtherDatabase {
                file: file.to_owned(),
                found: manifest.database,
                expected,
            }),
            _ => Ok(manifest),
        }
    }

    fn fields(mut reader: Reader<'_>) -> Option<Manifest> {
        let open = reader.u32()?;
        let (nodes, settled) = (open & !SETTLED, open & SETTLED != 0);
        let (database, number) = (DatabaseId(reader.u64()?), reader.u64()?);
        let (floor, count) = (Timestamp(reader.u64()?), reader.u32()?);
        let (mut parts, mut continues) = (Vec::new(), BTreeMap::new());
        for _ in 0..count {
            parts.push(Part { bytes: reader.u64()?, entries: reader.u64()? });
        }
        for _ in 0..nodes {
            continues.insert(NodeId(u8::try_from(reader.u32()?).ok()?), reader.u64()?);
        }
        let mut logs = BTreeMap::new();
        for _ in 0..reader.u32()? {
            let node = NodeId(u8::try_from(reader.u32()?).ok()?);
            let end = reader.log_end()?;
            logs.insert(node, CheckpointedEnd { end, through: Timestamp(reader.u64()?) });
        }
        let crc = reader.u32();
        // The number of the next checkpoint must fit too.
        (crc.is_some() && reader.0.is_empty() && number < u64::MAX).then_some(())?;
        Some(Manifest { database, number, floor, parts, continues, logs, settled })
    }

    /// Whether the checkpoint covers the whole log of `node`, which has `groups` records: the
    /// timestamps of all these records are up to the floor. The files of such a log may be missing.
    pub(crate) fn covers(&self, node: NodeId, groups: u64) -> bool {
        let log = self.logs.get(&node);
        log.is_some_and(|log| log.through <= self.floor && groups <= log.end.groups)
    }

    /// The manifest in place; `None` when there is none.
    pub(crate) fn read(
        storage: &dyn Storage,
        database: Option<DatabaseId>,
    ) -> Result<Option<Manifest>, WalError> {
        let name = names::MANIFEST;
        let file = match storage.open(name) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WalError::io("opening", name, error)),
        };
        let length = file.length().map_err(|e| WalError::io("reading", name, e))?;
        if length > MANIFEST_MAX {
            return Err(WalError::damaged(name, MANIFEST_MAX, "it is too long"));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read(0, &mut bytes).map_err(|e| WalError::io("reading", name, e))?;
        bytes.truncate(read);
        Manifest::decode(&bytes, database).map(Some)
    }

    /// Writes this manifest durably, to be put in place.
    pub(crate) fn write<'a>(&self, storage: &'a dyn Storage) -> Result<Fresh<'a>, WalError> {
        strict_assert!(
            self.parts.iter().all(|part| part.bytes >= crate::format::FILE_HEADER as u64),
            "a part is shorter than its header"
        );
        Fresh::write(storage, names::MANIFEST, &self.encode())
    }

    /// The names of the parts' files.
    pub(crate) fn part_names(&self) -> impl Iterator<Item = String> {
        let number = self.number;
        (0..self.parts.len() as u32).map(move |part| names::part(number, part))
    }

    /// Checks that all parts are there with their lengths.
    pub(crate) fn check_files(
        &self,
        storage: &dyn Storage,
        all: &[String],
    ) -> Result<(), WalError> {
        for (name, part) in self.part_names().zip(&self.parts) {
            if all.binary_search(&name).is_err() {
                return Err(WalError::NoCheckpoint { file: name, directory: storage.describe() });
            }
            let length = storage.open(&name).and_then(|file| file.length());
            let length = length.map_err(|e| WalError::io("reading", &name, e))?;
            if length != part.bytes {
                let at = length.min(part.bytes);
                return Err(WalError::damaged(&name, at, "it does not have its length"));
            }
        }
        Ok(())
    }
}

/// The longest manifest: room for about a million parts.
const MANIFEST_MAX: u64 = 16 << 20;
const _: () =
    assert!(MANIFEST_MAX > (Timestamp::NODES_MAX as u64) * 64, "a manifest has room for every log");

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let end = LogEnd { segment: 4, bytes: 900, groups: 17 };
        Manifest {
            database: DatabaseId(7),
            number: 3,
            floor: Timestamp(900),
            parts: vec![Part { bytes: 4096, entries: 9 }, Part { bytes: 64, entries: 0 }],
            continues: [(NodeId(0), 4), (NodeId(5), 1)].into(),
            logs: [(NodeId(0), CheckpointedEnd { end, through: Timestamp(u64::MAX) })].into(),
            settled: true,
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_no_bit_of_it_may_change() {
        let (manifest, bytes) = (manifest(), manifest().encode());
        assert_eq!(Manifest::decode(&bytes, Some(DatabaseId(7))).expect("whole"), manifest);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Manifest::decode(&bytes, Some(DatabaseId(7))).expect_err("damaged");
        }
        for length in 0..bytes.len() {
            Manifest::decode(&bytes[..length], None).expect_err("cut off");
        }
        // Regression: the next checkpoint after the highest number would have no number.
        let last = Manifest { number: u64::MAX, ..manifest.clone() };
        Manifest::decode(&last.encode(), None).expect_err("the last number there is");
        let other = Manifest::decode(&bytes, Some(DatabaseId(8))).expect_err("another");
        assert!(matches!(other, WalError::OtherDatabase { .. }), "{other}");
    }
}
