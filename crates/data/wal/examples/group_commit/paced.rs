//! [`Paced`]: a directory with syncs that only take a given time.

use std::io;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_runtime::sync::{current_thread, park_timeout};
use latchwork_wal::storage::{Disk, File, Locked, Storage};

/// Files are written as usual; a sync only waits.
#[derive(Debug)]
pub(crate) struct Paced {
    pub(crate) disk: Disk,
    pub(crate) sync: Duration,
}

#[derive(Debug)]
struct PacedFile {
    file: Box<dyn File>,
    sync: Duration,
}

impl Paced {
    fn paced(&self, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(PacedFile { file, sync: self.sync })
    }
}

impl Storage for Paced {
    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(self.paced(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(self.paced(self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Locked> {
        self.disk.lock(name)
    }

    fn lock_to_read(&self, name: &str) -> io::Result<Option<Locked>> {
        self.disk.lock_to_read(name)
    }
}

impl File for PacedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(offset, buffer)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let (clock, me) = (Clock::start(), current_thread());
        let until = clock.now() + self.sync;
        // Another thread may unpark this thread early, for another reason.
        while clock.now() < until {
            park_timeout(&me, until - clock.now());
        }
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }
}
