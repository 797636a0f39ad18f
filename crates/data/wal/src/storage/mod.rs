//! [`Storage`]: a directory of files that are written by appends, on a disk or in a simulated
//! world.
//!
//! After a crash a caller may rely on what POSIX promises, and no more:
//!
//! | done | there after a crash |
//! | --- | --- |
//! | `append`, `truncate` | when a later [`File::sync`] succeeded; until then each sector may be old or new |
//! | `create`, `rename`, `remove` | when a later [`Storage::sync_directory`] succeeded; until then each may be undone, whatever came after it |
//! | a failed `sync` | unknown; the next sync may succeed although it wrote nothing |

mod disk;
pub mod torn;

use std::fmt;
use std::io;

pub use disk::Disk;
pub use torn::Torn;

/// A directory of files. Each call blocks until the system has carried it out.
///
/// The errors are those of the system. The caller adds the file and the purpose.
pub trait Storage: Send + Sync + fmt::Debug {
    /// The location of the directory, for messages.
    fn describe(&self) -> String;

    /// The names of all files, in order.
    ///
    /// # Errors
    /// The system's errors.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes an empty file.
    ///
    /// # Errors
    /// The system's errors; `AlreadyExists` when there is a file of this name.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Opens a file to read it.
    ///
    /// # Errors
    /// The system's errors; `NotFound` when there is no file of this name.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Renames a file. A file that has the new name already is replaced.
    ///
    /// # Errors
    /// The system's errors.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's errors.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names of the files durable.
    ///
    /// # Errors
    /// The system's errors.
    fn sync_directory(&self) -> io::Result<()>;

    /// Locks the directory for this process alone, until the returned value is dropped or the
    /// process ends.
    ///
    /// # Errors
    /// The system's errors; [`Locked::Held`] is not an error.
    fn lock(&self, name: &str) -> io::Result<Locked>;

    /// Prevents other processes from writing to the directory, until the returned value is dropped
    /// or the process ends. Creates and writes no file. `None`: the lock file does not exist, so no
    /// process can hold the lock. Reading processes do not exclude one another.
    ///
    /// # Errors
    /// As [`lock`](Storage::lock).
    fn lock_to_read(&self, name: &str) -> io::Result<Option<Locked>>;
}

/// The result of a [`Storage::lock`].
#[derive(Debug)]
pub enum Locked {
    /// This process has the lock.
    Taken(Box<dyn DirectoryLock>),
    /// Another process has the lock, or this process has it already.
    Held {
        /// The process id that the lock file states, as far as it is known.
        by: String,
    },
}

/// Holds the lock of a directory until it is dropped.
pub trait DirectoryLock: Send + Sync + fmt::Debug {}

/// An open file.
pub trait File: Send + Sync + fmt::Debug {
    /// The length of the file in bytes.
    ///
    /// # Errors
    /// The system's errors.
    fn length(&self) -> io::Result<u64>;

    /// Reads from byte `offset` on, until `buffer` is full or the file ends. Returns the count of
    /// bytes read.
    ///
    /// # Errors
    /// The system's errors.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes `bytes` behind the end of the file. A failed append may leave a part of the bytes.
    ///
    /// # Errors
    /// The system's errors.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the bytes and the length of the file durable.
    ///
    /// # Errors
    /// The system's errors. After an error it is unknown which bytes are durable, and a second call
    /// does not repair that.
    fn sync(&self) -> io::Result<()>;

    /// Shortens the file to `length` bytes.
    ///
    /// # Errors
    /// The system's errors.
    fn truncate(&self, length: u64) -> io::Result<()>;
}
