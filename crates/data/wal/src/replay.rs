//! [`LogDirectory::replay`]: computes the latest value of each key from all files of all nodes.

use std::collections::hash_map::{DefaultHasher, Entry as Place};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::thread;

use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::directory::read_whole;
use crate::format::{Content, names};
use crate::reader::{LogRecordReader, Opened};
use crate::{
    LogDirectory, LogEntry, LogRecordKind, LogRecordRef, NodeId, Segment, TableId, Timestamp,
    WalError,
};

/// The number of partitions among which the keys are distributed. Threads merge different
/// partitions at once.
const PARTITIONS: usize = 64;

/// The latest version of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LatestValue {
    /// The key.
    pub key: Box<[u8]>,
    /// The commit timestamp of this version.
    pub timestamp: Timestamp,
    /// The value; `None` when the key was deleted.
    pub value: Option<Box<[u8]>>,
}

/// A part of the keys. The hash of a key decides its partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Partition {
    /// The keys of each table, in order.
    pub tables: BTreeMap<TableId, Vec<LatestValue>>,
}

/// A log record that replay does not merge: a record of the layer above, such as a prepare record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The node of its log.
    pub node: NodeId,
    /// The segment.
    pub segment: u64,
    /// The position in the segment, in bytes.
    pub offset: u64,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// The number of its [`LogRecordKind::Note`].
    pub which: u8,
    /// Its entries, in order.
    pub entries: Vec<NoteEntry>,
}

/// An entry of a log record that replay does not merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoteEntry {
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: Box<[u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<Box<[u8]>>,
}

/// The result of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// All keys, distributed among the partitions.
    pub partitions: Vec<Partition>,
    /// The log records that are not merged, by node, segment and offset.
    pub notes: Vec<Note>,
    /// The highest timestamp of the records and of the floor. The clocks must be set above it.
    pub highest: Timestamp,
    /// The number of records that were read from the logs and the checkpoint. Records up to the
    /// floor count; marks do not.
    pub groups: u64,
    /// Entries that were merged.
    pub entries: u64,
}

impl Replayed {
    /// All keys, partition by partition.
    pub fn keys(&self) -> impl Iterator<Item = (TableId, &LatestValue)> {
        let tables = self.partitions.iter().flat_map(|partition| &partition.tables);
        tables.flat_map(|(table, keys)| keys.iter().map(|key| (*table, key)))
    }

    /// Merges entries like those of commits in the logs. A higher layer uses this for commits that
    /// it has found in its notes.
    pub fn merge<'a>(&mut self, entries: impl IntoIterator<Item = LogEntry<'a>>) {
        let mut shards: BTreeMap<usize, Shard> = BTreeMap::new();
        for entry in entries {
            self.highest = self.highest.max(entry.timestamp);
            strict_assert!(
                self.partitions.len() == PARTITIONS,
                "a replay has {} partitions",
                self.partitions.len()
            );
            self.entries += 1;
            shards.entry(shard_of(entry.table, entry.key)).or_default().take(entry);
        }
        for (at, shard) in shards {
            for (table, new) in shard.sorted().tables {
                let keys = self.partitions[at].tables.entry(table).or_default();
                keys.extend(new);
                // The sort is stable: of two versions of a key, the version that was there before
                // the merge comes first.
                keys.sort_by(|a, b| a.key.cmp(&b.key));
                keys.dedup_by(|later, first| {
                    let same = later.key == first.key;
                    if same && later.timestamp >= first.timestamp {
                        std::mem::swap(later, first);
                    }
                    same
                });
                strict_assert!(
                    keys.windows(2).all(|pair| pair[0].key < pair[1].key),
                    "a key is in a table twice"
                );
            }
        }
    }
}

// The hasher has fixed keys, and the content of a map is sorted before use. So the same replay
// gives the same result.
type Keys = HashMap<Box<[u8]>, (Timestamp, Option<Box<[u8]>>), BuildHasherDefault<DefaultHasher>>;

#[derive(Default)]
struct Shard(BTreeMap<TableId, Keys>);

impl Shard {
    fn take(&mut self, entry: LogEntry<'_>) {
        let LogEntry { timestamp, table, key, value } = entry;
        let keys = self.0.entry(table).or_default();
        if let Some(latest) = keys.get_mut(key) {
            // Two versions with equal timestamps have one of two origins. Either one log record has
            // both, and its later entry counts. Or one version is in a checkpoint, which has read
            // it from the table, and both have the same value.
            if timestamp >= latest.0 {
                latest.0 = timestamp;
                match (&mut latest.1, value) {
                    // The old allocation is reused, because threads that free each other's memory
                    // wait for one another in the allocator.
                    (Some(old), Some(new)) if old.len() == new.len() => old.copy_from_slice(new),
                    (old, new) => *old = new.map(Box::from),
                }
            }
        } else if let Place::Vacant(place) = keys.entry(Box::from(key)) {
            place.insert((timestamp, value.map(Box::from)));
        }
    }

