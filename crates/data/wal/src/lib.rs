//! The write-ahead log: storage that can be torn, group commit, checkpoints and parallel replay.
//!
//! The log holds *values*. Each commit appends one checksummed log record, with the values that the
//! commit wrote and its commit timestamp. Two commits that write the same key have timestamps in
//! their commit order, so replay needs no other order. Replay takes the highest timestamp of each
//! key from all logs of all nodes, and reads the logs in parallel.
//!
//! ```text
//!   node 0: worker, worker ..                        one directory, one process
//!      │ append(record) -> position                  ┌──────────────────────────────────┐
//!      ▼                                             │ LOCK                             │
//!     Log ── Flusher: writes, one sync per batch ───►│ 00-0000000001.log   00-..02.log  │
//!      │ durable(position)                           │ 01-0000000001.log                │
//!      └─ now and then: how far all logs go ────────►│ WITNESS                          │
//!   checkpoint: floor F, every log rotates,          │ CHECKPOINT: number, floor, parts │
//!      tables are scanned ── CheckpointWriter ──────►│ checkpoint-..-0000.part  ..      │
//!      segments up to F are removed                  │                                  │
//!                                                    └────────────────┬─────────────────┘
//!   after a crash: LogDirectory::open (tails cut, made durable) ──────┘
//!      └─► replay(threads): checkpoint and logs ──► the latest value of each (table, key)
//! ```
//!
//! - [`storage`]: files that are written by appends. [`Disk`](storage::Disk) is a directory.
//!   [`Torn`](storage::Torn) loses unsynced data in a simulated crash.
//! - [`LogRecord`], [`LogRecordRef`]: the bytes of one log record.
//! - [`LogDirectory`]: all logs and the checkpoint of a database, repaired at opening. [`Log`]: the
//!   log of one node, open for appending.
//! - [`CheckpointWriter`]: writes the checkpoint that makes old segments unnecessary.
//!
//! # What holds
//!
//! - A log record that [`Log::durable`] reported survives any crash of the process or the system.
//!   It stays in its log until a checkpoint covers it.
//! - After a crash any other log record is there whole or not at all. A
//!   [refused](WalError::Refused) log record is not there. A log record that one opening to write
//!   did not find does not come back at a later opening.
//! - Replay returns only entries that were appended to a log or put into a checkpoint.
//! - Changed or lost durable data is an error that names the file. To detect a lost log end, a
//!   second place must state how far the log was durable. Such places are the cross-log marks, the
//!   checkpoint and the file `WITNESS`. A loss is not detected where no such place knows the lost
//!   records yet.
//! - A *cross-log mark* is a log record that states how far the other logs are durable. A log
//!   writes a mark before the first flush batch of each segment. It writes another mark before a
//!   later flush batch when it knows something new about another log.
//! - The witness, the file `WITNESS`, states how far each log is durable. It is written before the
//!   first segment, when an existing database is opened to write, after a checkpoint, and when a
//!   log is closed. It is also written when it has lacked a record for [`LogSettings::witness`] (1
//!   s), with several logs for up to twice that time.
//! - Damaged bytes in a file lead to an error, not to a panic. Every wait of a caller has a
//!   deadline.
//!
//! These guarantees assume that a sector of 512 bytes is written whole or not at all. They also
//! assume that `fdatasync` of a file and `fsync` of the directory do what POSIX says. After a
//! failed sync of a segment the log fails, because a later successful sync proves nothing.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
//! use latchwork_wal::storage::Torn;
//! use latchwork_wal::{DatabaseId, LogRecord, LogRecordKind, Log, LogDirectory, NodeId, LogSettings, TableId, Timestamp};
//!
//! let (device, database, node) = (Torn::new(1), DatabaseId(7), NodeId(0));
//! let directory = LogDirectory::open(Arc::new(device.clone()), database)?;
//! let log = Log::threaded(&directory, node, LogSettings::default())?;
//!
//! let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
//! let handle = executor.handle();
//! executor.block_on(async {
//!     let mut group = LogRecord::new(LogRecordKind::Commit, Timestamp::new(1, node).unwrap());
//!     group.put(TableId(3), b"key", b"value")?;
//!     let position = log.append(&group)?;
//!     log.durable(&handle, &position, handle.now() + Duration::from_secs(10)).await
//! })?;
//!
//! // The power goes off, and what was not synced may be lost.
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
mod fresh;
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
pub use format::{Entries, LogEntry, LogRecord, LogRecordKind, LogRecordRef};
pub use ids::{DatabaseId, NodeId, TableId, Timestamp};
pub use log::{Log, Position, Stats};
pub use replay::{LatestValue, Note, NoteEntry, Partition, Replayed};
pub use settings::{CommitMode, Device, LogSettings, LogSettingsError};

pub(crate) use ids::LogEnd;
