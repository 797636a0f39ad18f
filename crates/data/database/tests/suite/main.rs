//! The tests of `latchwork-database`, as one program.

mod faults;
mod found;
mod memory;
mod open;
