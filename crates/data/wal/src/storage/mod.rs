//! [`Storage`]: a directory of files that only grow, be it on a disk or in a simulated world.
//!
//! What may be relied on after a crash is what POSIX promises, and no more:
//!
//! | done | there after a crash |
//! | --- | --- |
//! | `append`, `truncate` | when a later [`File::sync`] succeeded; until then each sector may be old or new |
//! | `create`, `rename`, `remove` | when a later [`Storage::sync_directory`] succeeded; until then each may be undone, whatever came after it |
//! | a failed `sync` | nobody knows, and the next one succeeds although it wrote nothing |

mod disk;
pub mod torn;

use std::fmt;
use std::io;

pub use disk::Disk;
pub use torn::Torn;

/// A directory of files. Calls block until the system has taken what they ask for.
///
/// Errors are those of the system; who calls says which file and what for.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Where this is, for people.
    fn describe(&self) -> String;

    /// The names of all files, in order.
    ///
    /// # Errors
    /// The system's.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes an empty file.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` when there is one of this name.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Opens a file to read it.
    ///
    /// # Errors
    /// The system's; `NotFound` when there is none of this name.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Gives a file another name, and takes that name from the file which has it.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes lasting which names there are.
    ///
    /// # Errors
    /// The system's.
    fn sync_directory(&self) -> io::Result<()>;

    /// Makes the directory this process's alone, until what it returns is dropped or the process
    /// ends.
    ///
    /// # Errors
    /// The system's; [`Locked::Held`] is none.
    fn lock(&self, name: &str) -> io::Result<Locked>;

    /// Sees to it that the directory is no other process's to write, until what it returns is
    /// dropped or the process ends. Nothing is made or written: `None` where the lock was never
    /// made, so that no process can have it. Those that read do not exclude one another.
    ///
    /// # Errors
    /// As [`lock`](Storage::lock).
    fn lock_to_read(&self, name: &str) -> io::Result<Option<Locked>>;
}

/// What became of a [`Storage::lock`].
#[derive(Debug)]
pub enum Locked {
    /// The directory is this process's.
    Taken(Box<dyn DirectoryLock>),
    /// It is another's.
    Held {
        /// Who says to have it: a process id, as far as is known.
        by: String,
    },
}

/// Holds a directory for as long as it lives.
pub trait DirectoryLock: Send + Sync + fmt::Debug {}

/// An open file.
pub trait File: Send + Sync + fmt::Debug {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn length(&self) -> io::Result<u64>;

    /// Reads from byte `offset` on, until `buffer` is full or the file ends; how much that was.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes `bytes` behind the file's end. When it fails, part of them may be there.
    ///
    /// # Errors
    /// The system's.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file's bytes, and its length, lasting.
    ///
    /// # Errors
    /// The system's; what is lasting then nobody knows, and a second call does not mend it.
    fn sync(&self) -> io::Result<()>;

    /// Shortens the file to `length` bytes.
    ///
    /// # Errors
    /// The system's.
    fn truncate(&self, length: u64) -> io::Result<()>;
}
