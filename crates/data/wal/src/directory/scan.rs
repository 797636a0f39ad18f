//! [`look`]: reads a directory and checks that it is complete. Changes nothing.
//!
//! How far a log was durable is written in the log itself and in other places:
//!
//! 1. The header of each log record states the synced bytes of its own file, as of the flush batch
//!    of the record.
//! 2. The header of the next segment states the number of records before it. This number is exact,
//!    because a segment is whole when the next one begins.
//! 3. [Marks](Mark) in the logs of other nodes state the ends of this log, as of the flush batches
//!    of those logs.
//! 4. The checkpoint states the ends of all logs at the time when it was put in place.
//! 5. The file `WITNESS` states the ends of all logs. While the process runs, the file is up to
//!    twice [`LogSettings::witness`](crate::LogSettings::witness) old. After all logs were closed,
//!    it is exact.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_strict::strict_assert;

use super::loss::Loss;
use super::node_log::{NodeLog, Segment};
use super::plan::Plan;
use crate::checkpoint::{CheckpointedEnd, Manifest};
use crate::format::{Content, FILE_HEADER, FileHeader, Flaw, Mark, names};
use crate::reader::{LogRecordReader, Opened, Step};
use crate::storage::Storage;
use crate::witness::Witness;
use crate::{DatabaseId, LogEnd, NodeId, Timestamp, WalError};

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
    // A witness of logs without files shows that there was a database. A witness without log
    // records shows nothing: it is written before the first log.
    let witness = Witness::read(storage, None)?;
    let witness = witness.filter(|witness| witness.ends.values().any(|end| end.groups > 0));
    Ok(witness.map(|witness| witness.database))
}

/// The state of a directory as an opening found it, and the repairs that are necessary.
pub(super) struct Found {
    pub(super) database: DatabaseId,
    pub(super) nodes: BTreeMap<NodeId, NodeLog>,
    pub(super) manifest: Option<Manifest>,
    /// The witness that must be durable before anything else changes.
    pub(super) decided: Option<Witness>,
    /// The names of all files.
    pub(super) all: Vec<String>,
    pub(super) plans: Vec<Plan>,
    /// The lost and given-up records, if a cut is to be made or completed.
    pub(super) losses: Vec<Loss>,
}

impl Found {
    /// Whether the directory holds a database.
    pub(super) fn is_known(&self) -> bool {
        let is_log = |name: &String| name == names::WITNESS || names::as_segment(name).is_some();
        self.manifest.is_some() || self.all.iter().any(is_log)
    }

    /// The length of each last segment without its torn tail.
    pub(super) fn tails(&self) -> BTreeMap<(NodeId, u64), u64> {
        let tail = |plan: &Plan| match plan {
            Plan::Remove(_) | Plan::Forget(_) => None,
            Plan::Rewrite(name, length) => Some((names::as_segment(name)?, *length)),
        };
        self.plans.iter().filter_map(tail).collect()
    }
}

/// The files of a directory that show which data must be there.
pub(super) struct Files {
    pub(super) manifest: Option<Manifest>,
    pub(super) witness: Option<Witness>,
    pub(super) all: Vec<String>,
    /// The segments of each node, by number.
    pub(super) segments: BTreeMap<NodeId, Vec<u64>>,
}

