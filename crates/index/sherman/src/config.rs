//! The settings of a tree.

use std::time::Duration;

use latchwork_verbs::LINE_HEADER;

use crate::node::Layout;
use crate::{Check, ShermanError};

/// The memory of the lock words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockMemory {
    /// A word in the header of each node, as in FG. Nodes are aligned to their size, so the words
    /// share few of a NIC's buckets (Sherman 3.2.2).
    Node,
    /// A dense table in the memory of each memory node.
    Host,
    /// A table in the on-chip memory of each memory node's NIC (Sherman 4.3), of as many words as
    /// the smallest of these memories has.
    Chip,
}

/// The settings of a tree. All handles of a tree must agree on `check`, `lock_memory`, `locks` and
/// the lengths; [`Tree::open`](crate::Tree::open) compares them. The others may differ.
///
/// The defaults are Sherman's, with locks in host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The length of all keys, in bytes.
    pub key_len: usize,
    /// The length of all values, in bytes.
    pub value_len: usize,
    /// What shows torn reads. With [`Check::Checksum`] leaves are sorted and written whole.
    pub check: Check,
    /// The memory of the locks.
    pub lock_memory: LockMemory,
    /// The most lock words per chunk (host) or memory node (chip).
    pub locks: u64,
    /// Whether tasks of one compute node queue for a lock and hand it over, so that one of them
    /// at a time asks the memory node (Sherman 4.3).
    pub local_locks: bool,
    /// The longest chain of hand-overs.
    pub hand_overs: u32,
    /// Whether the write of a node and the release of its lock are one batch (Sherman 4.5).
    pub combine: bool,
    /// Whether a fetch-and-add releases a lock, as in FG, and not a WRITE.
    pub release_by_add: bool,
    /// The bytes of inner nodes that a compute node caches.
    pub cache_bytes: usize,
    /// The time after which an operation that waits for a lock fails.
    pub deadline: Duration,
    /// A READ that took longer is repeated: the versions may have come round (Sherman 4.4). The tag
    /// of [`Check::Words`] comes round after 512 writes of one entry, and each takes two round
    /// trips at least. The versions of [`Check::Published`] do after 16, and the paper has 8 us.
    pub longest_read: Duration,
    /// The tries of a torn read, after which the node is read under its lock.
    pub tries: u32,
    /// A bug on purpose, with which a test shows that a check finds it.
    pub flaw: Option<Flaw>,
}

/// A rule of the tree that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// A lock is released before the write that it protects.
    ReleasesFirst,
    /// A leaf counts as the right one, whatever its fence keys are.
    IgnoresFences,
    /// A key is absent if a torn leaf does not show it.
    TrustsTornLeaves,
}

impl Config {
    /// Sherman: entries written one by one, local lock queues, combined commands.
    pub const SHERMAN: Config = Config {
        key_len: 8,
        value_len: 8,
        check: Check::Words,
        lock_memory: LockMemory::Host,
        locks: 32_768,
        local_locks: true,
        hand_overs: 4,
        combine: true,
        release_by_add: false,
        cache_bytes: 500 << 20,
        deadline: Duration::from_secs(10),
        longest_read: Duration::from_micros(100),
        tries: 8,
        flaw: None,
    };

    /// FG with an index cache and a release by WRITE (Sherman 5.1).
    pub const FG_PLUS: Config = Config {
        check: Check::Checksum,
        lock_memory: LockMemory::Node,
        local_locks: false,
        combine: false,
        ..Config::SHERMAN
    };

    /// FG: every operation reads the path from the root.
    pub const FG: Config = Config { release_by_add: true, cache_bytes: 0, ..Config::FG_PLUS };
}

impl Config {
    /// Checks that entries of these lengths fit into nodes of lines of `line_size` bytes.
    ///
    /// # Errors
    /// [`ShermanError::KeyLength`] and [`ShermanError::ValueLength`].
    pub fn check_lengths(&self, line_size: usize) -> Result<(), ShermanError> {
        self.layout(line_size).map(drop)
    }

    pub(crate) fn layout(&self, line_size: usize) -> Result<Layout, ShermanError> {
        Layout::new(self.check, line_size - LINE_HEADER, self.key_len, self.value_len)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::SHERMAN
    }
}
