//! One-sided verbs as types: addresses, registered memory, ordered batches, completions, messages.
//!
//! This crate owns the *contract* between the code above and every fabric below. It has no
//! transport of its own; with the feature `contract` it has the suite of tests that each transport
//! must pass.
//!
//! ```text
//!   worker (one thread, or one actor of a simulated world)
//!     │ post(target, token, [request; 1..=4])      ▲ poll → Completion { token, old values }
//!     ▼                                            │
//!   Endpoint ── ring ──► fabric ── one batch, one target ──► memory node   words, no code
//!                                                       └──► compute node  regions, Inbox
//! ```
//!
//! # What a fabric promises
//!
//! - **Order inside one batch** is exactly [`Kind::before`]: a WRITE takes effect before whatever
//!   follows it, and an atomic before a READ that follows. Nothing else is ordered: not other
//!   requests of a batch, not two batches, not even of one endpoint to one target.
//! - **Atomics** are atomic against the other atomics of the same fabric. Only the shared-memory
//!   fabric lets CPU atomics take part.
//! - **A word is never torn**, everything larger may be: words of a READ or a WRITE are placed in
//!   any order and at any time between its start and its end.
//! - **A completion** says that every request of the batch has taken effect, and gives the local
//!   buffers back. A completed WRITE is visible to later verbs, not yet to the target's CPU.
//! - **The target's CPU** learns of a WRITE from a message, or from a word that it polls, when the
//!   message or the WRITE of the word came later in the same batch. The CPU then needs acquire
//!   order: [`Inbox::receive`] has it; a polled word wants an acquire load, or a fence behind the
//!   relaxed one.
//! - **Full queues push back.** READs, atomics and messages outstanding are few; what is beyond
//!   waits in the endpoint's software queue, and nothing fails.
//!
//! CPU access to registered memory is through relaxed atomic words, [`Words`], so that racing with
//! a verb is no data race.
//!
//! # Example
//!
//! ```
//! use latchwork_verbs::{GlobalAddr, Kind, LocalBuffer, MemoryNodeId, Region, RegionKey, Request};
//!
//! // A frame to read a 2 KiB line into, and the batch that takes the line's latch and reads it.
//! let frames = Region::zeroed(1 << 20).unwrap();
//! let frame = LocalBuffer { region: RegionKey(0), offset: 4096, len: 2048 };
//! let line = GlobalAddr::new(MemoryNodeId(0), 1 << 16);
//! let batch = [
//!     Request::FetchAdd { remote: 512, add: 1 << 3 },
//!     Request::Read { remote: line.offset(), local: frame },
//! ];
//! assert!(batch[0].kind().before(batch[1].kind()), "the READ sees what the latch protects");
//! assert!(!Kind::Read.before(Kind::Write), "that order would need a fence");
//! assert_eq!(frames.words().u64(4096), 0);
//! ```

#![deny(unsafe_code)]

mod address;
mod atomic;
mod bytes;
#[cfg(feature = "contract")]
pub mod contract;
#[allow(unsafe_code)] // single instructions
mod copy;
mod endpoint;
mod error;
#[allow(unsafe_code)] // one system call
mod futex;
#[allow(unsafe_code)] // one system call
mod huge;
#[cfg(all(target_os = "linux", not(loom)))]
#[allow(unsafe_code)] // maps files
mod mapping;
#[allow(unsafe_code)] // allocates
mod region;
mod request;
mod words;

pub use address::{
    ComputeNodeId, GlobalAddr, LINE_HEADER, LocalBuffer, MemoryNodeId, RegionKey, Target,
};
pub use copy::{prefetch, prefetch_write};
pub use endpoint::{Endpoint, Inbox, Subscription, check_batch};
pub use error::{SetupError, VerbError};
pub use huge::large_slice;
pub use region::{Region, RegionError};
pub use request::{BATCH_ATOMICS_MAX, BATCH_MAX, Completion, Kind, Message, Outcome, Request};
pub use words::{WORD, Words};
