//! One key of a map, for [`check_object`](super::check_object).

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use super::ObjectModel;

/// An operation on one key of a map, with its answer.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum MapOperation<V> {
    /// Looked the key up.
    Get {
        /// The value found.
        found: Option<V>,
    },
    /// Inserted the key unless the key existed.
    Insert {
        /// The new value.
        value: V,
        /// Whether the key was inserted.
        inserted: bool,
    },
    /// Replaced the value if the key existed.
    Update {
        /// The new value.
        value: V,
        /// Whether the key existed.
        updated: bool,
    },
    /// Set the value, whether the key existed or not.
    Upsert {
        /// The new value.
        value: V,
    },
    /// Removed the key.
    Remove {
        /// Whether the key existed.
        removed: bool,
    },
    /// Read the value and replaced it in one atomic step, if the key existed.
    ReadModifyWrite {
        /// The value found. With `None` the call wrote no value.
        found: Option<V>,
        /// The new value.
        written: V,
    },
}

/// The model of one key of a map: absent, or present with a value.
#[derive(Clone, Copy, Debug)]
pub struct MapKey<V>(PhantomData<V>);

impl<V> MapKey<V> {
    /// The model.
    pub fn new() -> MapKey<V> {
        MapKey(PhantomData)
    }
}

impl<V> Default for MapKey<V> {
    fn default() -> MapKey<V> {
        MapKey::new()
    }
}

impl<V: Clone + Eq + Hash + Debug> ObjectModel for MapKey<V> {
    type State = Option<V>;
    type Operation = MapOperation<V>;

    fn apply(
        &self,
        state: &Option<V>,
        operation: &MapOperation<V>,
        answered: bool,
    ) -> Option<Option<V>> {
        let present = state.is_some();
        let (right, after) = match operation {
            MapOperation::Get { found } => (found == state, state.clone()),
            MapOperation::Insert { value, inserted } => {
                let after = state.clone().unwrap_or_else(|| value.clone());
                (*inserted != present, Some(after))
            }
            MapOperation::Update { value, updated } => {
                (*updated == present, present.then(|| value.clone()))
            }
            MapOperation::Upsert { value } => (true, Some(value.clone())),
            MapOperation::Remove { removed } => (*removed == present, None),
            MapOperation::ReadModifyWrite { found, written } => {
                (found == state, present.then(|| written.clone()))
            }
        };
        (right || !answered).then_some(after)
    }

    fn only_reads(&self, operation: &MapOperation<V>) -> bool {
        match operation {
            MapOperation::Get { .. } => true,
            MapOperation::Insert { inserted: done, .. }
            | MapOperation::Update { updated: done, .. }
            | MapOperation::Remove { removed: done } => !done,
            MapOperation::Upsert { .. } => false,
            MapOperation::ReadModifyWrite { found, .. } => found.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_simulation::Time;

    use super::MapOperation::*;
    use super::*;
    use crate::calls::{Call, ObjectViolation, check_object};

    fn check(calls: &[(MapOperation<u32>, u64, Option<u64>)]) -> Result<(), ObjectViolation> {
        let calls: Vec<_> = calls
            .iter()
            .map(|(operation, from, to)| Call {
                invoked: Time::from_nanos(*from),
                returned: to.map(Time::from_nanos),
                operation: operation.clone(),
            })
            .collect();
        check_object(&MapKey::new(), None, &calls)
    }

    #[test]
    fn the_life_of_a_key_is_accepted() {
        assert_eq!(
            check(&[
                (Get { found: None }, 0, Some(1)),
                (Update { value: 9, updated: false }, 2, Some(3)),
                (Insert { value: 1, inserted: true }, 4, Some(5)),
                (Insert { value: 2, inserted: false }, 6, Some(7)),
                (Get { found: Some(1) }, 8, Some(9)),
                (ReadModifyWrite { found: Some(1), written: 3 }, 10, Some(11)),
                (Update { value: 4, updated: true }, 12, Some(13)),
                (Remove { removed: true }, 14, Some(15)),
                (Remove { removed: false }, 16, Some(17)),
                (ReadModifyWrite { found: None, written: 8 }, 18, Some(19)),
                (Upsert { value: 5 }, 20, Some(21)),
                (Get { found: Some(5) }, 22, Some(23)),
            ]),
            Ok(())
        );
    }

    #[test]
    fn two_inserts_cannot_both_succeed() {
        let both = |second: bool| {
            check(&[
                (Insert { value: 1, inserted: true }, 0, Some(10)),
                (Insert { value: 2, inserted: second }, 0, Some(10)),
            ])
        };
        assert_eq!(both(false), Ok(()));
        assert!(both(true).is_err());
    }

    #[test]
    fn two_read_modify_writes_cannot_find_the_same_value() {
        let history = |second: u32| {
            check(&[
                (Insert { value: 1, inserted: true }, 0, Some(1)),
                (ReadModifyWrite { found: Some(1), written: 2 }, 5, Some(10)),
                (ReadModifyWrite { found: Some(second), written: 3 }, 5, Some(10)),
            ])
        };
        assert_eq!(history(2), Ok(()));
        assert!(history(1).is_err(), "the update of one of them was lost");
    }

    #[test]
    fn a_removed_key_does_not_come_back() {
        let history = [
            (Insert { value: 1, inserted: true }, 0, Some(1)),
            (Remove { removed: true }, 2, Some(5)),
            (Get { found: Some(1) }, 3, Some(4)),
            (Get { found: None }, 6, Some(7)),
            (Get { found: Some(1) }, 8, Some(9)),
        ];
        assert_eq!(check(&history[..4]), Ok(()));
        assert!(check(&history).is_err());
    }

    #[test]
    fn a_call_that_never_returned_may_have_happened_or_not() {
        let history = |found| {
            check(&[
                (Insert { value: 1, inserted: true }, 0, Some(1)),
                (Remove { removed: false }, 2, None),
                (Get { found }, 10, Some(11)),
            ])
        };
        assert_eq!(history(None), Ok(()));
        assert_eq!(history(Some(1)), Ok(()));
        assert!(history(Some(2)).is_err());
    }

    /// Bug: a call that never returned counted as effective in a state where it changed nothing. So
    /// the call could not take effect later, in a state where the call had an effect.
    #[test]
    fn a_call_that_never_returned_may_happen_once_it_has_something_to_do() {
        let history = [
            (Update { value: 2, updated: false }, 0, None),
            (Insert { value: 1, inserted: true }, 5, Some(10)),
            (Get { found: Some(1) }, 11, Some(12)),
            (Get { found: Some(2) }, 20, Some(21)),
        ];
        assert_eq!(check(&history), Ok(()));
    }
}
