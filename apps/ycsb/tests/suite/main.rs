//! The tests of `latchwork-ycsb`, as one program.

mod cli;
mod config;
mod edges;
mod joined;
mod matrix;
mod rdma;
mod signals;
mod simulated;

use latchwork_processes::Tested;

const YCSB: Tested = Tested(env!("CARGO_BIN_EXE_ycsb"));
