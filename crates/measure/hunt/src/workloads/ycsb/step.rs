//! The model of one record, for the check: its operations and their effects.

use std::ops::Range;

use latchwork_history::calls::{MapKey, MapOperation, ObjectModel};

/// The versions of a record's fields.
pub(in crate::workloads) type Fielded = Vec<u64>;

/// An operation on one record, with its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::workloads) enum Step {
    /// Read or inserted the whole record.
    Whole(MapOperation<Fielded>),
    /// Wrote some fields, if the record was there.
    Set { fields: Range<u16>, version: u64, found: bool },
    /// Read all fields and wrote some, in one atomic step. Without `found` the record was not
    /// there, and nothing was written.
    Change { fields: Range<u16>, version: u64, found: Option<Fielded> },
}

/// The model of one record, which is absent at first.
pub(in crate::workloads) struct OneRecord;

fn with(mut record: Fielded, fields: &Range<u16>, version: u64) -> Fielded {
    fields.clone().for_each(|field| record[usize::from(field)] = version);
    record
}

impl ObjectModel for OneRecord {
    type State = Option<Fielded>;
    type Operation = Step;

    fn apply(&self, state: &Self::State, step: &Step, answered: bool) -> Option<Self::State> {
        let (right, fields, version) = match step {
            Step::Whole(operation) => return MapKey::new().apply(state, operation, answered),
            Step::Set { fields, version, found } => (*found == state.is_some(), fields, version),
            Step::Change { fields, version, found } => (found == state, fields, version),
        };
        let after = || state.clone().map(|record| with(record, fields, *version));
        (right || !answered).then(after)
    }

    fn only_reads(&self, step: &Step) -> bool {
        match step {
            Step::Whole(operation) => MapKey::new().only_reads(operation),
            Step::Set { found, .. } => !found,
            Step::Change { found, .. } => found.is_none(),
        }
    }
}
