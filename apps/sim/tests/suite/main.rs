//! The tests of `latchwork-sim`, as one program.

mod calibrate;
mod cli;
mod common;
mod plants;
