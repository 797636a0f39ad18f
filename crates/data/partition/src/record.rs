//! Prepare and decision records, and the outcomes of transactions that a restart derives from them.
//!
//! ```text
//!   record             timestamp                        first entry                    then
//!   Note(1)  prepare   what the participant proposes    { id }                         its writes
//!   Note(2)  decision  the commit timestamp             { id, node and timestamp of    its writes
//!                                                         each proposal }
//! ```
//!
//! The first entry of each record has the table number 2^32 - 1, which no table has.
//!
//! # What a restart concludes
//!
//! All logs are replayed together, so no node needs a message. A transaction has committed if its
//! decision record is there, *and* the prepare record of each participant that the decision names.
//! With a synchronous log each record is durable before the next step. So with the decision these
//! prepare records are there, unless a loss was accepted. With an asynchronous log a prepare record
//! may be lost although the decision is there. If so, the transaction counts as aborted on all
//! nodes.
//!
//! Records up to the floor of a checkpoint are not needed, for these reasons:
//!
//! 1. The checkpoint waits for all transactions that began before its floor was drawn, participants
//!    included, and flushes the logs.
//! 2. So a participant with a proposed timestamp up to the floor has its writes in the checkpoint,
//!    if its transaction was decided. Its prepare record is not needed.
//! 3. The timestamp of a decision is not below any of its proposals. So a floor that covers the
//!    decision covers its prepare records as well.
//! 4. A transaction id is used once. The id is drawn from the coordinator's clock, and a
//!    participant raises its clock above the id before it proposes. So after a restart every clock
//!    is above all ids in the records.

use std::collections::BTreeMap;

use latchwork_strict::strict_assert;
use latchwork_txn::{TableId, Timestamp};
use latchwork_wal::{LogEntry, LogRecord, LogRecordKind, Note, NoteEntry, Replayed, WalError};
use thiserror::Error;

use crate::bytes::{Reader, Writer};

/// The number of a prepare record's [`LogRecordKind::Note`].
pub const PREPARE: u8 = 1;
/// The number of a decision record's [`LogRecordKind::Note`].
pub const DECISION: u8 = 2;
const HEAD: TableId = TableId(u32::MAX);
const _: () = assert!(PREPARE != DECISION && PREPARE > 0, "the kinds of notes differ");

/// The number of the participant's node, and its proposed timestamp. Under timestamp ordering all
/// parts of a transaction propose the same timestamp.
pub(crate) type Proposal = (u8, Timestamp);

/// A prepare record without the writes of the participant.
pub(crate) fn prepare(id: Timestamp, proposed: Timestamp) -> Result<LogRecord, WalError> {
    head(PREPARE, proposed, id, &[])
}

/// A decision record without the writes of the coordinator's node.
pub(crate) fn decision(
    id: Timestamp,
    cts: Timestamp,
    proposals: &[Proposal],
) -> Result<LogRecord, WalError> {
    head(DECISION, cts, id, proposals)
}

fn head(
    which: u8,
    at: Timestamp,
    id: Timestamp,
    proposals: &[Proposal],
) -> Result<LogRecord, WalError> {
    let mut group = LogRecord::new(LogRecordKind::Note(which), at);
    let mut named = Writer::default();
    strict_assert!(proposals.is_empty() || which == DECISION, "a prepare record names proposals");
    strict_assert!(at > Timestamp::ZERO, "a record without a timestamp");
    for (node, proposed) in proposals {
        named.u8(*node);
        named.u64(proposed.0);
    }
    group.put(HEAD, &id.0.to_le_bytes(), &named.0)?;
    strict_assert!(named.0.len() == 9 * proposals.len(), "a proposal takes 9 bytes");
    Ok(group)
}

/// The outcomes of transactions over several nodes, from the prepare and decision records of all
/// logs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Resolved {
    /// The committed transactions, each with its writes on all nodes.
    pub commits: Vec<Commit>,
    /// Transactions that have records and have not committed.
    pub aborted: usize,
}

/// A committed transaction whose rows must be merged into the replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The commit timestamp.
    pub timestamp: Timestamp,
    /// The rows of all its records.
    pub entries: Vec<NoteEntry>,
}

/// A record that no program of this version can have written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "the record of a transaction over several nodes in segment {segment} of node {node}, byte {offset}, makes no sense: \
     it is of another version, or the directory is damaged; restore it from a copy"
)]
pub struct BadCommitRecord {
    /// The node of the log.
    pub node: u8,
    /// The segment.
    pub segment: u64,
    /// The position in the segment, in bytes.
    pub offset: u64,
}

#[derive(Default)]
struct Known {
    entries: Vec<NoteEntry>,
    /// The proposals in the prepare records that were found.
    prepared: Vec<Proposal>,
    /// The commit timestamp, and the proposals that the decision names.
    decision: Option<(Timestamp, Vec<Proposal>)>,
}

/// Finds the committed transactions over several nodes from all notes of a replay. `floor` is the
/// floor of the directory's checkpoint. Notes of other layers are ignored.
///
/// # Errors
/// [`BadCommitRecord`], when such a record cannot be decoded, or when one transaction has two
/// decisions.
pub fn resolve(notes: &[Note], floor: Timestamp) -> Result<Resolved, BadCommitRecord> {
    let mut all: BTreeMap<u64, Known> = BTreeMap::new();
    for note in notes.iter().filter(|note| [PREPARE, DECISION].contains(&note.which)) {
        let bad = || {
            let Note { node, segment, offset, .. } = *note;
            BadCommitRecord { node: node.0, segment, offset }
        };
        let (first, entries) = note.entries.split_first().ok_or_else(bad)?;
        let (id, proposals) = read_head(first).ok_or_else(bad)?;
        let known = all.entry(id).or_default();
        known.entries.extend(entries.iter().cloned());
        if note.which == PREPARE {
            known.prepared.push((note.node.0, note.timestamp));
        } else if known.decision.replace((note.timestamp, proposals)).is_some() {
            return Err(bad());
        }
    }
    let mut resolved = Resolved::default();
    for Known { entries, prepared, decision } in all.into_values() {
        let is_there = |proposal: &Proposal| proposal.1 <= floor || prepared.contains(proposal);
        match decision {
            Some((timestamp, proposals)) if proposals.iter().all(is_there) => {
                resolved.commits.push(Commit { timestamp, entries });
            }
            _ => resolved.aborted += 1,
        }
    }
    Ok(resolved)
}

fn read_head(entry: &NoteEntry) -> Option<(u64, Vec<Proposal>)> {
    let id = <[u8; 8]>::try_from(&*entry.key).ok()?;
    let (mut rest, mut proposals) = (Reader(entry.value.as_deref()?), Vec::new());
    while !rest.0.is_empty() {
        proposals.push((rest.u8()?, Timestamp(rest.u64()?)));
    }
    (entry.table == HEAD).then_some((u64::from_le_bytes(id), proposals))
}

impl Resolved {
    /// Merges the commits into a replay, which keeps the latest version of each key. Prepare and
    /// decision records are then removed from the notes; those of other layers stay.
    pub fn merge_into(&self, replayed: &mut Replayed) {
        replayed.notes.retain(|note| ![PREPARE, DECISION].contains(&note.which));
        strict_assert!(
            replayed.notes.iter().all(|note| ![PREPARE, DECISION].contains(&note.which)),
            "a resolved note is left"
        );
        replayed.merge(self.commits.iter().flat_map(|commit| {
            commit.entries.iter().map(|NoteEntry { table, key, value }| LogEntry {
                timestamp: commit.timestamp,
                table: *table,
                key,
                value: value.as_deref(),
            })
        }));
    }
}
