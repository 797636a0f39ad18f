//! SELCC: cache coherence whose ownership lives in the latch word.
//!
//! A [`Node`] is a compute node: its cache, and the lines that are under way. Each of its workers
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
//! A line at rest is only its frame's ownership. Anything else — being fetched, asked for, given up
//! — stands in a record keyed by address, which outlives the frame. Whoever polls serves: on every
//! sweep each worker takes the completions of its own verbs, the messages of its node, alarms that
//! are due, requests that local code kept waiting, and evicts when frames run short.
//!
//! # What holds
//!
//! - The ownership of lines is decided by [`latchwork_latch::Line`] alone, the code that the model
//!   checks; here its actions are carried out.
//! - A frame loses its right to be read before the release of its line is posted.
//! - A frame is not used for another line while a verb may read or write it: the record holds it
//!   until the operation, forwards included, is complete. An evicted line's bytes are copied out of
//!   it first, so its frame is free at once; the copy stays until the operation is complete.
//! - A message that arrives twice counts once.
//! - Futures own no protocol state. A dropped access leaves the line to come or go by itself.
//! - Every wait ends at [`Settings::deadline`].
//!
//! [`Policy`] tells protocols on this engine apart: with [`Policy::SELCC`] lines stay until they
//! are asked for. The baseline `latchwork-sel` gives them back after every access and sends no
//! message.
//!
//! # Example
//!
//! Programs get workers from `latchwork-cluster`, and use them by the traits of
//! `latchwork-coherence`. What they choose here is the [`Settings`] of the nodes, each by its
//! field, or by its name as command lines do:
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
mod costs;
mod counters;
mod cover;
mod describe;
mod engine;
mod evict;
mod history;
mod lease;
mod letters;
mod lock;
mod mail;
mod node;
mod operations;
mod record;
mod release;
mod repeats;
mod settings;
mod timers;
mod wire;
mod worker;
mod write_back;

pub use access::Ticket;
pub use costs::CpuCosts;
pub use counters::Counters;
pub use describe::describe;
pub use lock::Lock;
pub use node::{Node, NodeParts};
pub use settings::{Policy, Release, Replacement, Resend, Setting, SettingError, Settings};
pub use wire::{ARENA_MAX, read_message};
pub use worker::Worker;
