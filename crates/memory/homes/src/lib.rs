//! GAM and ScaleStore on the engine: the machines of `latchwork-directory`, the messages between
//! them, and the bytes of lines.
//!
//! ```text
//!   compute node                        memory node
//!   ┌──────────┐  request, eviction     ┌────────────────┐
//!   │ Line     │ ──────────────────────►│ agent: Home    │   a node without local code. Its arena
//!   │ frames   │ ◄──── reply, line ──── │ memory = arena │   is the memory of the memory node
//!   └──────────┘                        └────────────────┘
//!        │ directive ▲ line
//!        ▼           │
//!   ┌──────────┐
//!   │ Line     │
//!   └──────────┘
//! ```
//!
//! Each memory node has an *agent* in its process: a compute node of the fabric whose arena is the
//! memory of the memory node. So the agent sends a line from the memory like any holder from its
//! frame, and a node writes changes into the memory in one batch with the message about them.
//!
//! Homes can also be at the compute nodes ([`HomePlace`]). Each then has a memory node in its
//! process, whose memory it registers beside its arena, and is a line's home and a node in one.

#![forbid(unsafe_code)]

mod describe;
mod directory;
mod drive;
mod line;
mod place;
mod record;
mod serve_home;
mod settings;
mod wire;

pub use describe::describe;
pub use directory::Directory;
pub use latchwork_directory::{Conflicts, ReaderTakes, Rules};
pub use line::DirectoryLine;
pub use place::{HomePlace, agent, beside};
pub use record::{Holders, Homes};
pub use settings::{Chaining, HomeAt, HomeSettings, Percent, Taken};
pub use wire::{DirectoryMessage, decode};
