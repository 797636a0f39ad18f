//! The tests of `latchwork-wal`, as one program.

mod checkpoint;
mod common;
mod cut;
mod damage;
mod example;
mod full;
mod kill;
mod log;
mod losses;
mod torn;
mod worlds;
