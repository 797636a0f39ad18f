//! Workloads for a store: key distributions, YCSB, TPC-C, the accesses of the micro-benchmark, and
//! objects that move. The crate knows no store. The programs in `apps` run its operations on a
//! store.
//!
//! ```text
//!   properties --> ycsb::CoreWorkload --> ycsb::OperationStream --> (the store under test)
//!   (files, -p)          |                   ^ distribution             |          |
//!                        |                   | random                   v          v
//!                        |                   | pacing            `report`   `history`
//!                        |                                     (how long)   (was it right)
//!                        v
//!              ycsb::RecordLayout (contents that can be checked)
//! ```
//!
//! # Invariants
//!
//! * Random draws come from seeded generators that the caller owns. The same seed gives the same
//!   draws on every machine, apart from the last bits of the platform's `powf`.
//! * The crate reads no clock and does not sleep. The caller gives all times, so the crate also
//!   works in virtual time.
//! * Drawing a YCSB operation, writing its key and checking a record allocate nothing. Encoding a
//!   record allocates only when the caller's buffer must grow.
//! * Bad input is an error of one line that names the mistake, its position, and valid input.
//!
//! # Example
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//!
//! use latchwork_workload::properties::Properties;
//! use latchwork_workload::ycsb::{
//!     Builtin, ContentKey, ContentVersion, CoreWorkload, InsertCounter, KeyBuffer,
//!     OperationStream, RecordNumber, WorkerIndex, YcsbOperation,
//! };
//!
//! let mut properties = Properties::default();
//! Builtin::C.add_to(&mut properties)?;
//! properties.assign("recordcount=100")?;
//! let (workload, _warnings) = CoreWorkload::from_properties(&properties)?;
//!
//! // Load.
//! let mut store: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
//! let mut key = KeyBuffer::new();
//! for number in workload.load_share(0, 1) {
//!     let key = workload.keys.write(RecordNumber(number), &mut key);
//!     let mut record = Vec::new();
//!     workload.layout.encode(ContentKey::new(key), ContentVersion::LOADED, &mut record);
//!     store.insert(key.to_vec(), record);
//! }
//!
//! // Run, checking what is read.
//! let inserts = Arc::new(InsertCounter::new(workload.first_insert()));
//! let worker = WorkerIndex { index: 0, count: 1 };
//! for operation in OperationStream::new(&workload, &inserts, worker, 42)?.take(1000) {
//!     let YcsbOperation::Read { record, .. } = operation else { unreachable!("C only reads") };
//!     let key = workload.keys.write(record, &mut key);
//!     workload.layout.verify(ContentKey::new(key), &store[key], |_, _| ())?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod distribution;
mod error;
pub mod hash;
pub mod micro;
pub mod pacing;
pub mod properties;
pub mod random;
pub mod spatial;
pub mod tpcc;
pub mod ycsb;

pub use error::WorkloadError;
