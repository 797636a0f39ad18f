//! The tests of `latchwork-memnode`, as one program.

mod allocation;
mod catalogue;
mod common;
mod epochs;
mod given_back;
mod journal;
mod pool;
mod reuse;
mod threads;
