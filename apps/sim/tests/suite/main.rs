//! The tests of `latchwork-sim`, as one program.

mod calibrate;
mod cli;
mod common;
mod plants;

use latchwork_processes::Tested;

const SIM: Tested = Tested(env!("CARGO_BIN_EXE_sim"));
