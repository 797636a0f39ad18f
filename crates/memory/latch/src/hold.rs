//! [`Hold`] and [`Want`]: the ownership of a line, and the access that local code wants.

/// The ownership of a line at a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hold {
    /// No ownership: the node must not read a copy.
    Nothing,
    /// Shared: a copy to read.
    Shared,
    /// Exclusive: the only usable copy, to write.
    Exclusive,
}

/// The access that local code wants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Want {
    /// To read.
    Shared,
    /// To write.
    Exclusive,
}

impl Want {
    pub(crate) fn is_met_by(self, hold: Hold) -> bool {
        match self {
            Want::Shared => hold >= Hold::Shared,
            Want::Exclusive => hold == Hold::Exclusive,
        }
    }
}
