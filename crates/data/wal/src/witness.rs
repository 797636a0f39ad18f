//! [`Witness`]: the file that states how far each log of the directory is durable.
//!
//! A log that lost its end looks like a log that was always shorter. The witness is a second place
//! that states how far the log was durable, at least. An old witness is still true, because the
//! durable part of a log never shrinks. The exception is an accepted loss, which first rewrites the
//! witness. So a crash that brings back an old witness does no harm. A witness with a
//! [cut](Witness::cut) must not come back, so its replacement is synced before any log is
//! continued.

use std::collections::BTreeMap;
use std::io;

use crate::format::{Reader, VERSION, names};
use crate::fresh::Fresh;
use crate::storage::Storage;
use crate::{DatabaseId, LogEnd, NodeId, WalError};

const MAGIC: [u8; 8] = *b"LATCHWIT";
/// The flag of a witness with a [cut](Witness::cut).
const CUT: u32 = 1;
/// The flag of a witness of a [checkpoint](Witness::checkpoint).
const CHECKPOINT: u32 = 2;
/// The flag of a cut that was decided [without a witness](Witness::unwitnessed).
const UNWITNESSED: u32 = 4;
/// The longest witness, with room for 256 nodes with a loss each.
const WITNESS_MAX: u64 = 32 << 10;

/// The content of the file `WITNESS`.
///
/// ```text
///  | magic | version u32 | nodes u32 | database u64 | flags u32 | 0 u32 |
///  | node u32 | 0 u32 | segment u64 | bytes u64 | groups u64   of each node |
///  | losses u32 | 0 u32 |
///  | node u32 | 0 u32 | missing u64 | bytes u64 | given up u64 | bytes u64   of each node with a loss |
///  | crc |
/// ```
///
/// The losses are present only with flag 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Witness {
    pub(crate) database: DatabaseId,
    /// How far each log is durable, at least.
    pub(crate) ends: BTreeMap<NodeId, LogEnd>,
    /// A loss was accepted: the logs end at `ends`, and the repair removes everything behind these
    /// ends.
    pub(crate) cut: bool,
    /// The records that this cut lost and gave up, for each log. The opening that completes the cut
    /// reports these losses, even if an earlier opening decided the cut.
    pub(crate) losses: BTreeMap<NodeId, Lost>,
    /// This cut was decided without a witness, so not all that is lost is known.
    pub(crate) unwitnessed: bool,
    /// There is a durable checkpoint. Without this flag, a directory that lost its checkpoint looks
    /// like one that never had a checkpoint.
    pub(crate) checkpoint: bool,
}

/// The lost and the given-up records of one log; see [`Loss`](crate::Loss).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) missing: u64,
    pub(crate) missing_bytes: u64,
    pub(crate) given_up: u64,
    pub(crate) given_up_bytes: u64,
}

