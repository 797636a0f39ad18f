//! The tests of `latchwork-tpcc`, as one program.

mod cli;
mod edges;
mod joined;
mod loss;
mod partitioned;
mod program;
mod rdma;
mod signals;

use latchwork_processes::Tested;

const TPCC: Tested = Tested(env!("CARGO_BIN_EXE_tpcc"));
