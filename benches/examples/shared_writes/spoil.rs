//! [`Spoil`]: a seeded bug, which the count must find.

use clap::ValueEnum;

/// What a reader with a seeded bug does at every read.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spoil {
    /// It adds to a counter that all readers share.
    Counter,
    /// It adds to its own counter, which is in one cache line with the counters of other readers.
    Neighbour,
}
