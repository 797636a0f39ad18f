//! [`Config`] and [`Place`]: how a shared-memory fabric is built, and where.

use std::path::{Path, PathBuf};

/// How a shared-memory fabric is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Messages that wait in the inbox of one compute node at most, rounded up to a power of two;
    /// 128 bytes each. What is beyond waits at the senders. Of each compute node in another process
    /// as many may wait beside these.
    pub inbox_capacity: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config { inbox_capacity: 1024 }
    }
}

/// Where processes meet: all of one fabric use the same directory, each fabric a directory of its
/// own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The directory, best on a file system in memory (`/dev/shm/NAME`). It is made when it is
    /// missing, for this user alone.
    pub path: PathBuf,
    /// What pages memory nodes and regions are made of.
    pub huge_pages: HugePages,
}

/// Whether large memory is made of huge pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HugePages {
    /// Of the usual ones.
    #[default]
    Never,
    /// The operating system is asked for huge ones; it has them if the directory is on a file
    /// system in memory that is mounted with `huge=advise`, or `shmem_enabled` says so.
    Advised,
    /// Memory is in this directory, which is on a file system of huge pages (`hugetlbfs`). All
    /// processes name the same.
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

/// What [`Fabric::clean`](crate::Fabric::clean) has removed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cleaned {
    /// Files of processes that had ended.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of other users, which stay: only their user can tell which processes live.
    pub foreign: u64,
    /// One of these users.
    pub foreign_user: Option<u32>,
}
