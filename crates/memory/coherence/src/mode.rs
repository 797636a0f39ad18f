//! [`AccessMode`]: the mode in which a line is needed.

/// The mode in which a line is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessMode {
    /// To read it.
    Shared,
    /// To write it.
    Exclusive,
}
