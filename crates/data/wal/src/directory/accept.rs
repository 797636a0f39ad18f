//! [`accept`]: decides where to cut logs that have lost durable records, so that one consistent
//! state is left.
//!
//! # What is left, and why that state is consistent
//!
//! Each log is cut to a prefix of itself. Let `L(n)` be the count of log records that are left of
//! the log of node `n`.
//!
//! 1. `L(n)` is at most what can be read: the records up to the first flaw, gap or end.
//! 2. Each flush batch of node `m` has a cross-log mark before it, or the last mark before it in
//!    its segment covers it. The mark states a number `seen(n)` for each other node `n`. No commit
//!    of the batch has seen a record of `n` beyond that number: see
//!    [`LogDirectory::known_elsewhere`](super::LogDirectory::known_elsewhere).
//! 3. If `seen(n) > L(n)` and the log of `n` has lost something or was cut, then `m` is cut before
//!    that mark. This step repeats until no log is cut. The repetition ends, because logs only
//!    become shorter. Records that were never durable are no loss: if a log lacks only such
//!    records, no other log is cut for it.
//! 4. By 2 and 3, no remaining commit has seen a lost commit of another node.
//! 5. No remaining commit has seen a lost commit of its own node. A commit is appended after every
//!    commit of its own node that it has seen, and logs are cut to prefixes.
//! 6. The checkpoint shows only commits up to the ends that it states
//!    ([`settle`](crate::CheckpointWriter::settle)). A log that can be read only to a point before
//!    its end is an error, with one exception. If the timestamps of all these records are up to the
//!    floor, the checkpoint contains them, so they count as left. Step 3 cuts no log before its
//!    end: these ends are of one moment, so no record up to them has seen a record behind them.
//!    A mark may state more than that moment, because its batch goes on behind the end. For the
//!    records up to the end it is not used.
//! 7. The remaining commits behave as in the history in which the lost commits had aborted. Each
//!    remaining commit has read only versions of remaining commits, by 4 and 5. Replay gives each
//!    key the latest of the remaining versions. That history is serializable: each of its conflicts
//!    is a conflict, or a chain of conflicts, of the original history.

use std::collections::BTreeMap;

use latchwork_strict::strict_assert;

use super::scan::{Files, Found, Need, all_nodes, learn, look_at, read_groups, read_witness};
use crate::format::{Content, Known, names};
use crate::reader::{LogRecordReader, Opened};
use crate::storage::Storage;
use crate::witness::{Lost, Witness};
use crate::{DatabaseId, LogEnd, NodeId, WalError};

/// The readable prefix of a log.
#[derive(Default)]
struct Scan {
    end: LogEnd,
    /// The minimum number of records that the log had, according to headers in its own files behind
    /// the end.
    least: u64,
    /// The number of bytes in these files behind the end.
    unread: u64,
    /// The position and the content of each mark.
    marks: Vec<(LogEnd, BTreeMap<NodeId, Known>)>,
    /// The position behind all records that the checkpoint needs, if anything stands there.
    needed: Option<LogEnd>,
    /// The log has bytes or segments behind the readable prefix that should be readable.
    is_short: bool,
    /// The segments that were read, and their bytes.
    segments: Vec<(u64, u64)>,
}

/// Reads the directory, and decides where to cut the logs if one has lost something. Writes
/// nothing.
pub(super) fn accept(storage: &dyn Storage, database: DatabaseId) -> Result<Found, WalError> {
    let witness = match read_witness(storage, database) {
        Err(WalError::Damaged { .. }) => None,
        read => read?,
    };
    let is_missing = witness.is_none();
    let unwitnessed = witness.as_ref().is_none_or(|witness| witness.unwitnessed);
    let files = Files::read(storage, database, witness)?;
    files.check_checkpoint(storage)?;
    let mut scans = BTreeMap::new();
    for node in all_nodes(&files) {
        let mut scan = scan(storage, database, &files, node)?;
        if let Some(log) = files.checkpointed(node) {
            if log.through <= files.floor() {
                // The checkpoint holds all of these records, so they are not lost with their files.
                scan.end.groups = scan.end.groups.max(log.end.groups);
            }
            if files.manifest.as_ref().is_some_and(|manifest| manifest.settled) {
                scan.keep_needed();
            }
        }
        scans.insert(node, scan);
    }
    let mut known = files.known();
    for (node, seen) in scans.values().flat_map(|scan| &scan.marks).flat_map(|(_, seen)| seen) {
        learn(&mut known, *node, seen.end);
    }
    for node in known.keys() {
        // Some logs have no files left. Marks, the checkpoint or the witness still state their
        // ends.
        scans.entry(*node).or_default();
    }
    let mut limits: BTreeMap<NodeId, LogEnd> = BTreeMap::new();
    for (&node, scan) in &scans {
        let known = known.get(&node).copied().unwrap_or_default();
        if scan.is_short || scan.end.is_short_of(&known) {
            limits.insert(node, scan.end);
        }
    }
    let is_empty = files.manifest.is_none() && files.segments.is_empty();
    if limits.is_empty() && (!is_missing || is_empty) {
        return look_at(storage, database, files);
    }
    while let Some((node, end)) = next_cut(&scans, &limits) {
        limits.insert(node, end);
    }
    check_against_checkpoint(storage, &files, &limits)?;
    let mut losses = BTreeMap::new();
    strict_assert!(limits.keys().all(|node| scans.contains_key(node)), "a cut log was not scanned");
    for (&node, &cut) in &limits {
        let before = files.witness.as_ref().and_then(|witness| witness.losses.get(&node));
        let lost = loss(cut, &scans[&node], known.get(&node), before);
        // If only an end record is cut, nothing is lost.
        if lost.missing + lost.given_up > 0 || scans[&node].is_short {
            losses.insert(node, lost);
        }
    }
    if unwitnessed {
        scans.keys().for_each(|node| _ = losses.entry(*node).or_default());
    }
    let end =
        |(node, scan): (&NodeId, &Scan)| (*node, limits.get(node).copied().unwrap_or(scan.end));
    let ends = scans.iter().map(end).collect();
    let checkpoint = files.manifest.is_some();
    let decided = Witness { database, ends, cut: true, losses, unwitnessed, checkpoint };
    let files = Files { witness: Some(decided.clone()), ..files };
    let found = look_at(storage, database, files)?;
    Ok(Found { decided: Some(decided), ..found })
}

