//! [`IndexError`]: an error of any index, and its [`ErrorKind`].

use std::error::Error;

/// An error of an index. Its type belongs to the index.
pub trait IndexError: Error + 'static {
    /// What the error means to a caller.
    fn kind(&self) -> ErrorKind;
}

/// What an error of an index means to a caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// The key does not exist.
    NotFound,
    /// The key to insert exists already.
    Exists,
    /// A change of a part of a value reaches beyond the end of the value.
    OutsideValue,
    /// The index cannot do this, whatever its entries are: for example, the key is too long.
    Refused,
    /// A bulk load of an index that has entries or is in use.
    NotEmpty,
    /// A bulk load whose keys do not ascend.
    Unsorted,
    /// The memory is full.
    OutOfMemory,
    /// Others were faster for too long, or a deadline has passed. The operation may succeed later.
    TimedOut,
    /// A page does not have the content that the index expects.
    Corrupt,
    /// The memory or the fabric below failed.
    Failed,
}
