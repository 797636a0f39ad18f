//! [`accept`]: logs that have lost what was durable, cut to one state that was.
//!
//! # What is left, and why it is a state that was
//!
//! Each log is cut to a beginning of itself. Write `L(n)` for how many groups are left of the log
//! of node `n`.
//!
//! 1. `L(n)` is at most what can be read: the groups up to the first flaw, gap or end.
//! 2. Each batch of node `m` has a mark before it, or is covered by the last mark of its segment,
//!    which names for each other node `n` a number `seen(n)`. No commit of the batch has seen a
//!    later group of `n` than that: see
//!    [`LogDirectory::known_beside`](super::LogDirectory::known_beside).
//! 3. Where `seen(n) > L(n)` for a log that has lost something, or was cut, `m` is cut before that
//!    mark. This is repeated until no log is cut any more. It ends, since logs only become shorter.
//! 4. So no commit that is left has seen a lost commit of another node, by 2 and 3.
//! 5. Nor of its own node: what a commit has seen of its own node was appended before it, and logs
//!    are cut to beginnings.
//! 6. The checkpoint shows what was committed before it was put in place, and no more. It says how
//!    many groups each log had then. A log that would be cut below that is an error, unless all of
//!    these groups are up to the floor: then the checkpoint has them whole, and they are left.
//! 7. The commits that are left did what they do in the history where the lost ones had aborted:
//!    each reads what it has read, by 4 and 5, and replay gives each key the last of the versions
//!    that are left. That history is serializable: its conflicts are conflicts, or chains of
//!    conflicts, of the one that was.

use std::collections::BTreeMap;
use std::fmt;

use super::survey::{Files, Found, Need, all_nodes, learn, look_at, read_groups, read_witness};
use crate::format::{Content, Known, names};
use crate::reader::{GroupReader, Opened};
use crate::storage::Storage;
use crate::witness::{Lost, Witness};
use crate::{DatabaseId, End, NodeId, WalError};

/// What one log has lost, and what was given up of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Whose log it is.
    pub node: NodeId,
    /// The segment in which the log ends now.
    pub file: String,
    /// The bytes of it that are kept.
    pub kept: u64,
    /// Commits that were durable and are missing, at least.
    pub missing: u64,
    /// Bytes of them in the last file that is known to have had some, at least.
    pub missing_bytes: u64,
    /// Commits that are there and are given up: they may have seen what is missing in another log.
    pub given_up: u64,
    /// Bytes of them, and of what stands between them.
    pub given_up_bytes: u64,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { node, file, kept, missing, missing_bytes, given_up, given_up_bytes } = self;
        write!(f, "node {}: {file} ends at byte {kept}: ", node.0)?;
        if *missing + *missing_bytes + *given_up == 0 {
            write!(f, "what stood behind that cannot be read")?;
        }
        if *missing > 0 || *missing_bytes > 0 {
            write!(f, "{missing} commits or more are missing ({missing_bytes} bytes or more)")?;
        }
        if *given_up > 0 {
            let and = if *missing > 0 || *missing_bytes > 0 { "; " } else { "" };
            write!(
                f,
                "{and}{given_up} commits ({given_up_bytes} bytes) are given up, which may have seen what is missing"
            )?;
        }
        Ok(())
    }
}

impl Loss {
    pub(super) fn of(node: NodeId, cut: End, lost: Lost) -> Loss {
        let Lost { missing, missing_bytes, given_up, given_up_bytes } = lost;
        let (file, kept) = (names::segment(node, cut.segment.max(1)), cut.bytes);
        Loss { node, file, kept, missing, missing_bytes, given_up, given_up_bytes }
    }
}