impl Files {
    /// Lists the files and reads the manifest of the checkpoint. The caller has read the witness.
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
        strict_assert!(
            segments.values().all(|numbers| numbers.windows(2).all(|pair| pair[0] < pair[1])),
            "a segment is listed twice"
        );
        Ok(Files { manifest, witness, all, segments })
    }

    pub(super) fn floor(&self) -> Timestamp {
        self.manifest.as_ref().map_or(Timestamp::ZERO, |manifest| manifest.floor)
    }

    /// What the checkpoint needs of the log of `node`.
    pub(super) fn checkpointed(&self, node: NodeId) -> Option<&CheckpointedEnd> {
        self.manifest.as_ref()?.logs.get(&node)
    }

    /// Fails if there was a checkpoint and it, or a part of it, is missing.
    pub(super) fn check_checkpoint(&self, storage: &dyn Storage) -> Result<(), WalError> {
        if let Some(manifest) = &self.manifest {
            return manifest.check_files(storage, &self.all);
        }
        // Without a witness the other files decide. The first segment of a log is removed only when
        // a checkpoint covers it. Parts may be those of a first checkpoint that was not finished,
        // but they may as well be those of the missing one.
        let begins_late = |numbers: &Vec<u64>| numbers.first().is_some_and(|first| *first > 1);
        let is_part = |name: &String| names::as_part(name).is_some();
        let had_one = match &self.witness {
            Some(witness) => witness.checkpoint,
            None => self.segments.values().any(begins_late) || self.all.iter().any(is_part),
        };
        if had_one {
            let (file, directory) = (names::MANIFEST.to_owned(), storage.describe());
            return Err(WalError::NoCheckpoint { file, directory });
        }
        Ok(())
    }

    /// The lost and given-up records of an unfinished cut.
    pub(super) fn losses(&self) -> Vec<Loss> {
        let cut = self.witness.iter().filter(|witness| witness.cut);
        let losses = cut.flat_map(|witness| {
            let end = |node| witness.ends.get(node).copied().unwrap_or_default();
            let losses = witness.losses.iter();
            losses.map(move |(node, lost)| Loss {
                unwitnessed: witness.unwitnessed,
                ..Loss::of(*node, end(node), *lost)
            })
        });
        losses.collect()
    }

    /// The ends at which an unfinished cut ends the logs; `None` without such a cut.
    pub(super) fn limits(&self) -> Option<&BTreeMap<NodeId, LogEnd>> {
        self.witness.as_ref().filter(|witness| witness.cut).map(|witness| &witness.ends)
    }

    /// The durable end of each log, as the checkpoint and the witness state it.
    pub(super) fn known(&self) -> BTreeMap<NodeId, LogEnd> {
        if let Some(limits) = self.limits() {
            // The cut replaces the ends that the checkpoint and the earlier witness stated.
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
pub(super) fn learn(known: &mut BTreeMap<NodeId, LogEnd>, node: NodeId, end: LogEnd) {
    let most = known.entry(node).or_default();
    if most.is_short_of(&end) {
        *most = end;
        strict_assert!(!most.is_short_of(&end), "what is known of a log shrinks");
    }
}

/// Checks that the directory is complete. Reads the header of each segment, the last segment of
/// each log, and the last marks. [Replay](crate::LogDirectory::replay) checks the rest.
pub(super) fn look(storage: &dyn Storage, database: DatabaseId) -> Result<Found, WalError> {
    let witness = read_witness(storage, database)?;
    look_at(storage, database, Files::read(storage, database, witness)?)
}

/// The witness of this database.
///
/// A crash in the first start of a database may leave a witness and no log with a header. The next
/// start may draw another database id. In this case the witness counts as a blank witness of the
/// new database.
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
            let opened = LogRecordReader::open(storage, &name, witness.database, content);
            is_blank &= matches!(opened, Ok(Opened::Headless(_)));
        }
    }
    if is_blank { Ok(Some(Witness::of(database, BTreeMap::new()))) } else { Err(other) }
}

/// Checks these files like [`look`].
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
    let is_known = files.manifest.is_some() || !files.segments.is_empty();
    if files.witness.is_none() && is_known {
        return Err(WalError::missing(names::WITNESS, storage.describe()));
    }
    let losses = files.losses();
    let limits = files.limits().cloned();
    let Files { mut manifest, all, .. } = files;
    for (&node, &end) in &known {
        let log: &mut NodeLog = nodes.entry(node).or_default();
        if let Some(manifest) = manifest.as_ref().filter(|all| all.covers(node, end.groups)) {
            // The rest of this log is not needed, but its segment numbers are not used again.
            if log.end.is_short_of(&end) {
                log.end = LogEnd { segment: log.end.segment.max(end.segment), ..end };
            }
            let through = manifest.logs.get(&node).map(|log| log.through);
            log.through = log.through.max(through.unwrap_or_default());
        } else if log.end.is_short_of(&end) {
            return Err(lost(storage, node, log.end, end));
        }
    }
    for (node, log) in manifest.iter_mut().flat_map(|manifest| &mut manifest.logs) {
        // The checkpoint must not refer to records that were given up.
        if let Some(&left) = limits.as_ref().and_then(|limits| limits.get(node))
            && left.is_short_of(&log.end)
        {
            log.end = left;
        }
    }
    Ok(Found { database, nodes, manifest, decided: None, all, plans, losses })
}

