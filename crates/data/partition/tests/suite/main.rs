//! The tests of `latchwork-partition`, as one program.

mod cluster;
mod costs;
mod crashes;
mod faults;
mod recovery;
mod worlds;