/// The beginning of a log that can be read.
#[derive(Default)]
struct Scan {
    end: End,
    /// Groups that the log had at least, by what stands behind the end in its own files.
    least: u64,
    /// Bytes that stand there.
    unread: u64,
    /// Where a mark stands, and what it knows.
    marks: Vec<(End, BTreeMap<NodeId, Known>)>,
    /// The log goes on behind what can be read.
    is_short: bool,
    /// The segments that were read, and their bytes.
    segments: Vec<(u64, u64)>,
}

/// Looks at the directory, and decides where logs are to be cut if they have lost something.
pub(super) fn accept(storage: &dyn Storage, database: DatabaseId) -> Result<Found, WalError> {
    let witness = match read_witness(storage, database) {
        Err(error @ WalError::Damaged { .. }) => {
            tracing::warn!("a loss is accepted: {error}");
            None
        }
        read => read?,
    };
    let is_bare = witness.is_none();
    let files = Files::read(storage, database, witness)?;
    files.check_checkpoint(storage)?;
    let mut scans = BTreeMap::new();
    for node in all_nodes(&files) {
        let mut scan = scan(storage, database, &files, node)?;
        if let Some(log) = files.manifest.iter().find_map(|manifest| manifest.logs.get(&node))
            && log.through <= files.floor()
        {
            // The checkpoint has all of them, so they are not lost with their files.
            scan.end.groups = scan.end.groups.max(log.end.groups);
        }
        scans.insert(node, scan);
    }
    let mut known = files.known();
    for (node, seen) in scans.values().flat_map(|scan| &scan.marks).flat_map(|(_, seen)| seen) {
        learn(&mut known, *node, seen.end);
    }
    for node in known.keys() {
        // Of some logs nothing is left but what others know.
        scans.entry(*node).or_default();
    }
    let mut limits: BTreeMap<NodeId, End> = BTreeMap::new();
    for (&node, scan) in &scans {
        let known = known.get(&node).copied().unwrap_or_default();
        if scan.is_short || scan.end.is_short_of(&known) {
            limits.insert(node, scan.end);
        }
    }
    let is_empty = files.manifest.is_none() && files.segments.is_empty();
    if limits.is_empty() && (!is_bare || is_empty) {
        return look_at(storage, database, files);
    }
    while let Some((node, end)) = next_cut(&scans, &limits) {
        limits.insert(node, end);
    }
    check_against_checkpoint(storage, &files, &limits)?;
    let mut losses = BTreeMap::new();
    for (&node, &cut) in &limits {
        let before = files.witness.as_ref().and_then(|witness| witness.losses.get(&node));
        let lost = loss(cut, &scans[&node], known.get(&node), before);
        // Where only an end record goes, nothing is lost.
        if lost.missing + lost.given_up > 0 || scans[&node].is_short {
            losses.insert(node, lost);
        }
    }
    let end =
        |(node, scan): (&NodeId, &Scan)| (*node, limits.get(node).copied().unwrap_or(scan.end));
    let ends = scans.iter().map(end).collect();
    let checkpoint = files.manifest.is_some();
    let decided = Witness { database, ends, cut: true, losses, checkpoint };
    let files = Files { witness: Some(decided.clone()), ..files };
    let found = look_at(storage, database, files)?;
    Ok(Found { decided: Some(decided), ..found })
}

/// A log that has to be cut further, and where: before a mark that has seen more of another log
/// than is left.
fn next_cut(
    scans: &BTreeMap<NodeId, Scan>,
    limits: &BTreeMap<NodeId, End>,
) -> Option<(NodeId, End)> {
    let is_lost = |(node, known): (&NodeId, &Known)| {
        limits.get(node).is_some_and(|left| left.groups < known.seen)
    };
    scans.iter().find_map(|(&node, scan)| {
        let left = limits.get(&node).unwrap_or(&scan.end);
        // Also a mark behind the last group goes: it would speak of what is lost for ever.
        let is_left = |at: &End| (at.segment, at.bytes) < (left.segment, left.bytes);
        let mut marks = scan.marks.iter().filter(|(at, _)| is_left(at));
        let cut = marks.find(|(_, known)| known.iter().any(is_lost));
        cut.map(|(at, _)| (node, *at))
    })
}

