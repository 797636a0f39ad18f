//! The tests of `latchwork-blink`, as one program.

mod common;
mod concurrent;
mod faults;
mod model;
mod phantoms;
mod recent;
mod replace;
mod stamps;
mod threads;
