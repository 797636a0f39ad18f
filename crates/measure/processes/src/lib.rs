//! Clusters of processes, for tests of programs that join a cluster.
//!
//! ```text
//!   the test                                   children of the test
//!   Memory: memory nodes, a store of files      Program: one process for each compute node
//!     │            ▲                              │
//!     └── --join ──┼──────────────────────────────┘
//!                  └── sockets, on loopback; or RDMA devices
//! ```
//!
//! - [`Memory`]: memory nodes, which live as long as the value does, and through several programs.
//! - [`Program`]: the processes of one run; [`Ended`]: the end of each process.
//! - [`command`]: any other program, which inherits no ignored signal that a test may have.
//! - [`shown`]: what a program shows on a terminal.
//!
//! A program that does not end in time is a failed test. A test that returns or panics leaves no
//! child behind. Each child is killed by its own handle, and no other process is.
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
