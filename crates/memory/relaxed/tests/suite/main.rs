//! The tests of `latchwork-relaxed`, as one program.

mod common;
mod litmus;
mod loss;
mod threads;
mod time;
mod updates;
