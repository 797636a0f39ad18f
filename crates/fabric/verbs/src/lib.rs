//! The types of one-sided verbs: addresses, registered memory, ordered batches, completions,
//! messages.
//!
//! This crate owns the *contract* between the code above and every fabric below. The crate has no
//! transport of its own. The feature `contract` adds the tests that each transport must pass.
//!
//! ```text
//!   worker (one thread, or one actor of a simulated world)
//!     │ post(target, token, [request; 1..=4])      ▲ poll → Completion { token, old values }
//!     ▼                                            │
//!   Endpoint ── ring ──► fabric ── one batch, one target ──► memory node   words, no code
//!                                                       └──► compute node  regions, Inbox
//! ```
//!
//! # The promises of a fabric
//!
//! - **Order inside one batch** is exactly [`WorkRequestKind::before`]. A WRITE takes effect before
//!   each later request of its batch. An atomic takes effect before each later READ of its batch.
//!   No other requests of a batch are ordered. Two batches in flight are not ordered either, even
//!   from one endpoint to one target.
//! - **Atomics** are atomic against the other atomics of the same fabric. On the shared-memory and
//!   the socket fabric, CPU atomics of the memory's process take part. Code that runs on every
//!   fabric must not rely on this.
//! - **A failed compare-and-swap writes nothing.** So the holder of a lock may free the lock by a
//!   WRITE while others try to take it by compare-and-swap, and no such WRITE is lost.
//! - **On-chip memory** of a memory node's NIC ([`CHIP_BASE`]) is memory of its own length, which
//!   may be zero. All promises hold for it, also between the two parts of a node's memory.
//! - **A word is never torn**: a reader sees a word before a write or after the write. Larger data
//!   may be torn, because a fabric moves the words of a READ or a WRITE in any order. Each word
//!   moves at some time between the start and the end of the request.
//! - **A completion** reports that every request of the batch has taken effect, or why the batch
//!   failed. The completion returns the local buffers to the poster. A completed WRITE is visible
//!   to later verbs. A completed WRITE need not be visible to the target's CPU yet.
//! - **The target's CPU** learns of a WRITE from a message, or from a word that the CPU polls. The
//!   message, or the WRITE of the polled word, comes later in the same batch. The CPU must take the
//!   message or the word with acquire order. [`Inbox::receive`] has acquire order. A polled word
//!   needs an acquire load, or an acquire memory fence after a relaxed load.
//! - **A full queue makes requests wait.** The number of READs, atomics and messages in flight is
//!   bounded. Requests beyond the bound wait in the endpoint's software queue. No request fails
//!   because a queue is full.
//!
//! The CPU accesses registered memory through relaxed atomic words, [`Words`]. So a race of the CPU
//! with a verb is no data race.
//!
//! # Example
//!
//! ```
//! use latchwork_verbs::{
//!     GlobalAddr, LocalBuffer, MemoryNodeId, Region, RegionKey, WorkRequest, WorkRequestKind,
//! };
//!
//! // A frame to read a 2 KiB line into, and the batch that takes the line's latch and reads it.
//! let frames = Region::zeroed(1 << 20).unwrap();
//! let frame = LocalBuffer { region: RegionKey(0), offset: 4096, len: 2048 };
//! let line = GlobalAddr::new(MemoryNodeId(0), 1 << 16);
//! let batch = [
//!     WorkRequest::FetchAdd { remote: 512, add: 1 << 3 },
//!     WorkRequest::Read { remote: line.offset(), local: frame },
//! ];
//! assert!(batch[0].kind().before(batch[1].kind()), "the READ sees what the latch protects");
//! assert!(!WorkRequestKind::Read.before(WorkRequestKind::Write), "that order would need a fence");
//! assert_eq!(frames.words().u64(4096), 0);
//! ```

#![deny(unsafe_code)]

mod address;
mod atomic;
mod bytes;
#[allow(unsafe_code)] // vector instructions
mod column;
#[cfg(feature = "contract")]
pub mod contract;
#[allow(unsafe_code)] // single instructions
mod copy;
mod endpoint;
mod error;
mod extent;
#[allow(unsafe_code)] // one system call
mod futex;
#[allow(unsafe_code)] // one system call
mod huge;
mod limits;
#[cfg(all(target_os = "linux", not(loom)))]
#[allow(unsafe_code)] // maps files
mod mapping;
#[allow(unsafe_code)] // allocates
mod region;
mod request;
mod words;

pub use address::{
    CHIP_BASE, ComputeNodeId, GlobalAddr, LINE_HEADER, LocalBuffer, MemoryNodeId, RegionKey,
    Target, WORD,
};
pub use column::{COLUMN_MAX, bits_between};
pub use copy::{prefetch, prefetch_write};
pub use endpoint::{Endpoint, Inbox, Subscription, check_batch};
pub use error::{SetupError, VerbError};
pub use extent::Extent;
pub use huge::large_slice;
pub use limits::{BATCH_ATOMICS_MAX, BATCH_MAX};
pub use region::{Region, RegionError};
pub use request::{AtomicOutcome, Completion, Message, WorkRequest, WorkRequestKind};
pub use words::Words;
