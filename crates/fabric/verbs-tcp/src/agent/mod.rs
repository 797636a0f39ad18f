//! Agents: the part of a process that executes the verbs of clients on the process's nodes.
//!
//! ```text
//!   listener ── accept ──► admit: greetings, in time, by few at once ──► seat: one connection per session
//!                                                                          │
//!        socket ── read a chunk ──► frames ──► execute ──► replies ── one write ──► socket      (serve)
//! ```

mod admit;
mod counters;
mod execute;
mod hosted;
mod listener;
mod serve;
mod sessions;
mod threads;

pub(crate) use counters::Counters;
pub use counters::Refused;
pub(crate) use hosted::{Content, Hosted};
pub(crate) use listener::{listen, prepare};
pub(crate) use threads::{Threads, Turns};
