//! The tests of `latchwork-verbs-tcp`, as one program.

mod common;
mod contract;
mod faults;
mod hostile;
mod hosting;
mod idle;
mod nap;
mod security;
mod wake;
mod wire;
