//! SELCC: cache coherence with the ownership of each line in the latch word of the line.
//!
//! A [`Node`] is a compute node: its cache, and the records of its lines. Each worker of the node
//! runs a [`Worker`], which implements [`CoherentMemory`](latchwork_coherence::CoherentMemory).
//!
//! ```text
//!   try_read, try_write ─────────────► Cache (hit: no lock, no shared write)
//!   ensure ──► Record of the line ──► latch::Line ──► actions ──► Port ──► fabric
//!                  ▲   (shard lock)       ▲                                  │
//!                  │                      └── completions, messages ◄────────┘
//!              waiters: futures that subscribe, and own nothing
//! ```
//!
//! The ownership in the frame is the whole state of a line at rest. A line that is being obtained,
//! requested or released also has a line record. The record is keyed by address and outlives the
//! frame.
//!
//! Each worker that polls serves the whole node. On every sweep a worker does the following:
//!
//! - It takes the completions of its own verbs.
//! - It takes messages from the inbox of the node.
//! - It fails the lines that wait for an answer of a node that is dead or has left.
//! - It serves the alarms that are due.
//! - It serves the requests that local code has kept waiting.
//! - It releases and evicts lines.
//!
//! # What holds
//!
//! - Only [`latchwork_latch::Line`] decides the ownership of lines. The model checks that code;
//!   this crate carries out its actions.
//! - A frame loses its right to be read before the release of its line is posted.
//! - A frame serves no other line while a verb may read or write the frame. The line record holds
//!   the frame until the operation and its forwards are complete.
//! - The dirty bytes of an evicted line are copied to a write-back slot if one is free, so that the
//!   frame is free at once. The slot holds the copy until the operation is complete.
//! - A message that arrives twice counts once.
//! - Futures own no protocol state. Dropping an access does not stop the transfer of its line.
//! - Every wait ends at [`Settings::deadline`].
//!
//! [`Policy`] distinguishes the protocols on this engine. With [`Policy::SELCC`] a node keeps a
//! line until another node requests the line. The baseline `latchwork-sel` releases the line after
//! every access and sends no message.
//!
//! # Example
//!
//! Programs get workers from `latchwork-cluster` and use them through the traits of
//! `latchwork-coherence`. Programs choose the [`Settings`] of the nodes here, by field or by name
//! as on a command line:
//!
//! ```
//! use std::time::Duration;
//!
//! use latchwork_selcc::Settings;
//!
//! let mut settings = Settings { deadline: Duration::from_secs(2), ..Settings::default() };
//! settings.set("takeover", "off")?;
//! let wrong = settings.set("lease", "often").unwrap_err();
//! assert!(wrong.to_string().starts_with("lease cannot be \"often\": use "));
//! # Ok::<(), latchwork_selcc::SettingError>(())
//! ```

#![forbid(unsafe_code)]

mod access;
mod blocked;
mod charges;
mod costs;
mod counters;
mod cover;
mod delivery;
mod describe;
mod dirty;
mod drive;
mod envelope;
mod evict;
mod frame_copy;
mod frames;
mod gone;
mod history;
mod inner;
mod landed;
mod lease;
mod letters;
mod line;
mod local_first;
mod lock;
mod mail;
mod node;
mod node_core;
mod operations;
mod pauses;
mod permits;
mod policy;
mod poller;
mod protocol;
mod record;
mod release;
mod repeats;
mod selcc;
mod serve;
mod settings;
mod steps;
mod survivor;
mod tag;
#[cfg(all(test, not(loom)))]
mod testing;
mod timers;
mod waiters;
mod wire;
mod worker;
mod worker_core;
mod write_back;

pub use costs::CpuCosts;
pub use counters::Counters;
pub use describe::describe;
pub use node_core::{NodeCore, NodeParts};
pub use policy::Policy;
pub use protocol::{CoherenceProtocol, LineSite, LineState};
pub use record::LocalSide;
pub use selcc::Selcc;
pub use settings::{Release, Replacement, Resend, Setting, SettingError, Settings};
pub use timers::Alarm;
pub use waiters::LineAccess;
pub use wire::{ARENA_MAX, read_message};
pub use worker_core::WorkerCore;

/// A compute node that runs one of these protocols.
pub type Node = node::Node<Selcc>;
/// A worker of such a node.
pub type Worker = worker::Worker<Selcc>;
/// A ticket of such a worker.
pub type Ticket = access::Ticket<Selcc>;
/// A line lock of such a worker.
pub type Lock = lock::Lock<Selcc>;
