//! [`CheckpointWriter`]: writes a checkpoint, and puts it in place.

use std::collections::BTreeMap;

use latchwork_runtime::sync::{Arc, Mutex};

use super::Manifest;
use super::manifest::Part;
use crate::format::{Content, FILE_HEADER, FileHeader, Group, Kind, finish, names};
use crate::storage::File;
use crate::{Entry, LogDirectory, NodeId, Timestamp, WalError};

/// Entries are written in groups of about so many bytes.
const GROUP_BYTES: usize = 64 << 10;

/// A checkpoint that is being written. Dropped before it is published it never was.
///
/// All calls block. In a simulated world, whoever makes them sleeps for what they would take.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: Arc<LogDirectory>,
    number: u64,
    floor: Timestamp,
    continues: BTreeMap<NodeId, u64>,
    parts: Arc<Mutex<Parts>>,
    published: bool,
}

#[derive(Debug, Default)]
struct Parts {
    begun: u32,
    finished: BTreeMap<u32, Part>,
}

impl CheckpointWriter {
    /// Begins a checkpoint. The caller knows that
    ///
    /// - every commit with a timestamp up to `floor` is in the tables that are going to be written,
    ///   or was overwritten there by a later one, and
    /// - `continues` has, for each node whose log is open, the number that its
    ///   [`rotate`](crate::Log::rotate) gave after that: all later commits of the node that are not
    ///   in that segment are in later ones, or in earlier ones that end above the floor.
    ///
    /// # Errors
    /// Another checkpoint is being written; the floor is below that of the checkpoint in place.
    pub fn begin(
        directory: &Arc<LogDirectory>,
        floor: Timestamp,
        continues: impl IntoIterator<Item = (NodeId, u64)>,
    ) -> Result<CheckpointWriter, WalError> {
        let least = directory.floor();
        if floor < least {
            return Err(WalError::Floor { floor, least });
        }
        let number = directory.begin_checkpoint()?;
        Ok(CheckpointWriter {
            directory: directory.clone(),
            number,
            floor,
            continues: continues.into_iter().collect(),
            parts: Arc::default(),
            published: false,
        })
    }

    /// Begins one more part. Parts can be written side by side, by threads of their own.
    ///
    /// # Errors
    /// The system's.
    pub fn part(&self) -> Result<PartWriter, WalError> {
        let part = {
            let mut parts = self.parts.lock();
            parts.begun += 1;
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
            group: Group::new(Kind::Commit, Timestamp::ZERO),
            buffer: Vec::new(),
        })
    }

    /// Puts the checkpoint in place of the one before. When this returns, all that the floor allows
    /// to go may be [removed](LogDirectory::remove_through).
    ///
    /// # Errors
    /// A part was begun and not finished; the system's errors. Which checkpoint counts then is only
    /// known when the directory is opened again; both are right, as long as nothing is removed, and
    /// nothing is.
    pub fn publish(mut self) -> Result<(), WalError> {
        let parts: Vec<Part> = {
            let parts = self.parts.lock();
            if parts.finished.len() != parts.begun as usize {
                let (begun, finished) = (parts.begun as usize, parts.finished.len());
                return Err(WalError::Unfinished { begun, finished });
            }
            parts.finished.values().copied().collect()
        };
        let manifest = Manifest {
            database: self.directory.database(),
            number: self.number,
            floor: self.floor,
            parts,
            continues: std::mem::take(&mut self.continues),
            logs: self.directory.log_ends(),
        };
        let directory = self.directory.clone();
        directory.ensure_witness()?;
        let sync = || {
            let synced = directory.storage().sync_directory();
            synced.map_err(|e| WalError::io("syncing", &directory.describe(), e))
        };
        sync()?;
        // From here on nobody knows whether it counts, until it does: its parts stay.
        self.published = true;
        manifest.write(directory.storage())?;
        sync()?;
        let (number, floor, parts) = (self.number, manifest.floor.0, manifest.parts.len());
        directory.replace(manifest);
        // That there is a checkpoint is known beside it from here on. A later witness says the
        // same.
        if let Err(error) = directory.note(true) {
            tracing::warn!("the witness of a checkpoint: {error}");
        }
        tracing::debug!(number, floor, parts, "a checkpoint is in place");
        // What cannot be removed now is when the directory is opened the next time.
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
    group: Group,
    buffer: Vec<u8>,
}

impl PartWriter {
    /// Adds what stands in a table, a tombstone or not, with the timestamp that it has there. The
    /// same key may come more than once, in whatever parts: the highest timestamp counts.
    ///
    /// # Errors
    /// The entry is too large; the system's errors, after which the checkpoint cannot be finished.
    pub fn put(&mut self, entry: Entry<'_>) -> Result<(), WalError> {
        if self.group.bytes() >= GROUP_BYTES {
            self.write()?;
        }
        self.group.stamped(entry)?;
        self.part.entries += 1;
        Ok(())
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.part.bytes + self.group.bytes() as u64
    }

    fn write(&mut self) -> Result<(), WalError> {
        self.buffer.clear();
        self.group.encode(self.group.body_crc(), &mut self.buffer);
        finish(&mut self.buffer, &self.header, self.part.bytes, 0);
        let written = self.file.append(&self.buffer);
        written.map_err(|e| WalError::io("writing", &self.name, e))?;
        self.part.bytes += self.buffer.len() as u64;
        self.group.reset(Kind::Commit, Timestamp::ZERO);
        Ok(())
    }

    /// Writes the rest, and makes the file lasting.
    ///
    /// # Errors
    /// The system's: the checkpoint cannot be finished.
    pub fn finish(mut self) -> Result<(), WalError> {
        if self.group.entries() > 0 {
            self.write()?;
        }
        self.file.sync().map_err(|e| WalError::io("syncing", &self.name, e))?;
        self.parts.lock().finished.insert(self.index, self.part);
        Ok(())
    }
}
