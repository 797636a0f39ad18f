//! [`Spoil`]: a fault on purpose.

use clap::ValueEnum;

/// What a spoilt reader does with every read.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spoil {
    /// Adds to a counter of all readers.
    Counter,
    /// Adds to a counter of its own, next to those of the others in one cache line.
    Neighbour,
}
