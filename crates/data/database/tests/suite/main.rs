//! The tests of `latchwork-database`, as one program.

mod faults;
mod memory;
mod open;
