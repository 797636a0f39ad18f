//! The engine under the coherence protocols: everything about cached lines that does not depend on
//! how nodes agree on ownership.
//!
//! A [`Node`] is a compute node: its cache, and the records of its lines. Each worker of the node
//! runs a [`Worker`], which implements [`CoherentMemory`](latchwork_coherence::CoherentMemory). A
//! [`CoherenceProtocol`], which a program chooses at run time, decides the owners of each line.
//! Neither type names it: a hit knows no protocol, and a miss reaches it by indirect calls.
//!
//! ```text
//!   try_read, try_write ─────────────► Cache (hit: no shard lock)
//!   ensure ──► Record of the line ──► CoherenceProtocol ──► WorkerCore ──► Port ──► fabric
//!                  ▲   (shard lock)       ▲                                  │
//!                  │                      └── completions, messages ◄────────┘
//!              waiters: futures that wait, and own no protocol state
//! ```
//!
//! A frame holds the whole state of a line at rest: the ownership, the dirty bounds and the bytes.
//! A line has a line record while the line is obtained, requested or released, while a hold-off
//! runs, and after a failure. The record is keyed by address, and can stay when the line has left
//! its frame. The record has two parts: [`LocalSide`] belongs to the engine,
//! [`CoherenceProtocol::Line`] to the protocol.
//!
//! # The owners of state
//!
//! - The node ([`NodeCore`]) owns the frames, the accesses that wait for a frame, the alarms, the
//!   message numbers and the history of lines. It also owns the *blocked* lines, whose queued
//!   requests wait for local code, and the set of nodes that are dead or have left.
//!   [`Node`] adds the protocol and the records.
//! - The worker ([`WorkerCore`]) owns its port, its messages in flight, its write-back slots, its
//!   permits, its counters and its recent lines.
//! - The engine's part of a record ([`LocalSide`]) owns the frame of the line, the [`Waiters`], the
//!   pending probes and the error.
//! - The protocol's part of a record owns the ownership, the wants, the queued requests, the
//!   back-offs and the line leases.
//! - The protocol's part of a worker ([`CoherenceProtocol::InFlight`]) owns the operations in
//!   flight.
//!
//! Each worker that polls serves the whole node. A worker does the following on every sweep:
//!
//! - take the completions of its own verbs,
//! - take messages from the inbox of the node,
//! - fail the lines that wait for an answer of a node that is dead or has left,
//! - serve the alarms that are due,
//! - serve the requests that local code has kept waiting,
//! - release and evict lines.
//!
//! # What holds
//!
//! - Only the protocol decides the ownership of lines. The engine carries out its actions.
//! - The right to read a frame ends before the release of its line is posted.
//! - A frame serves no other line while a verb may read or write the frame. An operation or a
//!   forward that uses a frame keeps the frame in the line record until its completion.
//! - The dirty bytes of an evicted line are copied to a write-back slot if a slot is free. So the
//!   frame can be free at once. The slot holds the copy until the release is complete.
//! - A message about a line counts once, even if it arrives twice. User messages have no such
//!   protection.
//! - Futures own no protocol state. Dropping an access does not stop the transfer of its line.
//! - Every wait for a line ends at [`NodeSettings::deadline`]. Waits for the memory pool have the
//!   deadline of the pool.

#![forbid(unsafe_code)]

mod access;
mod alarms;
mod attempt;
mod blocked;
mod charges;
mod clean;
mod cleaner;
mod costs;
mod counters;
mod deduplicate;
mod delivery;
mod dirty;
mod envelope;
mod evict;
mod frame_copy;
mod frames;
mod gone;
mod handler_cover;
mod in_place;
mod inner;
mod journal;
mod let_go;
mod line_history;
mod lines;
mod lock;
mod messages;
mod node;
mod node_core;
mod permits;
mod persist;
mod poller;
mod protocol;
mod record;
mod release;
mod rounds;
mod serve;
mod settings;
mod start;
mod steps;
mod survivor;
mod tag;
#[cfg(all(test, not(loom)))]
mod testing;
mod truth;
mod user_messages;
mod waiters;
mod worker;
mod worker_core;
mod write_back;

pub use access::Ticket;
pub use alarms::{Alarm, Timers};
pub use costs::CpuCosts;
pub use counters::{Count, Counters, OWN_COUNTS_MAX, WorkerCounters};
pub use deduplicate::MessageNumber;
pub use envelope::{Body, Envelope, REST};
pub use frame_copy::FrameCopy;
pub use in_place::Persist;
pub use journal::{JournalSlot, Journaled};
pub use lines::{Node, Worker};
pub use lock::Lock;
pub use messages::{Bytes, TRIES_MAX};
pub use node_core::{NodeCore, NodeParts};
pub use protocol::{CoherenceProtocol, LineSite, LineState, fail_for_gone};
pub use record::LocalSide;
pub use settings::{
    NamedSettings, NodeSettings, Release, ReplacementChoice, Setting, SettingValue,
};
pub use truth::{Owners, Truth};
pub use waiters::{LineAccess, Waiters};
pub use worker_core::WorkerCore;
pub use write_back::Slot;
