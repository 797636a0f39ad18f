//! [`look`]: what there is in a directory, and whether all of it is there. Changes nothing.
//!
//! Two things tell how far a log was durable: the log itself, and others that have seen it.
//!
//! | where it stands | how old it may be |
//! | --- | --- |
//! | the header of each group: the bytes of its own file | older than what follows it |
//! | the header of the next segment: the groups before it | not at all: a segment is whole when the next one begins |
//! | [marks](Mark) in the logs of other nodes | as old as the last batch of that log |
//! | the checkpoint | as old as the checkpoint |
//! | the file `WITNESS` | [a second](crate::Settings::witness) while the process lives, not at all behind a clean end |

use std::collections::{BTreeMap, BTreeSet};

use super::settle::Plan;
use super::{Loss, NodeLog, Segment};
use crate::checkpoint::Manifest;
use crate::format::{Content, FILE_HEADER, FileHeader, Flaw, Mark, names};
use crate::reader::{GroupReader, Opened, Step};
use crate::storage::Storage;
use crate::witness::Witness;
use crate::{DatabaseId, End, NodeId, Timestamp, WalError};

pub(super) fn identify(storage: &dyn Storage) -> Result<Option<DatabaseId>, WalError> {
    if let Some(manifest) = Manifest::read(storage, None)? {
        return Ok(Some(manifest.database));
    }
    for name in list(storage)? {
        if names::as_segment(&name).is_none() {
            continue;
        }
        let file = storage.open(&name).map_err(|e| WalError::io("opening", &name, e))?;
        let mut head = [0; FILE_HEADER];
        let read = file.read(0, &mut head).map_err(|e| WalError::io("reading", &name, e))?;
        if let Some(header) = FileHeader::decode(&head[..read], &name, None)? {
            return Ok(Some(header.database));
        }
    }
    // A witness of logs that are gone: there was a database. A witness of none comes before the
    // first log.
    let witness = Witness::read(storage, None)?;
    let witness = witness.filter(|witness| witness.ends.values().any(|end| end.groups > 0));
    Ok(witness.map(|witness| witness.database))
}

/// What a crash left.
pub(super) struct Found {
    pub(super) database: DatabaseId,
    pub(super) nodes: BTreeMap<NodeId, NodeLog>,
    pub(super) manifest: Option<Manifest>,
    /// The witness that has to be durable before anything else is changed.
    pub(super) decided: Option<Witness>,
    /// All files.
    pub(super) all: Vec<String>,
    pub(super) plans: Vec<Plan>,
    /// What was lost and given up, by a cut that is to be made or completed.
    pub(super) losses: Vec<Loss>,
}

impl Found {
    /// Whether there is a database.
    pub(super) fn is_known(&self) -> bool {
        let is_log = |name: &String| name == names::WITNESS || names::as_segment(name).is_some();
        self.manifest.is_some() || self.all.iter().any(is_log)
    }

    /// Where segments end that are torn, or may be.
    pub(super) fn tails(&self) -> BTreeMap<(NodeId, u64), u64> {
        let tail = |plan: &Plan| match plan {
            Plan::Remove(_) | Plan::Forget(_) => None,
            Plan::Rewrite(name, length) => Some((names::as_segment(name)?, *length)),
        };
        self.plans.iter().filter_map(tail).collect()
    }
}

/// The files of a directory, as far as they say what must be there.
pub(super) struct Files {
    pub(super) manifest: Option<Manifest>,
    pub(super) witness: Option<Witness>,
    pub(super) all: Vec<String>,
    /// The segments of each node, by number.
    pub(super) segments: BTreeMap<NodeId, Vec<u64>>,
}

impl Files {
    /// Lists the files and reads the checkpoint, beside this witness.
    pub(super) fn read(
        storage: &dyn Storage,
        database: DatabaseId,
        witness: Option<Witness>,
    ) -> Result<Files, WalError> {
        let manifest = Manifest::read(storage, Some(database))?;
        let all = list(storage)?;
        let mut segments: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for (node, number) in all.iter().filter_map(|name| names::as_segment(name)) {
            segments.entry(node).or_default().push(number);
        }
        segments.values_mut().for_each(|numbers| numbers.sort_unstable());
        Ok(Files { manifest, witness, all, segments })
    }

