//! The tests of `latchwork-processes`, as one program.

mod dispositions;
mod together;