/// The error for a log that ends at `found` and was durable up to `known`.
pub(super) fn lost(storage: &dyn Storage, node: NodeId, found: LogEnd, known: LogEnd) -> WalError {
    WalError::Lost {
        file: names::segment(node, known.segment),
        directory: storage.describe(),
        bytes: if found.segment == known.segment { found.bytes } else { 0 },
        least: known.bytes,
        groups: known.groups.saturating_sub(found.groups),
        acceptable: false,
    }
}

fn list(storage: &dyn Storage) -> Result<Vec<String>, WalError> {
    storage.list().map_err(|e| WalError::io("listing", &storage.describe(), e))
}

fn missing(storage: &dyn Storage, node: NodeId, number: u64) -> WalError {
    WalError::missing(&names::segment(node, number), storage.describe())
}

/// The check of one node's log.
struct Look<'a> {
    storage: &'a dyn Storage,
    database: DatabaseId,
    files: &'a Files,
    node: NodeId,
    /// The repairs of segments, to which this check adds.
    plans: &'a mut Vec<Plan>,
}

impl Look<'_> {
    /// The node's log, and the ends of other logs that its last mark states.
    fn log(&mut self, numbers: &[u64]) -> Result<(NodeLog, BTreeMap<NodeId, LogEnd>), WalError> {
        let mut log = NodeLog::default();
        let limit =
            self.files.limits().map(|ends| ends.get(&self.node).copied().unwrap_or_default());
        let is_kept = |number: &&u64| limit.is_none_or(|limit| **number <= limit.segment);
        let kept: Vec<u64> = numbers.iter().filter(is_kept).copied().collect();
        for &number in &numbers[kept.len()..] {
            strict_assert!(
                kept.len() <= numbers.len() && kept[..] == numbers[..kept.len()],
                "the cut keeps the front of a log"
            );
            self.plans.push(Plan::Remove(names::segment(self.node, number)));
        }
        let need = Need::read(self.storage, self.database, self.files, (self.node, &kept))?;
        if let Some(at) = need.contradiction {
            let what = "its header knows of fewer commits than an earlier segment's";
            return Err(WalError::damaged(&names::segment(self.node, kept[at]), 0, what));
        }
        let mut needed = Vec::new();
        strict_assert!(need.before.len() == kept.len(), "a header was not read");
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
        // The last segment may be without a header or without a mark. If it has no header, the log
        // ends with the previous segment, which was whole and durable. The last mark states how far
        // other logs went. A segment has a mark before its first record.
        let segments = log.segments.clone();
        for (at, &Segment { number, .. }) in segments.iter().enumerate().rev() {
            // A segment that the checkpoint covers need not be whole. The checkpoint states at
            // least what the marks of such a segment state.
            let next = segments.get(at + 1);
            if known.is_some() || next.is_some_and(|next| next.before <= self.files.floor()) {
                break;
            }
            if log.end.segment == number {
                continue;
            }
            let Some(mut reader) = self.open(number, None, false, true)? else { break };
            let mut last = None;
            let tail = read_groups(&mut reader, |_, _, mark| last = mark.or(last.take()))?;
            if let Some(flaw) = tail.flaw {
                return Err(reader.damaged(flaw.0));
            }
            let read = Tail { mark: last, ..tail };
            match log.end == LogEnd::default() {
                true => known = self.settle_on(&mut log, read, &reader),
                false => known = read.mark,
            }
        }
        let marked = known.into_iter().flat_map(|mark| mark.known);
        Ok((log, marked.map(|(node, known)| (node, known.end)).collect()))
    }

    /// Opens a segment; `None` for a last segment that was never begun.
    fn open(
        &mut self,
        number: u64,
        limit: Option<LogEnd>,
        is_last: bool,
        follows: bool,
    ) -> Result<Option<LogRecordReader>, WalError> {
        let name = names::segment(self.node, number);
        let content = Content::Segment { node: self.node, number };
        match LogRecordReader::open(self.storage, &name, self.database, content)? {
            Opened::Whole(mut reader) => {
                if let Some(limit) = limit.filter(|limit| limit.segment == number) {
                    reader.end_at(limit.bytes);
                }
                Ok(Some(reader))
            }
            Opened::Headless(mut reader) => {
                // A header is durable before the first append to its segment. So a last segment
                // without a header was never begun, if the segment before it is there.
                if !is_last || !follows || reader.was_synced_beyond(0)? {
                    return Err(WalError::damaged(&name, 0, "there is no header"));
                }
                self.plans.push(Plan::Remove(name));
                Ok(None)
            }
        }
    }

    /// Sets the end of the log to the end of this segment, which was read. Returns the last mark of
    /// the segment.
    fn settle_on(&self, log: &mut NodeLog, tail: Tail, reader: &LogRecordReader) -> Option<Mark> {
        let Content::Segment { number, .. } = reader.header().content else { return None };
        log.through = reader.header().before.max(tail.highest);
        let groups = reader.header().groups + tail.groups;
        log.end = LogEnd { segment: number, bytes: reader.offset(), groups };
        strict_assert!(log.end.bytes >= FILE_HEADER as u64, "the end of a log is inside a header");
        tail.mark
    }
}

