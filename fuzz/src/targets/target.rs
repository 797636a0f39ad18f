//! [`FuzzTarget`]: a parser of bytes from outside, with the properties that it must have.

use crate::Mutator;

/// A parser of bytes from outside, with the properties that it must have.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name of the target and of the folder of its corpus.
    pub name: &'static str,
    /// Takes any bytes, panics when it finds a bug, and returns the class of the outcome.
    pub run: fn(&[u8]) -> String,
    /// Changes an input.
    pub mutate: fn(&mut Mutator, &mut Vec<u8>),
    /// The number of mutations in an ordinary test. They take about a second.
    pub tried: usize,
}

/// Asserts that an error about a text file is one line and not empty.
pub(crate) fn assert_one_line(error: &str) {
    assert!(!error.is_empty(), "an error without words");
    assert!(!error.contains('\n'), "an error of several lines: {error}");
}
