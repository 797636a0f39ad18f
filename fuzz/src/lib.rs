//! Fuzz targets: arbitrary bytes for the parsers of what Latchwork reads from files and sockets.
//!
//! ```text
//!   corpus/TARGET/*  ──► Session: pick, mutate ──► Target::run ──► class of the outcome
//!                            ▲                         │                  │
//!                            └── keep, if the class is new ◄──────────────┘
//!                                                      └──► panic, hang, too much memory: a failure
//! ```
//!
//! A [`FuzzTarget`] takes bytes, asserts what must hold for them, and returns a *class*: which
//! error, or what kind of success. The class is the coverage signal, because a stable compiler
//! offers no cheaper signal.
//!
//! The program runs each target in a worker process. A worker writes each input to a file before it
//! runs the input. So an input that panics, overflows the stack, exceeds the memory limit or hangs
//! is never lost.
//!
//! The layout is that of `cargo fuzz`: each target is one function over bytes, with a corpus folder
//! of the same name.

#![forbid(unsafe_code)]

mod class;
mod corpus;
mod mutate;
mod rounds;
mod session;
pub mod targets;

pub use class::class_of;
pub use corpus::{Corpus, save_failure};
pub use mutate::Mutator;
pub use rounds::rounds;
pub use session::Session;
pub use targets::{FuzzTarget, TARGETS};

/// The maximum length of an input, in bytes.
pub const INPUT_MAX: usize = 64 << 10;
