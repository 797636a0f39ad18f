//! Checkpoints: a durable copy of the tables, so that older logs can be removed.
//!
//! The caller decides the content and the floor of the checkpoint. This module writes the
//! checkpoint and puts it in place.
//!
//! ```text
//!   CheckpointWriter::begin(floor)
//!     PartWriter, PartWriter ..    each a file of its own: groups of entries, each with its timestamp
//!     PartWriter::finish           sync
//!   CheckpointWriter::settle       all logs durable; their ends noted; each begins a segment
//!   CheckpointWriter::publish      sync the directory: all parts are durable
//!                                  write CHECKPOINT.new, sync
//!                                  rename it to CHECKPOINT, sync the directory     <- it counts from here
//!                                  remove the parts of the one before
//! ```

mod manifest;
mod writer;

pub(crate) use manifest::{CheckpointedEnd, Manifest};
pub use writer::{CheckpointWriter, PartWriter};
