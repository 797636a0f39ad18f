//! TPC-C on a cluster: in this process, or of many.
//!
//! ```text
//!   args, settings, memory     the command line, checked before any thread starts
//!        |
//!   drive                      load or recover ──► run ──► check, each on every worker of every compute node
//!     load, recover, run, check       |             |        |
//!     schemas, tables, about          nine tables of the transaction engine
//!     transactions                    new order, payment, order status, delivery, stock level
//!     log                             durable data
//!     partitions, worker_barrier      warehouses owned by nodes, with two-phase commit
//!     tally, intervals                results of the transactions
//!        |
//!   outcome                    lines of go-tpc, a table for people, the result document
//! ```
//!
//! Rows, inputs, conditions and figures are those of [`latchwork_workload::tpcc`]. This program
//! runs the transactions. The steps that all programs share are those of
//! [`latchwork_harness::driver`].

#![forbid(unsafe_code)]

mod about;
mod args;
mod check;
mod drive;
mod intervals;
mod load;
mod log;
mod memory;
mod outcome;
mod partitions;
mod record;
mod recover;
mod run;
mod schemas;
mod session;
mod settings;
mod shares;
mod tables;
mod tally;
mod terminals;
#[cfg(test)]
mod testing;
mod transactions;
mod worker_barrier;

use std::process::ExitCode;

fn main() -> ExitCode {
    latchwork_harness::driver::start::<session::Session>()
}