    fn sorted(self) -> Partition {
        let sort = |keys: Keys| {
            let latest = |(key, (timestamp, value))| LatestValue { key, timestamp, value };
            let mut keys: Vec<LatestValue> = keys.into_iter().map(latest).collect();
            keys.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            strict_assert!(
                keys.windows(2).all(|pair| pair[0].key < pair[1].key),
                "a key is in a table twice"
            );
            keys
        };
        Partition { tables: self.0.into_iter().map(|(table, keys)| (table, sort(keys))).collect() }
    }
}

fn shard_of(table: TableId, key: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(table.0);
    hasher.write(key);
    // The upper half of the hash decides the partition.
    (hasher.finish() >> 32) as usize % PARTITIONS
}

struct File {
    name: String,
    content: Content,
    /// The expected count of entries, if known.
    entries: Option<u64>,
    /// The expected count of log records, if known.
    groups: Option<u64>,
}

#[derive(Default)]
struct Read {
    highest: Timestamp,
    groups: u64,
    entries: u64,
    notes: Vec<Note>,
}

/// Calls `work` with 0 to `jobs - 1` on up to `threads` threads, and returns the results in order.
fn in_parallel<T: Send>(threads: usize, jobs: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let run = || {
        loop {
            // Relaxed: the counter only distributes the jobs. The results go through the lock.
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return;
            }
            let result = work(job);
            done.lock().insert(job, result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(jobs) {
            // If the system has no more threads, the threads that exist do the work.
            let _ = thread::Builder::new().name("replay".to_owned()).spawn_scoped(scope, run);
        }
        run();
    });
    std::mem::take(&mut *done.lock()).into_values().collect()
}