/// The records of a segment, up to its end or its torn tail, in numbers.
pub(super) struct Tail {
    pub(super) groups: u64,
    pub(super) highest: Timestamp,
    /// The last mark, if the caller of [`read_groups`] has added it.
    pub(super) mark: Option<Mark>,
    /// The reason why the bytes behind the last whole record are not a record; `None` if the file
    /// ends there.
    pub(super) flaw: Option<Flaw>,
}

/// Reads records up to the end of the file or its torn tail. `take` gets the position of each mark
/// and of each other record, the count of records of this file before it, and the mark.
pub(super) fn read_groups(
    reader: &mut LogRecordReader,
    mut take: impl FnMut(u64, u64, Option<Mark>),
) -> Result<Tail, WalError> {
    let mut tail = Tail { groups: 0, highest: Timestamp::ZERO, mark: None, flaw: None };
    loop {
        match reader.next()? {
            Step::LogRecord(at, group) if group.is_mark() => match Mark::decode(&group) {
                Some(mark) => take(at, tail.groups, Some(mark)),
                None => return Err(reader.damaged("a mark makes no sense")),
            },
            Step::LogRecord(at, group) => {
                take(at, tail.groups, None);
                tail.highest = tail.highest.max(group.timestamp());
                tail.groups += 1;
            }
            Step::End => return Ok(tail),
            Step::Flaw(flaw) => return Ok(Tail { flaw: Some(flaw), ..tail }),
        }
    }
}

/// Reads a last segment up to its end or its torn tail.
fn read_tail(reader: &mut LogRecordReader) -> Result<Tail, WalError> {
    let mut last = None;
    let tail = read_groups(reader, |_, _, mark| last = mark.or(last.take()))?;
    if let Some(flaw) = tail.flaw {
        if reader.was_synced_beyond(reader.offset())? {
            return Err(reader.damaged(flaw.0));
        }
        let (file, at) = (reader.name(), reader.offset());
        tracing::info!(file, at, "the end of a log is torn and left out: {}", flaw.0);
    }
    Ok(Tail { mark: last, ..tail })
}

/// Reads a file that must not be torn, and passes each record that is no mark to `take`. Returns
/// the highest timestamp. `groups`: the expected count of records, if known.
pub(crate) fn read_whole(
    reader: &mut LogRecordReader,
    groups: Option<u64>,
    mut take: impl FnMut(u64, crate::LogRecordRef<'_>) -> Result<(), WalError>,
) -> Result<Timestamp, WalError> {
    let (mut highest, mut found) = (Timestamp::ZERO, 0);
    loop {
        match reader.next()? {
            Step::LogRecord(_, group) if group.is_mark() => {}
            Step::LogRecord(at, group) => {
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

/// All nodes that have files here, or of which the checkpoint or the witness knows a log end.
pub(super) fn all_nodes(files: &Files) -> BTreeSet<NodeId> {
    files.segments.keys().chain(files.known().keys()).copied().collect()
}

/// The segments of a node that an opening needs: those that the checkpoint does not cover as a
/// whole.
pub(super) struct Need {
    floor: Timestamp,
    /// The highest timestamp before each segment, from its header; `None` where the header is
    /// damaged or missing.
    before: Vec<Option<Timestamp>>,
    /// The highest count of records before a segment that any header states.
    pub(super) groups: u64,
    /// The first segment with a header that states a lower timestamp `before` than an earlier
    /// header. One of the two headers is wrong, and if the lower timestamp were used, commits could
    /// be forgotten.
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
            let before = match LogRecordReader::open(storage, &name, database, content) {
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

    /// Whether the checkpoint covers the segment at this index wholly, so that the segment may be
    /// removed.
    pub(super) fn is_over(&self, at: usize) -> bool {
        self.before.get(at + 1).is_some_and(|next| next.is_some_and(|next| next <= self.floor))
    }
}
