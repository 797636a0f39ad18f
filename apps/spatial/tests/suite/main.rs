//! Tests of the program.

mod answers;
mod bench;
mod cli;
mod common;
mod fabrics;
mod files;
mod joined;
mod real;
mod signals;

use latchwork_processes::Tested;

const SPATIAL: Tested = Tested(env!("CARGO_BIN_EXE_spatial"));
