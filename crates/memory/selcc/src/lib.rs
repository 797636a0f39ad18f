//! SELCC: cache coherence with the ownership of each line in the latch word of the line.
//!
//! [`Selcc`] is a protocol of `latchwork-engine`. The engine has the frames, the waiters and the
//! messages. This crate has all code that knows the latch word: it drives the line machines of
//! `latchwork-latch`, posts their word operations, and owns back-offs, line leases and the wire
//! format.
//!
//! ```text
//!   engine ── want, evict, serve, received, ended ──► latch::Line ──► Post(WordOp) ──► batches
//!                                                          │
//!                                                          └────────► Send, Forward ──► messages
//! ```
//!
//! # What holds
//!
//! - Only [`latchwork_latch::Line`] decides the ownership of lines. The model checks that code;
//!   this crate carries out its actions.
//! - The actions of one step reach the worker's send queue in the order of the line machine.
//!
//! [`Policy`] distinguishes the protocols. With [`Policy::SELCC`] a node keeps a line after an
//! access, until another node requests the line or the node needs the frame. The baseline
//! [`Policy::SEL`] releases the line after every access and sends no message about lines.

#![forbid(unsafe_code)]

mod counts;
mod describe;
mod describe_word;
mod drive;
mod landed;
mod line;
mod line_lease;
mod local_first;
mod mend;
mod operations;
mod pauses;
mod persist;
mod policy;
mod roll_forward;
mod selcc;
mod settings;
mod truth;
mod wire;

pub use counts::LatchCount;
pub use describe::describe;
pub use describe_word::{describe_atomic, describe_word};
pub use mend::mend;
pub use policy::Policy;
pub use roll_forward::roll_forward;
pub use selcc::Selcc;
pub use settings::{Resend, SelccSettings};
pub use truth::LatchWords;
pub use wire::{ARENA_MAX, read_message};
