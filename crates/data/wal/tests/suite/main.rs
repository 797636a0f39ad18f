//! The tests of `latchwork-wal`, as one program.

mod checkpoint;
mod common;
mod cut;
mod damage;
mod full;
mod kill;
mod log;
mod torn;
mod worlds;
