//! The tests of `latchwork-microbench`, as one program.

mod cli;
mod edges;
mod joined;
mod matrix;
mod signals;
mod switches;

use latchwork_processes::Tested;

const MICROBENCH: Tested = Tested(env!("CARGO_BIN_EXE_microbench"));
