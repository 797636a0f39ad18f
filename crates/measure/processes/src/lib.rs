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
//! - [`Memory`]: memory nodes in the test's process, which serve several programs one after
//!   another. The memory nodes end when the value is dropped.
//! - [`Program`]: the processes of one run. [`Ended`]: the exit status and the output of one
//!   process.
//! - [`Tested`]: a program of one process. [`Running`]: such a program while it runs.
//! - [`command`]: a command for any other program. The program does not inherit ignored signals.
//! - [`shown`]: what a program shows on a terminal.
//!
//! A wait for a program fails the test at its time limit. Dropping a [`Program`] kills the children
//! that still run, each by its own handle. So a test that returns or panics leaves no such child
//! behind.
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
mod running;
mod terminal;
mod tested;

pub use dispositions::command;
pub use memory::{Memory, OUTLIVING};
pub use program::{Ended, Program, document_of_survivors, one_document};
pub use running::Running;
pub use terminal::{shown, too_wide};
pub use tested::Tested;
