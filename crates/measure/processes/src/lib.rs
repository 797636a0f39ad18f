//! Clusters of processes, for tests of programs that are one.
//!
//! ```text
//!   the test                                   children of the test
//!   Memory: memory nodes, a store of files      Program: one process for each compute node
//!     │            ▲                              │
//!     └── --join ──┼──────────────────────────────┘
//!                  └── sockets, on loopback; or RDMA devices
//! ```
//!
//! - [`Memory`]: memory nodes, which live as long as it does, and through several programs.
//! - [`Program`]: the processes of one run; [`Ended`]: what became of each.
//! - [`command`]: any other program, which inherits no ignored signal.
//! - [`shown`]: what a program shows on a terminal.
//!
//! A program that does not end in time is a failed test, and whatever way a test ends, none of its
//! children goes on: each is ended by its own handle, and nothing else is.
//!
//! ```no_run
//! use std::time::Duration;
//! use latchwork_processes::Memory;
//!
//! let memory = Memory::start(2, 64 << 20);
//! let program = memory.start_program("target/debug/ycsb", 3, "check -p recordcount=1000");
//! for process in program.wait(Duration::from_secs(60)) {
//!     assert_eq!(process.status, Some(0), "{process:?}");
//! }
//! memory.end();
//! ```

#![forbid(unsafe_code)]

mod dispositions;
mod memory;
mod program;
mod terminal;

pub use dispositions::command;
pub use memory::Memory;
pub use program::{Ended, Program, one_document};
pub use terminal::{shown, too_wide};
