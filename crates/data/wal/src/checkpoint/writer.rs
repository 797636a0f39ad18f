//! [`CheckpointWriter`]: writes a checkpoint, and puts it in place.

use std::collections::BTreeMap;

use latchwork_runtime::sync::{Arc, Mutex};
use latchwork_runtime::{Handle, Time};
use latchwork_strict::{strict_assert, strict_assert_eq};

use super::manifest::Part;
use super::{CheckpointedEnd, Manifest};
use crate::format::{Content, FILE_HEADER, FileHeader, LogRecord, LogRecordKind, finish, names};
use crate::storage::File;
use crate::{Log, LogDirectory, LogEnd, LogEntry, NodeId, Timestamp, WalError};

/// The size in bytes at which a record of entries is written.
const GROUP_BYTES: usize = 64 << 10;
const _: () = assert!(
    GROUP_BYTES < crate::format::GROUP_MAX,
    "a record of a checkpoint has room for one more entry"
);

/// A checkpoint that is being written. Dropping it before [`publish`](CheckpointWriter::publish)
/// removes its parts.
///
/// All calls block until the system has done the work. In a simulated world these calls take no
/// virtual time, so the caller sleeps for it.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: Arc<LogDirectory>,
    number: u64,
    floor: Timestamp,
    continues: BTreeMap<NodeId, u64>,
    /// The ends of the logs that the checkpoint needs; `None` before
    /// [`settle`](CheckpointWriter::settle).
    ends: Option<BTreeMap<NodeId, LogEnd>>,
    parts: Arc<Mutex<Parts>>,
    published: bool,
}

#[derive(Debug, Default)]
struct Parts {
    begun: u32,
    finished: BTreeMap<u32, Part>,
}

impl CheckpointWriter {
    /// Begins a checkpoint. The caller guarantees that
    ///
    /// - every commit with a timestamp up to `floor` is in the tables to be written, or a later
    ///   commit has overwritten it there, and
    /// - `continues` has an entry for each node with an open log: the number that its
    ///   [`rotate`](crate::Log::rotate) returned after the first condition held. All later commits
    ///   of the node are in that segment, in later segments, or in earlier segments that end above
    ///   the floor.
    ///
    /// # Errors
    /// Another checkpoint is being written; the floor is below that of the checkpoint in place; the
    /// directory was opened to read.
    pub fn begin(
        directory: &Arc<LogDirectory>,
        floor: Timestamp,
        continues: impl IntoIterator<Item = (NodeId, u64)>,
    ) -> Result<CheckpointWriter, WalError> {
        let least = directory.floor();
        if floor < least {
            return Err(WalError::Floor { floor, least });
        }
        strict_assert!(floor >= least, "the floor of a checkpoint runs backwards");
        let number = directory.begin_checkpoint()?;
        Ok(CheckpointWriter {
            directory: directory.clone(),
            number,
            floor,
            continues: continues.into_iter().collect(),
            ends: None,
            parts: Arc::default(),
            published: false,
        })
    }

    /// Begins one more part. Several threads can write parts in parallel.
    ///
    /// # Errors
    /// The system's errors.
    pub fn part(&self) -> Result<PartWriter, WalError> {
        let part = {
            let mut parts = self.parts.lock();
            parts.begun += 1;
            strict_assert!(parts.begun > 0, "the parts of a checkpoint are numbered with 32 bits");
            parts.begun - 1
        };
        let content = Content::Part { number: self.number, part };
        let (database, before) = (self.directory.database(), Timestamp::ZERO);
        let header = FileHeader { database, content, before, groups: 0 };
        let name = names::part(self.number, part);
        let file = self.directory.storage().create(&name);
        let file = file.map_err(|e| WalError::io("making", &name, e))?;
        file.append(&header.encode()).map_err(|e| WalError::io("writing", &name, e))?;
        Ok(PartWriter {
            parts: self.parts.clone(),
            index: part,
            name,
            file,
            header,
            part: Part { bytes: FILE_HEADER as u64, entries: 0 },
            group: LogRecord::new(LogRecordKind::Commit, Timestamp::ZERO),
            buffer: Vec::new(),
        })
    }

    /// Settles how much of each log the checkpoint needs. The call comes behind the last entry, and
    /// `logs` are all open logs.
    ///
    /// 1. Each log becomes durable, and with it all that the entries were read from.
    /// 2. The ends of all logs at one moment are noted. Only what stands behind them can be
    ///    [given up](crate::Opening::accept_loss) as long as the checkpoint is in place.
    /// 3. Each log begins a segment. So logs that lose their last segments still reach these ends.
    ///
    /// Without this call, all that is durable when the checkpoint is put in place is needed.
    ///
    /// # Errors
    /// As [`Log::flush`] and [`Log::rotate`].
    pub async fn settle(
        &mut self,
        logs: &[&Log],
        handle: &Handle,
        deadline: Time,
    ) -> Result<(), WalError> {
        // By node, so that no log is held twice.
        let logs: BTreeMap<NodeId, &Log> = logs.iter().map(|log| (log.node(), *log)).collect();
        for log in logs.values() {
            log.flush(handle, deadline).await?;
        }
        let ends = {
            let _held: Vec<_> = logs.values().map(|log| log.hold()).collect();
            self.directory.visible_ends()
        };
        for log in logs.values() {
            log.rotate(handle, deadline).await?;
        }
        let durable = self.directory.log_ends();
        if ends.iter().any(|(node, end)| durable[node].end.is_short_of(end)) {
            // Records that others could see were refused, which happens only when a log is closed.
            return Err(WalError::Closed);
        }
        self.ends = Some(ends);
        Ok(())
    }

