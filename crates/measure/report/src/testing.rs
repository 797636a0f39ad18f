//! Kinds of operations for tests.

use crate::histogram::OperationKindSet;

/// Three kinds, in this order.
#[derive(Clone, Copy)]
pub(crate) enum OperationKind {
    Read,
    Update,
    Insert,
}

impl OperationKindSet for OperationKind {
    const NAMES: &'static [&'static str] = &["READ", "UPDATE", "INSERT"];

    fn index(self) -> usize {
        self as usize
    }
}
