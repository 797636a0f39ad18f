//! The tests of `latchwork-files`, as one program.

mod distinct;
mod inputs;
mod outputs;
