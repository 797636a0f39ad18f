//! Keys and values of the workload. Each value is unique, and a torn value can be recognised.

use latchwork_history::calls::{MapKey, MapOperation, ObjectModel};
use latchwork_index::{ErrorKind, IndexError};
use latchwork_strict::strict_assert;

use crate::workloads::indexes::SharedMap;

/// The bytes of key number `n`, at most `u32::MAX`. Keys sort like their numbers. A key has 4 to 40
/// bytes, and 16 where all keys of the index have one length.
pub(in crate::workloads) fn key<T: SharedMap>(n: u64) -> Vec<u8> {
    let mut key = (n as u32).to_be_bytes().to_vec();
    strict_assert!(n <= u64::from(u32::MAX), "the number of a key does not fit");
    let padding = if T::FIXED { 1 } else { (n % 4) as usize };
    key.resize(4 + padding * 12, b'k');
    key
}

/// The number of a key.
pub(in crate::workloads) fn number<T: SharedMap>(bytes: &[u8]) -> Result<u64, String> {
    let first: [u8; 4] = bytes.get(..4).and_then(|b| b.try_into().ok()).ok_or("a short key")?;
    let n = u64::from(u32::from_be_bytes(first));
    if key::<T>(n) == bytes { Ok(n) } else { Err(format!("a garbled key {bytes:02x?}")) }
}

/// The content of a value.
///
/// ```text
///   head 8 | tail 8 | filler that the tail determines, 0 to 40 bytes
/// ```
///
/// The filler has 8 bytes where all values of the index have one length.
///
/// A write of the whole value sets head and tail. A change in place sets only the head. Each head
/// and each tail is written only once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::workloads) struct Content {
    pub(in crate::workloads) head: u64,
    pub(in crate::workloads) tail: u64,
}

impl Content {
    /// A content that no other call writes.
    pub(in crate::workloads) fn unique(id: u64) -> Content {
        Content { head: id, tail: id }
    }

    pub(in crate::workloads) fn encode<T: SharedMap>(self) -> Vec<u8> {
        let mut bytes = self.head.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.tail.to_le_bytes());
        let filler = if T::FIXED { 1 } else { (self.tail % 6) as usize };
        bytes.extend(std::iter::repeat_n(self.tail as u8, filler * 8));
        strict_assert!(bytes.len() >= 16 && bytes.len().is_multiple_of(8));
        bytes
    }

    /// The content of `bytes`. Fails if the bytes are not one whole value.
    pub(in crate::workloads) fn decode<T: SharedMap>(bytes: &[u8]) -> Result<Content, String> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes).ok_or_else(|| format!("a short value {bytes:02x?}"))
        };
        let content = Content { head: word(0)?, tail: word(8)? };
        if content.encode::<T>() == bytes {
            Ok(content)
        } else {
            Err(format!("torn: {bytes:02x?}"))
        }
    }
}

/// An operation on one key, with its answer.
#[derive(Clone, Debug)]
pub(in crate::workloads) enum Operation {
    Map(MapOperation<Content>),
    /// Changed the head of the value in place, if the key was in the tree.
    SetHead {
        head: u64,
        found: bool,
    },
}

/// The model of one key of the tree, for the check. The key is absent at first.
pub(in crate::workloads) struct TreeKey;

impl ObjectModel for TreeKey {
    type State = Option<Content>;
    type Operation = Operation;

    fn apply(
        &self,
        state: &Option<Content>,
        operation: &Operation,
        answered: bool,
    ) -> Option<Option<Content>> {
        match operation {
            Operation::Map(operation) => MapKey::new().apply(state, operation, answered),
            Operation::SetHead { head, found } => {
                let right = !answered || *found == state.is_some();
                right.then(|| state.map(|content| Content { head: *head, ..content }))
            }
        }
    }

    fn only_reads(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Map(operation) => MapKey::new().only_reads(operation),
            Operation::SetHead { found, .. } => !found,
        }
    }
}

/// The answer of a call on an existing key. `None` if the key was not in the tree, or if there is
/// no answer. Other errors stay errors.
pub(in crate::workloads) fn known<T, E: IndexError>(
    answer: Option<Result<T, E>>,
) -> Result<Option<T>, E> {
    match answer {
        Some(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.transpose(),
    }
}

/// Whether an insert succeeded. False if the key existed, or if there is no answer. Other errors
/// stay errors.
pub(in crate::workloads) fn inserted<E: IndexError>(
    answer: Option<Result<(), E>>,
) -> Result<bool, E> {
    match answer {
        Some(Err(error)) if error.kind() == ErrorKind::Exists => Ok(false),
        other => Ok(other.transpose()?.is_some()),
    }
}
