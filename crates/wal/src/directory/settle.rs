//! Opening a directory: what a crash left becomes what can go on.

use std::collections::BTreeMap;

use super::{NodeLog, Segment};
use crate::checkpoint::Manifest;
use crate::format::{Content, FILE_HEADER, FileHeader, names};
use crate::reader::{GroupReader, Opened, Step};
use crate::storage::Storage;
use crate::{DatabaseId, NodeId, Timestamp, WalError};

/// Bytes that are copied at once.
const COPY: usize = 256 << 10;

type Nodes = BTreeMap<NodeId, NodeLog>;

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
    Ok(None)
}

/// What a crash left.
pub(super) struct Found {
    pub(super) nodes: Nodes,
    pub(super) manifest: Option<Manifest>,
    /// All files.
    all: Vec<String>,
    plans: Vec<Plan>,
}

/// Looks at all that can be wrong, and changes nothing.
pub(super) fn look(storage: &dyn Storage, database: DatabaseId) -> Result<Found, WalError> {
    let manifest = Manifest::read(storage, Some(database))?;
    let all = list(storage)?;
    let mut found: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
    for (node, number) in all.iter().filter_map(|name| names::as_segment(name)) {
        found.entry(node).or_default().push(number);
    }
    let mut nodes = Nodes::new();
    let mut plans = Vec::new();
    for (node, mut numbers) in found {
        numbers.sort_unstable();
        let (log, plan) = look_at(storage, database, manifest.as_ref(), node, &numbers)?;
        plans.extend(plan);
        nodes.insert(node, log);
    }
    if let Some(manifest) = &manifest {
        manifest.check_files(storage, &all)?;
        for (&node, &number) in &manifest.continues {
            let log = nodes.get(&node);
            if !log.is_some_and(|log| log.segments.iter().any(|s| s.number == number)) {
                return Err(missing(storage, node, number));
            }
        }
    }
    Ok(Found { nodes, manifest, all, plans })
}

impl Found {
    /// Where segments end that are torn, or may be.
    pub(super) fn tails(&self) -> BTreeMap<(NodeId, u64), u64> {
        let tail = |plan: &Plan| match plan {
            Plan::Remove(_) => None,
            Plan::Rewrite(name, length) => Some((names::as_segment(name)?, *length)),
        };
        self.plans.iter().filter_map(tail).collect()
    }

    /// Makes of it what can go on.
    pub(super) fn settle(&self, storage: &dyn Storage) -> Result<(), WalError> {
        let Found { manifest, all, plans, .. } = self;
        for name in all.iter().filter(|name| is_unfinished(name)) {
            remove(storage, name)?;
        }
        for plan in plans {
            plan.carry_out(storage)?;
        }
        if let Some(manifest) = manifest {
            manifest.write(storage)?;
        }
        // Also names that were there already: they need not have been lasting.
        let sync = || {
            let synced = storage.sync_directory();
            synced.map_err(|e| WalError::io("syncing", &storage.describe(), e))
        };
        sync()?;
        // Not before: the parts of another checkpoint are what a crash may go back to until this one lasts.
        let mut parts = all.iter().filter(|name| is_leftover(name, manifest.as_ref())).peekable();
        if parts.peek().is_some() {
            parts.try_for_each(|name| remove(storage, name))?;
            sync()?;
        }
        Ok(())
    }
}

fn list(storage: &dyn Storage) -> Result<Vec<String>, WalError> {
    storage.list().map_err(|e| WalError::io("listing", &storage.describe(), e))
}

fn remove(storage: &dyn Storage, name: &str) -> Result<(), WalError> {
    storage.remove(name).map_err(|e| WalError::io("removing", name, e))
}

fn missing(storage: &dyn Storage, node: NodeId, number: u64) -> WalError {
    WalError::Missing { file: names::segment(node, number), directory: storage.describe() }
}

/// A file that would have got another name when it was whole.
fn is_unfinished(name: &str) -> bool {
    let stem = name.strip_suffix(names::FRESH);
    stem.is_some_and(|stem| stem == names::MANIFEST || names::as_segment(stem).is_some())
}

/// A part of a checkpoint that is not the one in place.
fn is_leftover(name: &str, manifest: Option<&Manifest>) -> bool {
    names::as_part(name)
        .is_some_and(|(number, _)| manifest.is_none_or(|manifest| manifest.number != number))
}

/// What is to be done about the end of a log.
enum Plan {
    /// The segment was never begun.
    Remove(String),
    /// Its first bytes are what counts.
    Rewrite(String, u64),
}

