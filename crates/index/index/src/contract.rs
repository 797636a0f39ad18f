//! The contract of every index as a test: the index against a `BTreeMap`, one operation after
//! another.
//!
//! An index draws [operations](operation) with keys and values that it takes, and [applies](apply)
//! each of them to itself and to a [`Model`]. Answers that differ fail the test.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{ErrorKind, IndexError, OrderedIndex, ValueEdit, ValueView};

/// The entries that an index should have.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// An operation on an index.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Reads a value, by [`try_get`](OrderedIndex::try_get) too.
    Get(Vec<u8>),
    /// Inserts an entry.
    Insert(Vec<u8>, Vec<u8>),
    /// Replaces a value.
    Update(Vec<u8>, Vec<u8>),
    /// Overwrites bytes of a value from an offset on.
    UpdateRange(Vec<u8>, usize, Vec<u8>),
    /// Sets a value.
    Upsert(Vec<u8>, Vec<u8>),
    /// Reads a value and changes all its bytes.
    Modify(Vec<u8>),
    /// Reads a value and replaces it.
    Replace(Vec<u8>, Vec<u8>),
    /// Removes a key.
    Remove(Vec<u8>),
    /// Reads a number of entries, upwards.
    ScanUp(Bound<Vec<u8>>, usize),
    /// Reads a number of entries, downwards.
    ScanDown(Bound<Vec<u8>>, usize),
}

/// Operations on such keys, with such values.
pub fn operation(
    keys: impl Strategy<Value = Vec<u8>> + 'static,
    values: impl Strategy<Value = Vec<u8>> + 'static,
) -> impl Strategy<Value = Operation> {
    let (keys, values) = (keys.boxed(), values.boxed());
    let entry = || (keys.clone(), values.clone());
    let bound = prop_oneof![
        1 => Just(Bound::Unbounded),
        3 => keys.clone().prop_map(Bound::Included),
        3 => keys.clone().prop_map(Bound::Excluded),
    ];
    let scan = (bound, 0..40_usize);
    prop_oneof![
        2 => keys.clone().prop_map(Operation::Get),
        6 => entry().prop_map(|(key, value)| Operation::Insert(key, value)),
        2 => entry().prop_map(|(key, value)| Operation::Update(key, value)),
        1 => (keys.clone(), 0..16_usize, vec(any::<u8>(), 0..8))
            .prop_map(|(key, at, bytes)| Operation::UpdateRange(key, at, bytes)),
        3 => entry().prop_map(|(key, value)| Operation::Upsert(key, value)),
        1 => keys.clone().prop_map(Operation::Modify),
        1 => entry().prop_map(|(key, value)| Operation::Replace(key, value)),
        2 => keys.clone().prop_map(Operation::Remove),
        1 => scan.clone().prop_map(|(from, limit)| Operation::ScanUp(from, limit)),
        1 => scan.prop_map(|(from, limit)| Operation::ScanDown(from, limit)),
    ]
}

/// Executes an operation on both.
///
/// # Panics
/// When the answer of the index differs from that of the model.
pub async fn apply<I: OrderedIndex>(index: &I, model: &mut Model, operation: Operation) {
    match operation {
        Operation::Get(key) => {
            let wanted = model.get(&key).cloned();
            if let Some(found) = index.try_get(&key, |value| value.to_vec()) {
                assert_eq!(found, wanted);
            }
            assert_eq!(kind(index.get(&key).await), Ok(wanted));
        }
        Operation::Insert(key, value) => {
            let is_known = model.contains_key(&key);
            let wanted = if is_known { Err(ErrorKind::Exists) } else { Ok(()) };
            assert_eq!(kind(index.insert(&key, &value).await), wanted);
            model.entry(key).or_insert(value);
        }
        Operation::Update(key, value) => {
            let updated = kind(index.update(&key, &value).await);
            assert_eq!(updated, known(model, &key).map(|known| *known = value));
        }
        Operation::UpdateRange(key, at, bytes) => {
            let updated = kind(index.update_range(&key, at, &bytes).await);
            let part = known(model, &key).and_then(|known| {
                known.get_mut(at..at + bytes.len()).ok_or(ErrorKind::OutsideValue)
            });
            assert_eq!(updated, part.map(|part| part.copy_from_slice(&bytes)));
        }
        Operation::Upsert(key, value) => {
            let is_new = kind(index.upsert(&key, &value).await);
            assert_eq!(is_new, Ok(model.insert(key, value).is_none()));
        }
        Operation::Modify(key) => {
            let change = |value: &mut I::ValueMut<'_>| {
                let before = value.to_vec();
                value.write(0, &vec![7; before.len()]);
                before
            };
            let before = kind(index.modify(&key, change).await);
            let wanted = known(model, &key).map(|known| {
                let new = vec![7; known.len()];
                std::mem::replace(known, new)
            });
            assert_eq!(before, wanted);
        }
        Operation::Replace(key, value) => {
            let change = |old: I::Value<'_>, new: &mut Vec<u8>| {
                new.extend_from_slice(&value);
                old.to_vec()
            };
            let before = kind(index.replace_with(&key, change).await);
            let wanted = known(model, &key).map(|known| std::mem::replace(known, value));
            assert_eq!(before, wanted);
        }
        Operation::Remove(key) => {
            assert_eq!(kind(index.remove(&key).await), Ok(model.remove(&key).is_some()));
        }
        Operation::ScanUp(from, limit) => {
            let mut shown = Vec::new();
            let count = kind(index.scan_up(slice(&from), limit, collect(&mut shown)).await);
            let wanted = entries(model.range((from, Bound::Unbounded)).take(limit));
            assert_eq!((count, shown), (Ok(wanted.len()), wanted));
        }
        Operation::ScanDown(from, limit) => {
            let mut shown = Vec::new();
            let count = kind(index.scan_down(slice(&from), limit, collect(&mut shown)).await);
            if count == Ok(None) {
                assert_eq!(shown, []);
                return;
            }
            let wanted = entries(model.range((Bound::Unbounded, from)).rev().take(limit));
            assert_eq!((count, shown), (Ok(Some(wanted.len())), wanted));
        }
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn kind<T>(result: Result<T, impl IndexError>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

fn known<'m>(model: &'m mut Model, key: &[u8]) -> Result<&'m mut Vec<u8>, ErrorKind> {
    model.get_mut(key).ok_or(ErrorKind::NotFound)
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn collect(shown: &mut Entries) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
    |key, value| {
        shown.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    }
}

fn entries<'m>(entries: impl Iterator<Item = (&'m Vec<u8>, &'m Vec<u8>)>) -> Entries {
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}