/// What the checkpoint shows must be left.
fn check_against_checkpoint(
    storage: &dyn Storage,
    files: &Files,
    limits: &BTreeMap<NodeId, End>,
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

/// What is lost of a log that is cut here. `before`: what an interrupted cut has lost already.
fn loss(cut: End, scan: &Scan, known: Option<&End>, before: Option<&Lost>) -> Lost {
    let known = known.copied().unwrap_or_default();
    let before = before.copied().unwrap_or_default();
    let missing = known.groups.max(scan.least).saturating_sub(scan.end.groups);
    let here = if known.segment == scan.end.segment { scan.end.bytes } else { 0 };
    let gone = if missing > 0 { known.bytes.saturating_sub(here) } else { 0 };
    Lost {
        missing: before.missing + missing,
        missing_bytes: before.missing_bytes + gone.max(scan.unread),
        given_up: before.given_up + (scan.end.groups - cut.groups),
        given_up_bytes: before.given_up_bytes + scan.bytes_behind(cut),
    }
}

impl Scan {
    /// Counts what stands behind the end.
    fn look_behind(
        &mut self,
        storage: &dyn Storage,
        database: DatabaseId,
        (node, numbers): (NodeId, &[u64]),
    ) -> Result<(), WalError> {
        for &number in numbers.iter().filter(|number| **number >= self.end.segment) {
            let (name, content) = (names::segment(node, number), Content::Segment { node, number });
            let mut reader = match GroupReader::open(storage, &name, database, content) {
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

    fn bytes_behind(&self, cut: End) -> u64 {
        let behind = self.segments.iter().filter(|(number, _)| *number >= cut.segment);
        behind.map(|(_, bytes)| bytes).sum::<u64>().saturating_sub(cut.bytes)
    }
}

/// Reads a node's log up to the first thing that is not as it was written.
fn scan(
    storage: &dyn Storage,
    database: DatabaseId,
    files: &Files,
    node: NodeId,
) -> Result<Scan, WalError> {
    let limit = files.limits().map(|ends| ends.get(&node).copied().unwrap_or_default());
    let numbers = files.segments.get(&node).map_or(&[][..], |numbers| &numbers[..]);
    let mut scan = Scan::default();
    let mut last: Option<u64> = None;
    let need = Need::read(storage, database, files, (node, numbers))?;
    for (at, &number) in numbers.iter().enumerate() {
        if limit.is_some_and(|limit| number > limit.segment) {
            break;
        }
        let is_last = at + 1 == numbers.len();
        if need.is_over(at) {
            // A crash left what was to be removed.
            last = None;
            continue;
        }
        let name = names::segment(node, number);
        let content = Content::Segment { node, number };
        let mut reader = match GroupReader::open(storage, &name, database, content) {
            Ok(Opened::Whole(reader)) => reader,
            Ok(Opened::Headless(mut reader)) => {
                // One that was never begun, unless something stands in it.
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
            // What is missing before it is not needed, or the log ends before the gap.
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
        let end = |bytes, groups| End { segment: number, bytes, groups: header.groups + groups };
        let marks = &mut scan.marks;
        let tail =
            read_groups(&mut reader, |at, groups, mark| marks.push((end(at, groups), mark.known)));
        let tail = match tail {
            Err(WalError::Damaged { .. }) => {
                // A mark that makes no sense. What stands before it was counted with the mark
                // before.
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
            // The next one cannot be believed.
            scan.is_short = true;
            break;
        }
    }
    // Of a cut that was interrupted, what stands behind was told when the cut was decided.
    if scan.is_short && limit.is_none() {
        scan.look_behind(storage, database, (node, numbers))?;
        scan.least = scan.least.max(need.groups);
    }
    Ok(scan)
}