/// Finds a log that must be cut further, and its new end: before a mark that has seen more of
/// another log than is left.
fn next_cut(
    scans: &BTreeMap<NodeId, Scan>,
    limits: &BTreeMap<NodeId, LogEnd>,
) -> Option<(NodeId, LogEnd)> {
    let is_lost = |(node, known): (&NodeId, &Known)| {
        limits.get(node).is_some_and(|left| left.groups < known.seen)
    };
    scans.iter().find_map(|(&node, scan)| {
        let left = limits.get(&node).unwrap_or(&scan.end);
        // A mark that is the last record is cut as well. Otherwise it would refer to lost records
        // for ever.
        let is_left = |at: &LogEnd| (at.segment, at.bytes) < (left.segment, left.bytes);
        let mut marks = scan.marks.iter().filter(|(at, _)| is_left(at));
        let cut = marks.find(|(_, known)| known.iter().any(is_lost));
        cut.map(|(at, _)| (node, *at))
    })
}

/// Fails if a cut would remove commits that the checkpoint shows.
fn check_against_checkpoint(
    storage: &dyn Storage,
    files: &Files,
    limits: &BTreeMap<NodeId, LogEnd>,
) -> Result<(), WalError> {
    let logs = files.manifest.iter().flat_map(|manifest| &manifest.logs);
    for (node, log) in logs {
        if let Some(left) = limits.get(node)
            && left.is_short_of(&log.end)
        {
            return Err(WalError::LostBelowCheckpoint {
                file: names::segment(*node, left.segment.max(1)),
                directory: storage.describe(),
                bytes: left.bytes,
            });
        }
    }
    Ok(())
}

/// The loss of a log that ends at `cut`. `before`: the loss that an interrupted cut has recorded.
fn loss(cut: LogEnd, scan: &Scan, known: Option<&LogEnd>, before: Option<&Lost>) -> Lost {
    let known = known.copied().unwrap_or_default();
    strict_assert!(cut.groups <= scan.end.groups, "a cut keeps more records than were found");
    let before = before.copied().unwrap_or_default();
    let missing = known.groups.max(scan.least).saturating_sub(scan.end.groups);
    let here = if known.segment == scan.end.segment { scan.end.bytes } else { 0 };
    let gone = if missing > 0 { known.bytes.saturating_sub(here) } else { 0 };
    Lost {
        // The numbers of `before` come from the witness file and may have any value. So the sums
        // saturate.
        missing: before.missing.saturating_add(missing),
        missing_bytes: before.missing_bytes.saturating_add(gone.max(scan.unread)),
        given_up: before.given_up.saturating_add(scan.end.groups - cut.groups),
        given_up_bytes: before.given_up_bytes.saturating_add(scan.bytes_behind(cut)),
    }
}

impl Scan {
    /// Counts records and bytes behind the end.
    fn look_behind(
        &mut self,
        storage: &dyn Storage,
        database: DatabaseId,
        (node, numbers): (NodeId, &[u64]),
    ) -> Result<(), WalError> {
        for &number in numbers.iter().filter(|number| **number >= self.end.segment) {
            let (name, content) = (names::segment(node, number), Content::Segment { node, number });
            let mut reader = match LogRecordReader::open(storage, &name, database, content) {
                Ok(Opened::Whole(reader)) => reader,
                Ok(Opened::Headless(_)) | Err(WalError::Damaged { .. }) => continue,
                Err(error) => return Err(error),
            };
            let is_last = numbers.last() == Some(&number);
            let here = number == self.end.segment;
            let cut = if here { self.end.bytes } else { 0 };
            let commits = reader.commits_behind(cut, !is_last)?;
            let before = if here { self.end.groups } else { reader.header().groups };
            self.least = self.least.max(before.saturating_add(commits));
            self.unread += reader.length().saturating_sub(cut);
        }
        Ok(())
    }

