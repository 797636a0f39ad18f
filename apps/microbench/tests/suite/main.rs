//! The tests of `latchwork-microbench`, as one program.

mod cli;
mod edges;
mod joined;
mod matrix;
mod signals;
mod switches;