impl LogDirectory {
    /// Passes every whole record of all logs to `take`, except marks, with its node, segment and
    /// offset. The records of a segment come in order; up to `threads` threads read the segments in
    /// parallel. Segments that the checkpoint covers are skipped.
    ///
    /// # Errors
    /// As [`replay`](LogDirectory::replay).
    pub fn read(
        &self,
        threads: usize,
        take: impl Fn(NodeId, u64, u64, LogRecordRef<'_>) + Sync,
    ) -> Result<(), WalError> {
        self.read_all(threads, take).map_err(|error| self.advise(error))
    }

    fn read_all(
        &self,
        threads: usize,
        take: impl Fn(NodeId, u64, u64, LogRecordRef<'_>) + Sync,
    ) -> Result<(), WalError> {
        self.check_closed()?;
        let mut segments = Vec::new();
        for (node, of_node) in self.segments() {
            let needed = self.needed(&of_node);
            let with_groups =
                needed.map(|(at, segment)| (node, segment.number, groups_in(&of_node, at)));
            segments.extend(with_groups);
        }
        let read = in_parallel(threads, segments.len(), |at| {
            let (node, number, groups) = segments[at];
            let content = Content::Segment { node, number };
            let mut reader = self.reader(&names::segment(node, number), content)?;
            read_whole(&mut reader, groups, |offset, group| {
                take(node, number, offset, group);
                Ok(())
            })
        });
        read.into_iter().try_for_each(|read| read.map(|_| ()))
    }

    /// Reads the checkpoint and all logs, and keeps for each key the entry with the highest
    /// timestamp. All entries of the checkpoint count, and all commits above its floor. Up to
    /// `threads` threads read the files in any order; the result is the same. The memory needed is
    /// that of the keys, their latest values and the notes.
    ///
    /// Every record that is read is checked. Segments that the checkpoint covers are not read. No
    /// log may be open: a record that is being written looks like damage.
    ///
    /// # Errors
    /// [`WalError::NodeInUse`] if a log is open; the error of the first file that is damaged or
    /// missing; the system's errors.
    pub fn replay(&self, threads: usize) -> Result<Replayed, WalError> {
        self.replay_all(threads).map_err(|error| self.advise(error))
    }

    fn replay_all(&self, threads: usize) -> Result<Replayed, WalError> {
        self.check_closed()?;
        let floor = self.floor();
        let files = self.files();
        let shards: Vec<_> = (0..PARTITIONS).map(|_| Mutex::new(Shard::default())).collect();
        let read = in_parallel(threads, files.len(), |at| self.merge(&files[at], floor, &shards));
        let (mut highest, mut groups, mut entries, mut notes) = (floor, 0, 0, Vec::new());
        for file in read {
            let file = file?;
            highest = highest.max(file.highest);
            groups += file.groups;
            entries += file.entries;
            notes.extend(file.notes);
        }
        let partitions =
            in_parallel(threads, PARTITIONS, |at| std::mem::take(&mut *shards[at].lock()).sorted());
        strict_assert_eq!(partitions.len(), PARTITIONS);
        let (files, notes_left) = (files.len(), notes.len());
        tracing::info!(files, groups, entries, notes_left, floor = floor.0, "replayed");
        Ok(Replayed { partitions, notes, highest, groups, entries })
    }

    /// The files to read, in order.
    fn files(&self) -> Vec<File> {
        let mut files = Vec::new();
        let manifest = self.manifest();
        if let Some(manifest) = &manifest {
            for ((part, name), held) in (0..).zip(manifest.part_names()).zip(&manifest.parts) {
                let content = Content::Part { number: manifest.number, part };
                files.push(File { name, content, entries: Some(held.entries), groups: None });
            }
        }
        for (node, segments) in self.segments() {
            for (at, segment) in self.needed(&segments) {
                let (number, name) = (segment.number, names::segment(node, segment.number));
                let content = Content::Segment { node, number };
                let groups = groups_in(&segments, at);
                files.push(File { name, content, entries: None, groups });
            }
        }
        files
    }

    /// The segments of a node that the checkpoint does not cover, with their indexes in `segments`.
    fn needed<'a>(
        &self,
        segments: &'a [Segment],
    ) -> impl Iterator<Item = (usize, &'a Segment)> + use<'a> {
        let floor = self.floor();
        let is_needed =
            move |at: usize| segments.get(at + 1).is_none_or(|next| next.before > floor);
        segments.iter().enumerate().filter(move |(at, _)| is_needed(*at))
    }

    fn reader(&self, name: &str, content: Content) -> Result<LogRecordReader, WalError> {
        match LogRecordReader::open(self.storage(), name, self.database(), content)? {
            Opened::Whole(mut reader) => {
                if let Content::Segment { node, number } = content
                    && let Some(length) = self.tail(node, number)
                {
                    reader.end_at(length);
                }
                Ok(reader)
            }
            Opened::Headless(_) => Err(WalError::damaged(name, 0, "there is no header")),
        }
    }

    fn merge(
        &self,
        file: &File,
        floor: Timestamp,
        shards: &[Mutex<Shard>],
    ) -> Result<Read, WalError> {
        let File { name, content, entries, groups } = file;
        let mut reader = self.reader(name, *content)?;
        let mut read = Read::default();
        let stamps = matches!(content, Content::Part { .. });
        let highest = read_whole(&mut reader, *groups, |offset, group| {
            read.groups += 1;
            // All entries of a checkpoint count, also those with timestamps up to the floor.
            if !stamps && group.timestamp() <= floor {
                return Ok(());
            }
            match (group.kind(), content) {
                (LogRecordKind::Note(which), &Content::Segment { node, number }) => {
                    read.notes.push(note(node, number, offset, which, &group));
                }
                _ => {
                    for entry in group.entries() {
                        read.entries += 1;
                        shards[shard_of(entry.table, entry.key)].lock().take(entry);
                    }
                }
            }
            Ok(())
        })?;
        read.highest = highest;
        if entries.is_some_and(|entries| entries != read.entries) {
            return Err(WalError::damaged(name, reader.length(), "entries are missing"));
        }
        Ok(read)
    }
}

/// The count of records of a segment, if the next segment's header shows it.
fn groups_in(segments: &[Segment], at: usize) -> Option<u64> {
    let (segment, next) = (segments[at], segments.get(at + 1)?);
    // If the next header states fewer records, the headers contradict each other. `u64::MAX` makes
    // the count wrong in any case, so the read reports damage.
    let groups = next.groups.checked_sub(segment.groups).unwrap_or(u64::MAX);
    (next.number == segment.number + 1).then_some(groups)
}

fn note(node: NodeId, segment: u64, offset: u64, which: u8, group: &LogRecordRef<'_>) -> Note {
    let own = |LogEntry { table, key, value, .. }: LogEntry<'_>| {
        let (key, value) = (key.into(), value.map(Box::from));
        NoteEntry { table, key, value }
    };
    let entries = group.entries().map(own).collect();
    Note { node, segment, offset, timestamp: group.timestamp(), which, entries }
}
