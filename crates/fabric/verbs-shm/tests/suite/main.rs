//! The tests of `latchwork-verbs-shm`, as one program.

mod common;
mod contract;
mod directory;
mod processes;
mod wake;