    pub(super) fn floor(&self) -> Timestamp {
        self.manifest.as_ref().map_or(Timestamp::ZERO, |manifest| manifest.floor)
    }

    /// Whether the checkpoint is there, if there was one.
    pub(super) fn check_checkpoint(&self, storage: &dyn Storage) -> Result<(), WalError> {
        // Segments go only when a checkpoint has them.
        let begins_late = |numbers: &Vec<u64>| numbers.first().is_some_and(|first| *first > 1);
        let had_one = match &self.witness {
            Some(witness) => witness.checkpoint,
            None => self.segments.values().any(begins_late),
        };
        if had_one && self.manifest.is_none() {
            let (file, directory) = (names::MANIFEST.to_owned(), storage.describe());
            return Err(WalError::NoCheckpoint { file, directory });
        }
        Ok(())
    }

    /// What was lost and given up by a cut that was not completed.
    pub(super) fn losses(&self) -> Vec<Loss> {
        let cut = self.witness.iter().filter(|witness| witness.cut);
        let losses = cut.flat_map(|witness| {
            let end = |node| witness.ends.get(node).copied().unwrap_or_default();
            witness.losses.iter().map(move |(node, lost)| Loss::of(*node, end(node), *lost))
        });
        losses.collect()
    }

    /// Where logs are to be cut, if a loss was accepted and that was not completed.
    pub(super) fn limits(&self) -> Option<&BTreeMap<NodeId, End>> {
        self.witness.as_ref().filter(|witness| witness.cut).map(|witness| &witness.ends)
    }

    /// How far checkpoint and witness know logs to be durable.
    pub(super) fn known(&self) -> BTreeMap<NodeId, End> {
        if let Some(limits) = self.limits() {
            // What checkpoint and witness knew before has been given up.
            return limits.clone();
        }
        let mut known = BTreeMap::new();
        for (&node, log) in self.manifest.iter().flat_map(|manifest| &manifest.logs) {
            learn(&mut known, node, log.end);
        }
        for (&node, &end) in self.witness.iter().flat_map(|witness| &witness.ends) {
            learn(&mut known, node, end);
        }
        known
    }
}

/// Notes that `node`'s log is durable up to `end`.
pub(super) fn learn(known: &mut BTreeMap<NodeId, End>, node: NodeId, end: End) {
    let most = known.entry(node).or_default();
    if most.is_short_of(&end) {
        *most = end;
    }
}

/// Looks at all that can be wrong.
pub(super) fn look(storage: &dyn Storage, database: DatabaseId) -> Result<Found, WalError> {
    let witness = read_witness(storage, database)?;
    look_at(storage, database, Files::read(storage, database, witness)?)
}

/// The witness of this database.
///
/// A crash in the first start of a database leaves a witness, and no log with a header. The next
/// start need not know the database: it begins one, and the witness is its own.
pub(super) fn read_witness(
    storage: &dyn Storage,
    database: DatabaseId,
) -> Result<Option<Witness>, WalError> {
    let other = match Witness::read(storage, Some(database)) {
        Err(error @ WalError::OtherDatabase { .. }) => error,
        read => return read,
    };
    let Some(witness) = Witness::read(storage, None)? else { return Ok(None) };
    let mut is_blank = witness.ends.values().all(|end| end.groups == 0)
        && !witness.checkpoint
        && Manifest::read(storage, None)?.is_none();
    for name in list(storage)? {
        if let Some((node, number)) = names::as_segment(&name) {
            let content = Content::Segment { node, number };
            let opened = GroupReader::open(storage, &name, witness.database, content);
            is_blank &= matches!(opened, Ok(Opened::Headless(_)));
        }
    }
    if is_blank { Ok(Some(Witness::of(database, BTreeMap::new()))) } else { Err(other) }
}

