//! The tests of `latchwork-cluster-app`, as one program.

mod attended;
mod clean;
mod common;
mod hosts;
mod matrix;
mod namespaces;
mod programs;
mod run;
mod waits;
