//! The write-ahead log: storage that can be torn, group commit, checkpoints, parallel replay.
//!
//! A log holds *values*: for each commit one checksummed group of what the transaction wrote, with
//! its commit timestamp. Conflicting commits have timestamps in their order, so replay needs no
//! other order: it takes the highest timestamp of each key, from all logs of all nodes, side by
//! side.
//!
//! ```text
//!   node 0: worker, worker ..                        one directory, one process
//!      │ append(group) -> position                   ┌──────────────────────────────────┐
//!      ▼                                             │ LOCK                             │
//!     Log ── Flusher: one write, one sync a batch ──►│ 00-0000000001.log   00-..02.log  │
//!      │ durable(position)                           │ 01-0000000001.log                │
//!      └─ now and then: how far all logs go ────────►│ WITNESS                          │
//!   coordinator: floor F, every log rotates,         │ CHECKPOINT: number, floor, parts │
//!      tables are scanned ── CheckpointWriter ──────►│ checkpoint-..-0000.part  ..      │
//!      segments up to F are removed                  │                                  │
//!                                                    └────────────────┬─────────────────┘
//!   after a crash: LogDirectory::open (tails cut, made lasting) ──────┘
//!      └─► replay(threads): checkpoint and logs ──► for each (table, key) what it was last
//! ```
//!
//! - [`storage`]: files that only grow. [`Disk`](storage::Disk) is a directory,
//!   [`Torn`](storage::Torn) forgets what was not synced.
//! - [`Group`], [`GroupRef`]: a commit's bytes.
//! - [`LogDirectory`]: what there is, made fit to go on with; [`Log`]: one node's end of it.
//! - [`CheckpointWriter`]: what makes old segments unnecessary.
//!
//! # What holds
//!
//! - A group that [`Log::durable`] reported is there after any crash, of process or power.
//! - Any other is there whole or not at all. One that was [refused](WalError::Refused) is not
//!   there, and one that a restart did not find does not come back with the next one.
//! - Nothing is in a replay that was not appended.
//! - What was durable and is not as it was is an error that names file and byte, not a shorter log,
//!   as far as a second place knows that it was durable: the logs of the other nodes, which say so
//!   with every batch, and the file `WITNESS`, which is written once a second and when a log is
//!   closed.
//! - Bytes from outside never panic, and every wait has a deadline.
//!
//! What it stands on: a sector of 512 bytes is written whole or not at all, `fdatasync` and `fsync`
//! of the directory do what POSIX says, and a sync that failed is not trusted again: the log fails.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
//! use latchwork_wal::storage::Torn;
//! use latchwork_wal::{DatabaseId, Group, Kind, Log, LogDirectory, NodeId, Settings, TableId, Timestamp};
//!
//! let (device, database, node) = (Torn::new(1), DatabaseId(7), NodeId(0));
//! let directory = LogDirectory::open(Arc::new(device.clone()), database)?;
//! let log = Log::threaded(&directory, node, Settings::default())?;
//!
//! let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
//! let handle = executor.handle();
//! executor.block_on(async {
//!     let mut group = Group::new(Kind::Commit, Timestamp::new(1, node).unwrap());
//!     group.put(TableId(3), b"key", b"value")?;
//!     let position = log.append(&group)?;
//!     log.durable(&handle, &position, handle.now() + Duration::from_secs(10)).await
//! })?;
//!
//! // The power goes off, and everything that was not synced is lost.
//! let device = device.crash(2);
//! let directory = LogDirectory::open(Arc::new(device), database)?;
//! let replayed = directory.replay(2)?;
//! let (table, latest) = replayed.keys().next().expect("it was acknowledged");
//! assert_eq!((table, latest.value.as_deref()), (TableId(3), Some(&b"value"[..])));
//! # Ok::<(), latchwork_wal::WalError>(())
//! ```

#![forbid(unsafe_code)]

mod checkpoint;
mod directory;
mod error;
mod format;
mod ids;
mod log;
mod reader;
mod replay;
mod settings;
pub mod storage;
mod witness;

pub use checkpoint::{CheckpointWriter, PartWriter};
pub use directory::{LogDirectory, Loss, Opening, Segment};
pub use error::WalError;
pub use format::{Entries, Entry, Group, GroupRef, Kind};
pub use ids::{DatabaseId, End, NodeId, TableId, Timestamp};
pub use log::{Log, Position, Stats};
pub use replay::{Latest, Note, NoteEntry, Partition, Replayed};
pub use settings::{Device, Mode, Settings, SettingsError};
