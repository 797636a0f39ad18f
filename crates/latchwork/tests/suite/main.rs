//! The tests of `latchwork`, as one program.

mod examples;
