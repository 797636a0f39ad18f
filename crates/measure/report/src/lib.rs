//! The report of a run: latencies by kind of operation, the result document, lines for scripts, and
//! the conditions of the measurement. The crate knows no workload and no store.
//!
//! ```text
//!   worker ── histogram::Latencies ──┐ merge      measured
//!   worker ── histogram::Latencies ──┴──────► all ───────► result::ResultDocument ──► JSON
//!                                                  │               ▲
//!                                                  ▼               │
//!                                   text: YCSB's lines, CSV    conditions: machines, their cores
//! ```
//!
//! - [`histogram`]: how long the operations of each kind took, and how many failed.
//! - [`result`]: the document of one run of one program. The book has its format.
//! - [`text`]: YCSB's final lines, and lines of CSV.
//! - [`conditions`]: how far the figures of a run on real threads can be trusted.
//!
//! # Invariants
//!
//! * The crate reads no clock. The caller gives all times, so the crate also works in virtual time.
//! * Recording a latency allocates memory only for the first latency of a kind, and for a kind's
//!   first latency from an intended start.
//! * The numbers that this crate computes are finite. Reading a document with a duplicate key
//!   fails.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use latchwork_report::histogram::{Latencies, OperationKindSet};
//! use latchwork_report::result::{ResultDocument, ResultPhase};
//!
//! #[derive(Clone, Copy)]
//! enum Kind {
//!     Read,
//! }
//!
//! impl OperationKindSet for Kind {
//!     const NAMES: &'static [&'static str] = &["READ"];
//!
//!     fn index(self) -> usize {
//!         self as usize
//!     }
//! }
//!
//! let mut latencies = Latencies::new();
//! latencies.record(Kind::Read, Duration::from_micros(3), None);
//! let mut document = ResultDocument::new("example", "0.1.0", "unknown");
//! document.set_measured(&ResultPhase::new(1, 0.5), &latencies.measured());
//! assert_eq!(document.latency_us["READ"].count, 1);
//! assert_eq!(document.throughput_ops_s, 2.0);
//! ```

#![forbid(unsafe_code)]

pub mod conditions;
pub mod histogram;
pub mod result;
#[cfg(test)]
mod testing;
pub mod text;
mod unique;