/// Looks at all that can be wrong with what these files say.
pub(super) fn look_at(
    storage: &dyn Storage,
    database: DatabaseId,
    files: Files,
) -> Result<Found, WalError> {
    files.check_checkpoint(storage)?;
    let mut known = files.known();
    let (mut nodes, mut plans) = (BTreeMap::new(), Vec::new());
    for (&node, numbers) in &files.segments {
        let mut look = Look { storage, database, files: &files, node, plans: &mut plans };
        let (log, marked) = look.log(numbers)?;
        nodes.insert(node, log);
        for (other, end) in marked {
            learn(&mut known, other, end);
        }
    }
    if let Some(manifest) = &files.manifest {
        manifest.check_files(storage, &files.all)?;
    }
    let is_known = files.manifest.is_some() || !files.segments.is_empty();
    if files.witness.is_none() && is_known {
        let (file, directory) = (names::WITNESS.to_owned(), storage.describe());
        return Err(WalError::Missing { file, directory });
    }
    let losses = files.losses();
    let limits = files.limits().cloned();
    let Files { mut manifest, all, .. } = files;
    for (&node, &end) in &known {
        let log: &mut NodeLog = nodes.entry(node).or_default();
        if let Some(manifest) = manifest.as_ref().filter(|all| all.covers(node, end.groups)) {
            // What is left of it is not needed, but its numbers are not used again.
            if log.end.is_short_of(&end) {
                log.end = End { segment: log.end.segment.max(end.segment), ..end };
            }
            let through = manifest.logs.get(&node).map(|log| log.through);
            log.through = log.through.max(through.unwrap_or_default());
        } else if log.end.is_short_of(&end) {
            return Err(lost(storage, node, log.end, end));
        }
    }
    for (node, log) in manifest.iter_mut().flat_map(|manifest| &mut manifest.logs) {
        // The checkpoint must not speak of what was given up.
        if let Some(&left) = limits.as_ref().and_then(|limits| limits.get(node))
            && left.is_short_of(&log.end)
        {
            log.end = left;
        }
    }
    Ok(Found { database, nodes, manifest, decided: None, all, plans, losses })
}

/// A log that ends at `found` and was durable up to `known`.
pub(super) fn lost(storage: &dyn Storage, node: NodeId, found: End, known: End) -> WalError {
    WalError::Lost {
        file: names::segment(node, known.segment),
        directory: storage.describe(),
        bytes: if found.segment == known.segment { found.bytes } else { 0 },
        least: known.bytes,
        groups: known.groups.saturating_sub(found.groups),
    }
}

fn list(storage: &dyn Storage) -> Result<Vec<String>, WalError> {
    storage.list().map_err(|e| WalError::io("listing", &storage.describe(), e))
}

fn missing(storage: &dyn Storage, node: NodeId, number: u64) -> WalError {
    WalError::Missing { file: names::segment(node, number), directory: storage.describe() }
}

/// A look at the log of one node.
struct Look<'a> {
    storage: &'a dyn Storage,
    database: DatabaseId,
    files: &'a Files,
    node: NodeId,
    /// What is to be done about the ends of logs.
    plans: &'a mut Vec<Plan>,
}

