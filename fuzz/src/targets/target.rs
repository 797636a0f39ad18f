//! [`FuzzTarget`]: a parser of bytes from outside.

use crate::Mutator;

/// A parser of bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The target's name, and its corpus's name.
    pub name: &'static str,
    /// Takes any bytes, panics at a bug, and returns the class of the outcome.
    pub run: fn(&[u8]) -> String,
    /// Changes an input.
    pub mutate: fn(&mut Mutator, &mut Vec<u8>),
    /// The number of mutations in an ordinary test: about a second's worth.
    pub tried: usize,
}

/// Asserts what holds of an error about a text file: one line of bounded length, not empty.
pub(crate) fn assert_one_line(error: &str) {
    assert!(!error.is_empty(), "an error without words");
    assert!(!error.contains('\n'), "an error of several lines: {error}");
}