    /// Moves marks behind the records that the checkpoint needs, because none of these has seen a
    /// record that the checkpoint does not need. A mark holds for whole flush batches, and the
    /// batch of the last such record may go on.
    fn keep_needed(&mut self) {
        let Some(needed) = self.needed else { return self.marks.clear() };
        let place = |at: &LogEnd| (at.segment, at.bytes);
        let before = self.marks.partition_point(|(at, _)| place(at) < place(&needed));
        let is_marked = self.marks.get(before).is_some_and(|(at, _)| *at == needed);
        self.marks.drain(..before.saturating_sub(usize::from(!is_marked)));
        if before > 0 && !is_marked {
            self.marks[0].0 = needed;
        }
    }

    fn bytes_behind(&self, cut: LogEnd) -> u64 {
        let behind = self.segments.iter().filter(|(number, _)| *number >= cut.segment);
        behind.map(|(_, bytes)| bytes).sum::<u64>().saturating_sub(cut.bytes)
    }
}

/// Reads a node's log up to the first flaw.
fn scan(
    storage: &dyn Storage,
    database: DatabaseId,
    files: &Files,
    node: NodeId,
) -> Result<Scan, WalError> {
    let limit = files.limits().map(|ends| ends.get(&node).copied().unwrap_or_default());
    let numbers = files.segments.get(&node).map_or(&[][..], |numbers| &numbers[..]);
    let checkpointed = files.checkpointed(node).map_or(0, |log| log.end.groups);
    let mut scan = Scan::default();
    let mut last: Option<u64> = None;
    let need = Need::read(storage, database, files, (node, numbers))?;
    for (at, &number) in numbers.iter().enumerate() {
        if limit.is_some_and(|limit| number > limit.segment) {
            break;
        }
        let is_last = at + 1 == numbers.len();
        if need.is_over(at) {
            // The checkpoint covers the segment, which may be removed.
            last = None;
            continue;
        }
        let name = names::segment(node, number);
        let content = Content::Segment { node, number };
        let mut reader = match LogRecordReader::open(storage, &name, database, content) {
            Ok(Opened::Whole(reader)) => reader,
            Ok(Opened::Headless(mut reader)) => {
                // The segment was never begun, unless it holds a synced record.
                let follows = number == 1 || last.is_some_and(|last| last + 1 == number);
                scan.is_short |= !is_last || !follows || reader.was_synced_beyond(0)?;
                break;
            }
            Err(WalError::Damaged { .. }) => {
                scan.is_short = true;
                break;
            }
            Err(error) => return Err(error),
        };
        let header = *reader.header();
        if last.is_none_or(|last| last + 1 != number) && number != 1 {
            // Either the missing previous segment is not needed, or the log ends before the gap.
            if header.before > files.floor() {
                scan.is_short = true;
                break;
            }
        } else if header.groups != scan.end.groups {
            scan.is_short = true;
            break;
        }
        if let Some(limit) = limit.filter(|limit| limit.segment == number) {
            reader.end_at(limit.bytes);
        }
        last = Some(number);
        let end = |bytes, groups| LogEnd { segment: number, bytes, groups: header.groups + groups };
        let Scan { marks, needed, .. } = &mut scan;
        let tail = read_groups(&mut reader, |at, groups, mark| {
            let at = end(at, groups);
            if at.groups >= checkpointed && needed.is_none() {
                *needed = Some(at);
            }
            marks.extend(mark.map(|mark| (at, mark.known)));
        });
        let tail = match tail {
            Err(WalError::Damaged { .. }) => {
                // A record or a mark of this segment is damaged. The log ends at the previous
                // segment; the records of this segment count as missing.
                scan.is_short = true;
                break;
            }
            tail => tail?,
        };
        scan.segments.push((number, reader.offset()));
        scan.end = end(reader.offset(), tail.groups);
        if tail.flaw.is_some() {
            scan.is_short = !is_last || reader.was_synced_beyond(reader.offset())?;
            break;
        }
        if need.contradiction == Some(at + 1) {
            // The header of the next segment contradicts an earlier one.
            scan.is_short = true;
            break;
        }
    }
    // After an interrupted cut, the records behind the end were counted when the cut was decided.
    if scan.is_short && limit.is_none() {
        scan.look_behind(storage, database, (node, numbers))?;
        scan.least = scan.least.max(need.groups);
    }
    Ok(scan)
}