impl Look<'_> {
    /// The node's log, and what its last marks know of others.
    fn log(&mut self, numbers: &[u64]) -> Result<(NodeLog, BTreeMap<NodeId, End>), WalError> {
        let mut log = NodeLog::default();
        let limit =
            self.files.limits().map(|ends| ends.get(&self.node).copied().unwrap_or_default());
        let is_kept = |number: &&u64| limit.is_none_or(|limit| **number <= limit.segment);
        let kept: Vec<u64> = numbers.iter().filter(is_kept).copied().collect();
        for &number in &numbers[kept.len()..] {
            self.plans.push(Plan::Remove(names::segment(self.node, number)));
        }
        let need = Need::read(self.storage, self.database, self.files, (self.node, &kept))?;
        if let Some(at) = need.contradiction {
            let what = "its header knows of fewer commits than an earlier segment's";
            return Err(WalError::damaged(&names::segment(self.node, kept[at]), 0, what));
        }
        let mut needed = Vec::new();
        for (at, &number) in kept.iter().enumerate() {
            match need.is_over(at) {
                true => self.plans.push(Plan::Forget(names::segment(self.node, number))),
                false => needed.push(number),
            }
        }
        let kept = needed;
        let mut known = None;
        for (at, &number) in kept.iter().enumerate() {
            let is_last = at + 1 == kept.len();
            let follows = number == 1 || at.checked_sub(1).is_some_and(|at| kept[at] == number - 1);
            let Some(mut reader) = self.open(number, limit, is_last, follows)? else { break };
            let header = *reader.header();
            if !follows && header.before > self.files.floor() {
                return Err(missing(self.storage, self.node, number.saturating_sub(1)));
            }
            log.segments.push(Segment { number, before: header.before, groups: header.groups });
            if is_last {
                let tail = read_tail(&mut reader)?;
                self.plans.push(Plan::Rewrite(reader.name().to_owned(), reader.offset()));
                known = self.settle_on(&mut log, tail, &reader);
            }
        }
        // Where the last segment was never begun, the one before was whole and durable. And what
        // other logs must have, the last mark says, which a segment has before its first group.
        let segments = log.segments.clone();
        for (at, &Segment { number, .. }) in segments.iter().enumerate().rev() {
            // What the checkpoint has need not be whole, and the checkpoint knows what its marks
            // know.
            let next = segments.get(at + 1);
            if known.is_some() || next.is_some_and(|next| next.before <= self.files.floor()) {
                break;
            }
            if log.end.segment == number {
                continue;
            }
            let Some(mut reader) = self.open(number, None, false, true)? else { break };
            let mut last = None;
            let tail = read_groups(&mut reader, |_, _, mark| last = Some(mark))?;
            if let Some(flaw) = tail.flaw {
                return Err(reader.damaged(flaw.0));
            }
            let read = Tail { mark: last, ..tail };
            match log.end == End::default() {
                true => known = self.settle_on(&mut log, read, &reader),
                false => known = read.mark,
            }
        }
        let marked = known.into_iter().flat_map(|mark| mark.known);
        Ok((log, marked.map(|(node, known)| (node, known.end)).collect()))
    }

    /// Opens a segment; `None` for a last one that was never begun.
    fn open(
        &mut self,
        number: u64,
        limit: Option<End>,
        is_last: bool,
        follows: bool,
    ) -> Result<Option<GroupReader>, WalError> {
        let name = names::segment(self.node, number);
        let content = Content::Segment { node: self.node, number };
        match GroupReader::open(self.storage, &name, self.database, content)? {
            Opened::Whole(mut reader) => {
                if let Some(limit) = limit.filter(|limit| limit.segment == number) {
                    reader.end_at(limit.bytes);
                }
                Ok(Some(reader))
            }
            Opened::Headless(mut reader) => {
                // A header is durable before anything is appended, and the segment before it was
                // whole.
                if !is_last || !follows || reader.was_synced_beyond(0)? {
                    return Err(WalError::damaged(&name, 0, "there is no header"));
                }
                self.plans.push(Plan::Remove(name));
                Ok(None)
            }
        }
    }

    /// The log ends with this segment, which was read; its last mark.
    fn settle_on(&self, log: &mut NodeLog, tail: Tail, reader: &GroupReader) -> Option<Mark> {
        let Content::Segment { number, .. } = reader.header().content else { return None };
        log.through = reader.header().before.max(tail.highest);
        let groups = reader.header().groups + tail.groups;
        log.end = End { segment: number, bytes: reader.offset(), groups };
        tail.mark
    }
}

/// What a segment holds, up to where it ends or is torn.
pub(super) struct Tail {
    pub(super) groups: u64,
    pub(super) highest: Timestamp,
    /// The last mark.
    pub(super) mark: Option<Mark>,
    /// Why the file does not end behind the last group.
    pub(super) flaw: Option<Flaw>,
}

/// Reads groups up to where the file ends or is torn. `marked` gets each mark, where it begins, and
/// how many groups of this file are before it.
pub(super) fn read_groups(
    reader: &mut GroupReader,
    mut marked: impl FnMut(u64, u64, Mark),
) -> Result<Tail, WalError> {
    let mut tail = Tail { groups: 0, highest: Timestamp::ZERO, mark: None, flaw: None };
    loop {
        match reader.next()? {
            Step::Group(at, group) if group.is_mark() => match Mark::decode(&group) {
                Some(mark) => marked(at, tail.groups, mark),
                None => return Err(reader.damaged("a mark makes no sense")),
            },
            Step::Group(_, group) => {
                tail.highest = tail.highest.max(group.timestamp());
                tail.groups += 1;
            }
            Step::End => return Ok(tail),
            Step::Flaw(flaw) => return Ok(Tail { flaw: Some(flaw), ..tail }),
        }
    }
}