impl Witness {
    /// A witness with these ends, without a cut and without a checkpoint.
    pub(crate) fn of(database: DatabaseId, ends: BTreeMap<NodeId, LogEnd>) -> Witness {
        let losses = BTreeMap::new();
        Witness { database, ends, cut: false, losses, unwitnessed: false, checkpoint: false }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.ends.len() as u32).to_le_bytes());
        bytes.extend(self.database.0.to_le_bytes());
        let flags =
            [(self.cut, CUT), (self.checkpoint, CHECKPOINT), (self.unwitnessed, UNWITNESSED)];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag);
        bytes.extend(flags.sum::<u32>().to_le_bytes());
        bytes.extend([0; 4]);
        for (node, end) in &self.ends {
            bytes.extend(u64::from(node.0).to_le_bytes());
            for number in [end.segment, end.bytes, end.groups] {
                bytes.extend(number.to_le_bytes());
            }
        }
        if self.cut {
            bytes.extend((self.losses.len() as u64).to_le_bytes());
            for (node, lost) in &self.losses {
                bytes.extend(u64::from(node.0).to_le_bytes());
                let Lost { missing, missing_bytes, given_up, given_up_bytes } = *lost;
                for number in [missing, missing_bytes, given_up, given_up_bytes] {
                    bytes.extend(number.to_le_bytes());
                }
            }
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], database: Option<DatabaseId>) -> Result<Witness, WalError> {
        let file = names::WITNESS;
        let damaged = |what| WalError::damaged(file, 0, what);
        let mut reader = Reader(bytes);
        // The file is renamed into place only when it is whole, so it cannot be torn.
        if reader.take(MAGIC.len()) != Some(&MAGIC) {
            return Err(damaged("it does not say how far logs go"));
        }
        let found = reader.u32().ok_or_else(|| damaged("it is cut off"))?;
        if found != VERSION {
            return Err(WalError::Version { file: file.to_owned(), found, understood: VERSION });
        }
        let whole = bytes.split_last_chunk::<4>();
        if whole.is_none_or(|(covered, crc)| crc32fast::hash(covered) != u32::from_le_bytes(*crc)) {
            return Err(damaged("its checksum is wrong"));
        }
        let witness = Witness::fields(reader).ok_or_else(|| {
            damaged("it does not have the length that it states, or a log ends inside a header")
        })?;
        match database {
            Some(expected) if expected != witness.database => Err(WalError::OtherDatabase {
                file: file.to_owned(),
                found: witness.database,
                expected,
            }),
            _ => Ok(witness),
        }
    }

    fn fields(mut reader: Reader<'_>) -> Option<Witness> {
        let (nodes, database, flags) = (reader.u32()?, DatabaseId(reader.u64()?), reader.u32()?);
        reader.u32()?;
        let mut ends = BTreeMap::new();
        for _ in 0..nodes {
            let node = NodeId(u8::try_from(reader.u64()?).ok()?);
            ends.insert(node, reader.log_end()?);
        }
        let [cut, checkpoint, unwitnessed] =
            [CUT, CHECKPOINT, UNWITNESSED].map(|flag| flags & flag != 0);
        let mut losses = BTreeMap::new();
        for _ in 0..if cut { reader.u64()? } else { 0 } {
            let node = NodeId(u8::try_from(reader.u64()?).ok()?);
            let (missing, missing_bytes) = (reader.u64()?, reader.u64()?);
            let (given_up, given_up_bytes) = (reader.u64()?, reader.u64()?);
            losses.insert(node, Lost { missing, missing_bytes, given_up, given_up_bytes });
        }
        let crc = reader.u32();
        let is_known = flags <= CUT | CHECKPOINT | UNWITNESSED && (cut || !unwitnessed);
        (crc.is_some() && reader.0.is_empty() && is_known).then_some(())?;
        Some(Witness { database, ends, cut, losses, unwitnessed, checkpoint })
    }

    /// The witness in place; `None` when there is none.
    pub(crate) fn read(
        storage: &dyn Storage,
        database: Option<DatabaseId>,
    ) -> Result<Option<Witness>, WalError> {
        let name = names::WITNESS;
        let file = match storage.open(name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WalError::io("opening", name, error)),
        };
        let length = file.length().map_err(|e| WalError::io("reading", name, e))?;
        if length > WITNESS_MAX {
            return Err(WalError::damaged(name, WITNESS_MAX, "it is too long"));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read(0, &mut bytes).map_err(|e| WalError::io("reading", name, e))?;
        bytes.truncate(read);
        Witness::decode(&bytes, database).map(Some)
    }

    /// Puts this witness in place. When this succeeds, the bytes are durable. The name is durable
    /// after the next sync of the directory. Until then a crash may leave the previous witness,
    /// which is true as well.
    pub(crate) fn write(&self, storage: &dyn Storage) -> Result<(), WalError> {
        Fresh::write(storage, names::WITNESS, &self.encode())?.put_in_place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_no_bit_of_it_may_change() {
        let ends = [
            (NodeId(0), LogEnd { segment: 3, bytes: 900, groups: 17 }),
            (NodeId(63), LogEnd::default()),
        ];
        let lost = Lost { missing: 5, missing_bytes: 600, given_up: 7, given_up_bytes: 800 };
        let losses = [(NodeId(0), lost)].into();
        let (database, ends) = (DatabaseId(7), ends.into());
        let witness =
            Witness { database, ends, cut: true, losses, unwitnessed: true, checkpoint: true };
        let bytes = witness.encode();
        assert_eq!(Witness::decode(&bytes, Some(DatabaseId(7))).expect("whole"), witness);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Witness::decode(&bytes, Some(DatabaseId(7))).expect_err("damaged");
        }
        for length in 0..bytes.len() {
            Witness::decode(&bytes[..length], None).expect_err("cut off");
        }
        for (cut, checkpoint) in [(false, false), (false, true), (true, false)] {
            let losses = if cut { witness.losses.clone() } else { BTreeMap::new() };
            let witness = Witness { cut, checkpoint, losses, unwitnessed: cut, ..witness.clone() };
            assert_eq!(Witness::decode(&witness.encode(), None).expect("whole"), witness);
        }
        let other = Witness::decode(&bytes, Some(DatabaseId(8))).expect_err("another");
        assert!(matches!(other, WalError::OtherDatabase { .. }), "{other}");
    }

    #[test]
    fn no_log_ends_inside_the_header_of_a_segment() {
        let end = |segment, bytes| [(NodeId(0), LogEnd { segment, bytes, groups: 0 })].into();
        let read = |ends| Witness::decode(&Witness::of(DatabaseId(7), ends).encode(), None);
        read(end(1, 64)).expect("the header, and no record");
        read(end(0, 0)).expect("no segment");
        for bytes in [0, 63] {
            let error = read(end(1, bytes)).expect_err("inside the header");
            assert!(matches!(error, WalError::Damaged { .. }), "{error}");
        }
    }

    #[test]
    fn a_witness_of_as_many_nodes_as_there_can_be_is_read() {
        let nodes = || (0..=u8::MAX).map(NodeId);
        let ends = nodes().map(|node| (node, LogEnd::default())).collect();
        let losses = nodes().map(|node| (node, Lost::default())).collect();
        let witness = Witness { cut: true, losses, ..Witness::of(DatabaseId(7), ends) };
        let length = witness.encode().len() as u64;
        assert!(length <= WITNESS_MAX, "{length}");
    }
}
