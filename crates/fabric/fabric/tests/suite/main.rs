//! The tests of `latchwork-fabric`, as one program.

mod permission;
mod port;