/// Reads a last segment up to where it ends or is torn.
fn read_tail(reader: &mut GroupReader) -> Result<Tail, WalError> {
    let mut last = None;
    let tail = read_groups(reader, |_, _, mark| last = Some(mark))?;
    if let Some(flaw) = tail.flaw {
        if reader.was_synced_beyond(reader.offset())? {
            return Err(reader.damaged(flaw.0));
        }
        let (file, at) = (reader.name(), reader.offset());
        tracing::info!(file, at, "the end of a log is torn and left out: {}", flaw.0);
    }
    Ok(Tail { mark: last, ..tail })
}

/// Reads a file in which nothing may be torn, and gives each group but marks to `take`; the highest
/// timestamp. `groups`: how many there must be, where that is known.
pub(crate) fn read_whole(
    reader: &mut GroupReader,
    groups: Option<u64>,
    mut take: impl FnMut(u64, crate::GroupRef<'_>) -> Result<(), WalError>,
) -> Result<Timestamp, WalError> {
    let (mut highest, mut found) = (Timestamp::ZERO, 0);
    loop {
        match reader.next()? {
            Step::Group(_, group) if group.is_mark() => {}
            Step::Group(at, group) => {
                highest = highest.max(group.timestamp());
                found += 1;
                take(at, group)?;
            }
            Step::End if groups.is_some_and(|groups| groups != found) => {
                return Err(reader.damaged("it lacks commits that the next segment knows of"));
            }
            Step::End => return Ok(highest),
            Step::Flaw(flaw) => return Err(reader.damaged(flaw.0)),
        }
    }
}

/// Nodes that have files here, or of which something is known.
pub(super) fn all_nodes(files: &Files) -> BTreeSet<NodeId> {
    files.segments.keys().chain(files.known().keys()).copied().collect()
}

/// Which segments of a node the checkpoint does not have whole: those that opening needs.
pub(super) struct Need {
    floor: Timestamp,
    /// What each header says was committed before its segment; `None` where there is no header to
    /// believe.
    before: Vec<Option<Timestamp>>,
    /// The most groups that any header says were before its segment.
    pub(super) groups: u64,
    /// The first segment whose header knows of fewer commits than an earlier one does. One of the
    /// two is wrong, and believing the smaller would forget commits.
    pub(super) contradiction: Option<usize>,
}

impl Need {
    /// Reads the headers of these segments.
    pub(super) fn read(
        storage: &dyn Storage,
        database: DatabaseId,
        files: &Files,
        (node, numbers): (NodeId, &[u64]),
    ) -> Result<Need, WalError> {
        let mut need =
            Need { floor: files.floor(), before: Vec::new(), groups: 0, contradiction: None };
        let mut highest = Timestamp::ZERO;
        for (at, &number) in numbers.iter().enumerate() {
            let (name, content) = (names::segment(node, number), Content::Segment { node, number });
            let before = match GroupReader::open(storage, &name, database, content) {
                Ok(Opened::Whole(reader)) => Some(*reader.header()),
                Ok(Opened::Headless(_)) | Err(WalError::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            need.groups = need.groups.max(before.map_or(0, |header| header.groups));
            let before = before.map(|header| header.before);
            if before.is_some_and(|before| before < highest) {
                need.contradiction = Some(at);
                break;
            }
            highest = highest.max(before.unwrap_or_default());
            need.before.push(before);
        }
        Ok(need)
    }

    /// Whether the checkpoint has all of the segment in this place: a crash left what was to be
    /// removed.
    pub(super) fn is_over(&self, at: usize) -> bool {
        self.before.get(at + 1).is_some_and(|next| next.is_some_and(|next| next <= self.floor))
    }
}
