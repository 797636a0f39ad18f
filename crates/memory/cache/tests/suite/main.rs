//! The tests of `latchwork-cache`, as one program.

mod frames;
mod replacement;
