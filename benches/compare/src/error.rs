//! The errors that end the program.

use std::path::{Path, PathBuf};

use latchwork_blink::TreeError;
use latchwork_cluster::ClusterError;
use latchwork_rtree::RTreeError;

/// A wrong answer. The type is small, because it is in the result of every operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Wrong {
    /// A loaded key was missing.
    #[error("key {0:016x} was loaded and is not there")]
    Missing(u64),
    /// A new key was reported as existing, or a key was found twice.
    #[error("key {0:016x} was new and is said to be there already")]
    Known(u64),
    /// A value that no operation wrote.
    #[error("key {0:016x} has a value that nobody wrote")]
    Value(u64),
    /// A scan that left out an entry, had one too many, or was out of order.
    #[error("the scan from key {0:016x} did not show the hundred entries that follow")]
    Scan(u64),
}

/// Why the program ended without a table. Each text is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line requests something impossible.
    #[error("{0}")]
    Usage(String),
    /// A structure gave a wrong answer.
    #[error("{structure} is wrong: {wrong}")]
    Wrong { structure: &'static str, wrong: Wrong },
    /// A tree gave a wrong answer to a query of boxes.
    #[error("{structure} is wrong: {query} has another answer by a search of all boxes")]
    WrongAnswer { structure: &'static str, query: String },
    /// A structure panicked.
    #[error("{structure} panicked; its message stands above")]
    Panicked { structure: &'static str },
    /// Our cluster could not be started or did not run to its end.
    #[error("{0}")]
    Cluster(#[from] ClusterError),
    /// Our tree failed.
    #[error("our tree failed: {0}")]
    Tree(#[from] TreeError),
    /// Our R-tree failed.
    #[error("our R-tree failed: {0}")]
    RTree(#[from] RTreeError),
    /// Our cache missed although all lines should have been cached.
    #[error(
        "our cache missed {misses} times in a measurement of cached lines: lines were evicted or lost; fewer --keys or --boxes would show whether the cache is too small"
    )]
    NotCached { misses: u64 },
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Output { path: PathBuf, error: std::io::Error },
    /// A file that should have marks for the tables has none.
    #[error(
        "{} has no line {begin} with a line {end} below it, so there is no place for the tables", path.display()
    )]
    NoMarkers { path: PathBuf, begin: &'static str, end: &'static str },
}

impl Failure {
    /// The program's exit status: 2 for an error that another command line avoids, 1 for the rest.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::NoMarkers { .. } => 2,
            _ => 1,
        }
    }

    pub(crate) fn output(path: &Path, error: std::io::Error) -> Failure {
        Failure::Output { path: path.to_owned(), error }
    }
}
