//! [`ShmConfig`] and [`Place`]: the settings and the directory of a shared-memory fabric.

use std::path::{Path, PathBuf};

/// The settings of a shared-memory fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShmConfig {
    /// The largest number of messages in the inbox of one compute node, rounded up to a power of
    /// two. A message takes 128 bytes. Further messages wait at their senders. A sender in
    /// another process does not write to the inbox. It has a ring of its own to this node, with the
    /// same capacity.
    pub inbox_capacity: usize,
}

impl Default for ShmConfig {
    fn default() -> Self {
        ShmConfig { inbox_capacity: 1024 }
    }
}

/// The directory with the shared files of a fabric. All processes of one fabric use the same
/// directory, and each fabric has its own directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The directory, best on a file system in memory (`/dev/shm/NAME`). The fabric makes a missing
    /// directory, with access for this user alone.
    pub path: PathBuf,
    /// The size of the pages for memory nodes and regions.
    pub huge_pages: HugePages,
}

/// Whether memory nodes and regions are made of huge pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HugePages {
    /// Pages of the usual size.
    #[default]
    Never,
    /// A request to the operating system for huge pages. The request succeeds if the directory is
    /// on a file system in memory that is mounted with `huge=advise`, or if `shmem_enabled` forces
    /// huge pages.
    Advised,
    /// Memory in this directory, which is on a file system of huge pages (`hugetlbfs`). All
    /// processes use the same directory.
    Directory(PathBuf),
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Place { path: path.to_owned(), huge_pages: HugePages::Never }
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<&str> for Place {
    fn from(path: &str) -> Self {
        Path::new(path).into()
    }
}

/// The files that [`ShmFabric::clean`](crate::ShmFabric::clean) has removed or left.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cleaned {
    /// The number of removed files, all of processes that had ended.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The number of files of other users, which stay: a file shows by a lock whether its process
    /// lives, and another user may not open the file. (Root also removes the files of other users
    /// whose processes have ended.)
    pub foreign: u64,
    /// The id of one of these users.
    pub foreign_user: Option<u32>,
}