/// One node's segments, and what is to be done about the last one.
fn look_at(
    storage: &dyn Storage,
    database: DatabaseId,
    manifest: Option<&Manifest>,
    node: NodeId,
    numbers: &[u64],
) -> Result<(NodeLog, Option<Plan>), WalError> {
    let floor = manifest.map_or(Timestamp::ZERO, |manifest| manifest.floor);
    let mut log = NodeLog::default();
    let mut plan = None;
    for (at, &number) in numbers.iter().enumerate() {
        let name = names::segment(node, number);
        let is_last = at + 1 == numbers.len();
        let follows = number == 1 || at.checked_sub(1).is_some_and(|at| numbers[at] == number - 1);
        let content = Content::Segment { node, number };
        let mut reader = match GroupReader::open(storage, &name, database, content)? {
            Opened::Whole(reader) => reader,
            Opened::Headless(mut reader) => {
                // A header is lasting before anything is appended, and the segment before it was whole.
                if !is_last || !follows || reader.was_synced_beyond(0)? {
                    return Err(WalError::damaged(&name, 0, "there is no header"));
                }
                plan = Some(Plan::Remove(name));
                break;
            }
        };
        let before = reader.header().before;
        if !follows && before > floor {
            return Err(missing(storage, node, number.saturating_sub(1)));
        }
        log.segments.push(Segment { number, before });
        if is_last {
            log.through = before.max(read_tail(&mut reader)?);
            plan = Some(Plan::Rewrite(name, reader.offset()));
        }
    }
    if let (Some(Plan::Remove(_)), Some(last)) = (&plan, log.segments.last()) {
        // The one before was whole and lasting when that segment was made.
        let name = names::segment(node, last.number);
        let content = Content::Segment { node, number: last.number };
        if let Opened::Whole(mut reader) = GroupReader::open(storage, &name, database, content)? {
            log.through = last.before.max(read_whole(&mut reader, |_, _| Ok(()))?);
        }
    }
    Ok((log, plan))
}

/// Reads a last segment up to where it ends or is torn; the highest timestamp.
fn read_tail(reader: &mut GroupReader) -> Result<Timestamp, WalError> {
    let mut highest = Timestamp::ZERO;
    loop {
        match reader.next()? {
            Step::Group(_, group) => highest = highest.max(group.timestamp()),
            Step::End => return Ok(highest),
            Step::Flaw(flaw) => {
                if reader.was_synced_beyond(reader.offset())? {
                    return Err(reader.damaged(flaw.0));
                }
                let (file, at) = (reader.name(), reader.offset());
                tracing::info!(file, at, "the end of a log is torn and left out: {}", flaw.0);
                return Ok(highest);
            }
        }
    }
}

/// Reads a file in which nothing may be torn, and gives each group to `take`; the highest timestamp.
pub(crate) fn read_whole(
    reader: &mut GroupReader,
    mut take: impl FnMut(u64, crate::GroupRef<'_>) -> Result<(), WalError>,
) -> Result<Timestamp, WalError> {
    let mut highest = Timestamp::ZERO;
    loop {
        match reader.next()? {
            Step::Group(at, group) => {
                highest = highest.max(group.timestamp());
                take(at, group)?;
            }
            Step::End => return Ok(highest),
            Step::Flaw(flaw) => return Err(reader.damaged(flaw.0)),
        }
    }
}

impl Plan {
    fn carry_out(&self, storage: &dyn Storage) -> Result<(), WalError> {
        match self {
            Plan::Remove(name) => remove(storage, name),
            Plan::Rewrite(name, length) => {
                let written = rewrite(storage, name, *length);
                if written.is_err() {
                    // What there is of it only takes room. Otherwise the next start removes it.
                    let _ = storage.remove(&format!("{name}{}", names::FRESH));
                }
                written
            }
        }
    }
}

/// Puts a file with the first `length` bytes of `name` in its place, lasting.
fn rewrite(storage: &dyn Storage, name: &str, length: u64) -> Result<(), WalError> {
    let old = storage.open(name).map_err(|e| WalError::io("opening", name, e))?;
    let fresh = format!("{name}{}", names::FRESH);
    let new = storage.create(&fresh).map_err(|e| WalError::io("making", &fresh, e))?;
    let mut buffer = vec![0; COPY.min(length as usize)];
    let mut at = 0;
    while at < length {
        let part = &mut buffer[..COPY.min((length - at) as usize)];
        let read = old.read(at, part).map_err(|e| WalError::io("reading", name, e))?;
        if read < part.len() {
            return Err(WalError::damaged(name, at + read as u64, "the file shrank"));
        }
        new.append(part).map_err(|e| WalError::io("writing", &fresh, e))?;
        at += read as u64;
    }
    new.sync().map_err(|e| WalError::io("syncing", &fresh, e))?;
    storage.rename(&fresh, name).map_err(|e| WalError::io("renaming", &fresh, e))
}
