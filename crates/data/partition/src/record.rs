//! Prepare and decision records, and what a restart makes of them.
//!
//! ```text
//!   Note(1)  prepare   at what the participant proposes   { id }                      and what it writes
//!   Note(2)  decision  at the commit's timestamp          { id, who has proposed       and what the coordinator's
//!                                                           which timestamp }            own node writes
//! ```
//!
//! The first entry of each is of table 2^32 - 1, which no table is.
//!
//! # What a restart concludes
//!
//! All logs are replayed together, so nobody has to be asked: a transaction has committed if its
//! decision is there, *and* the prepare record of each participant that the decision names. The
//! latter always are where each record lasts before the next step. With an asynchronous log they
//! may be lost although the decision is there; then nothing of the transaction counts, and it stays
//! whole or not at all.
//!
//! A checkpoint forgets records up to its floor. It waits for all transactions that began before
//! the floor was drawn, participants too, and flushes the logs: what a participant wrote that has
//! proposed a timestamp up to the floor stands in the checkpoint, if its transaction was decided,
//! and its record is not missed. A decision is later than all proposals, so it is never forgotten
//! before one of its prepare records. A name is used once: it is drawn from the coordinator's
//! clock, and a participant's clock is set above it before it proposes, so no clock of a later life
//! starts under a name that some record has.

use std::collections::BTreeMap;

use latchwork_txn::{TableId, Timestamp};
use latchwork_wal::{Entry, Group, Kind, Note, NoteEntry, Replayed, WalError};
use thiserror::Error;

use crate::bytes::{Reader, Writer};

/// The number of a prepare record's [`Kind::Note`].
pub const PREPARE: u8 = 1;
/// The number of a decision record's.
pub const DECISION: u8 = 2;
const HEAD: TableId = TableId(u32::MAX);

/// Whose prepare record it is, and its timestamp. Under timestamp ordering all parts of a
/// transaction have the same one.
pub(crate) type Proposal = (u8, Timestamp);

/// A prepare record without what it writes.
pub(crate) fn prepare(id: Timestamp, proposed: Timestamp) -> Result<Group, WalError> {
    head(PREPARE, proposed, id, &[])
}

/// A decision record without what the coordinator's node writes.
pub(crate) fn decision(
    id: Timestamp,
    cts: Timestamp,
    proposals: &[Proposal],
) -> Result<Group, WalError> {
    head(DECISION, cts, id, proposals)
}

fn head(
    which: u8,
    at: Timestamp,
    id: Timestamp,
    proposals: &[Proposal],
) -> Result<Group, WalError> {
    let mut group = Group::new(Kind::Note(which), at);
    let mut named = Writer::default();
    for (node, proposed) in proposals {
        named.u8(*node);
        named.u64(proposed.0);
    }
    group.put(HEAD, &id.0.to_le_bytes(), &named.0)?;
    Ok(group)
}

/// What prepare and decision records come to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Resolved {
    /// Of each transaction that has committed, all that it wrote on all nodes.
    pub commits: Vec<Commit>,
    /// Transactions that have records and have not committed.
    pub aborted: usize,
}

/// What replay has to merge in addition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// When it was committed.
    pub timestamp: Timestamp,
    /// Its rows, by the logs that they stand in.
    pub entries: Vec<NoteEntry>,
}

/// A record that cannot be what was written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "the record of a transaction over several nodes in segment {segment} of node {node}, byte {offset}, makes no sense: \
     it is of another version, or the directory is damaged; restore it from a copy"
)]
pub struct BadRecord {
    /// Whose log it is in.
    pub node: u8,
    /// In which segment.
    pub segment: u64,
    /// At which byte.
    pub offset: u64,
}

#[derive(Default)]
struct Known {
    entries: Vec<NoteEntry>,
    /// What those have proposed whose records are there.
    prepared: Vec<Proposal>,
    /// Its timestamp, and what was proposed.
    decision: Option<(Timestamp, Vec<Proposal>)>,
}

/// Finds out which transactions over several nodes have committed, from all notes that replay hands
/// over, of a directory whose checkpoint has this floor. Notes of other layers are passed over.
///
/// # Errors
/// [`BadRecord`].
pub fn resolve(notes: &[Note], floor: Timestamp) -> Result<Resolved, BadRecord> {
    let mut all: BTreeMap<u64, Known> = BTreeMap::new();
    for note in notes.iter().filter(|note| [PREPARE, DECISION].contains(&note.which)) {
        let bad = || {
            let Note { node, segment, offset, .. } = *note;
            BadRecord { node: node.0, segment, offset }
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
    /// Merges the commits into what replay has found: of each key, what was committed last. What
    /// the records were worth is known then, so they go; those of other layers stay.
    pub fn merge_into(&self, replayed: &mut Replayed) {
        replayed.notes.retain(|note| ![PREPARE, DECISION].contains(&note.which));
        replayed.merge(self.commits.iter().flat_map(|commit| {
            commit.entries.iter().map(|NoteEntry { table, key, value }| Entry {
                timestamp: commit.timestamp,
                table: *table,
                key,
                value: value.as_deref(),
            })
        }));
    }
}
