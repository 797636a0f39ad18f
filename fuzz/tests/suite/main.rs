//! The tests of `latchwork-fuzz`, as one program.

mod alarm;
mod corpus;