    /// The ends of the logs, as the manifest states them.
    fn logs(&self) -> BTreeMap<NodeId, CheckpointedEnd> {
        let mut logs = self.directory.log_ends();
        if let Some(ends) = &self.ends {
            logs.retain(|node, _| ends.contains_key(node));
            logs.iter_mut().for_each(|(node, log)| log.end = ends[node]);
        }
        logs
    }

    /// Replaces the previous checkpoint by this one. After the return, the segments that the
    /// checkpoint makes unnecessary may be [removed](LogDirectory::remove_through).
    ///
    /// # Errors
    /// A part was begun and not finished; the system's errors. Unless the error is
    /// [final](WalError::is_final), the caller may try another checkpoint. After an error of the
    /// system, the next opening of the directory may find either checkpoint in place. Either
    /// checkpoint is complete, because segments are removed only up to the floor of the earlier
    /// one.
    pub fn publish(mut self) -> Result<(), WalError> {
        let parts: Vec<Part> = {
            let parts = self.parts.lock();
            strict_assert!(
                parts.finished.len() <= parts.begun as usize,
                "more parts are finished than were begun"
            );
            if parts.finished.len() != parts.begun as usize {
                let (begun, finished) = (parts.begun as usize, parts.finished.len());
                return Err(WalError::Unfinished { begun, finished });
            }
            strict_assert!(
                parts.finished.keys().copied().eq(0..parts.begun),
                "a part of the checkpoint is missing"
            );
            parts.finished.values().copied().collect()
        };
        let manifest = Manifest {
            database: self.directory.database(),
            number: self.number,
            floor: self.floor,
            parts,
            continues: std::mem::take(&mut self.continues),
            logs: self.logs(),
            settled: self.ends.is_some(),
        };
        strict_assert!(
            manifest.floor >= self.directory.floor(),
            "the floor of a checkpoint runs backwards"
        );
        let directory = self.directory.clone();
        directory.ensure_witness()?;
        directory.sync_names()?;
        let fresh = manifest.write(directory.storage())?;
        // From here on a crash may leave either checkpoint in place. So a failure must not remove
        // the parts of this checkpoint.
        self.published = true;
        fresh.put_in_place()?;
        directory.sync_names()?;
        let (number, floor, parts) = (self.number, manifest.floor.0, manifest.parts.len());
        directory.replace(manifest);
        strict_assert_eq!(
            directory.floor(),
            Timestamp(floor),
            "the published checkpoint is in place"
        );
        // This witness states that there is a checkpoint. If its write fails, a later witness
        // states it.
        if let Err(error) = directory.note(true) {
            tracing::warn!("the witness of a checkpoint: {error}");
        }
        tracing::debug!(number, floor, parts, "a checkpoint is in place");
        // A part that cannot be removed now is removed at the next opening of the directory.
        let _ = self.remove_parts(|number| number != self.number);
        Ok(())
    }

    fn remove_parts(&self, which: impl Fn(u64) -> bool) -> std::io::Result<()> {
        let storage = self.directory.storage();
        for name in storage.list()? {
            if names::as_part(&name).is_some_and(|(number, _)| which(number)) {
                storage.remove(&name)?;
            }
        }
        Ok(())
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if !self.published {
            let _ = self.remove_parts(|number| number == self.number);
        }
        self.directory.end_checkpoint();
    }
}

/// One file of a checkpoint.
#[derive(Debug)]
pub struct PartWriter {
    parts: Arc<Mutex<Parts>>,
    index: u32,
    name: String,
    file: Box<dyn File>,
    header: FileHeader,
    part: Part,
    group: LogRecord,
    buffer: Vec<u8>,
}

impl PartWriter {
    /// Adds the version of a row, or a tombstone, with its timestamp. A key may come more than
    /// once, in any parts: the highest timestamp counts.
    ///
    /// # Errors
    /// The entry is too large; the system's errors, after which the caller must not publish the
    /// checkpoint.
    pub fn put(&mut self, entry: LogEntry<'_>) -> Result<(), WalError> {
        if self.group.bytes() >= GROUP_BYTES {
            self.write()?;
        }
        self.group.stamped(entry)?;
        self.part.entries += 1;
        strict_assert!(self.group.entries() > 0, "an entry of a checkpoint is lost");
        Ok(())
    }

    /// The number of bytes of the part so far, including those that are still in memory.
    pub fn bytes(&self) -> u64 {
        self.part.bytes + self.group.bytes() as u64
    }

    fn write(&mut self) -> Result<(), WalError> {
        self.buffer.clear();
        self.group.encode(self.group.body_crc(), &mut self.buffer);
        finish(&mut self.buffer, &self.header, self.part.bytes, 0);
        strict_assert!(
            self.buffer.len() >= crate::format::GROUP_HEADER,
            "a record without a header"
        );
        let written = self.file.append(&self.buffer);
        written.map_err(|e| WalError::io("writing", &self.name, e))?;
        self.part.bytes += self.buffer.len() as u64;
        strict_assert_eq!(
            self.part.bytes,
            self.file.length().unwrap_or(self.part.bytes),
            "a part is as long as what was written"
        );
        self.group.reset(LogRecordKind::Commit, Timestamp::ZERO);
        Ok(())
    }

    /// Writes the remaining entries, and makes the file durable.
    ///
    /// # Errors
    /// The system's errors; the checkpoint cannot be finished then.
    pub fn finish(mut self) -> Result<(), WalError> {
        if self.group.entries() > 0 {
            self.write()?;
        }
        self.file.sync().map_err(|e| WalError::io("syncing", &self.name, e))?;
        strict_assert!(self.group.entries() == 0, "entries of a finished part are not written");
        self.parts.lock().finished.insert(self.index, self.part);
        Ok(())
    }
}
