//! Histories of a sample of the records, for a check after the run.

use std::collections::BTreeSet;
use std::sync::Arc;

use latchwork_history::calls::{
    Call, CallHistory, MapKey, MapOperation, ObjectViolation, RegisterOperation, check_object,
    check_register,
};
use latchwork_report::histogram::OperationFailure;
use latchwork_runtime::Time;
use latchwork_workload::WorkloadError;
use latchwork_workload::ycsb::{
    ContentVersion, CoreWorkload, FieldIndex, InsertCounter, OperationStream, RecordNumber,
    WorkerIndex, YcsbOperation,
};

use crate::store::{Ended, Seen};

/// The number of records with a recorded history.
const RECORDS: usize = 24;

/// The number of fields of each such record with a recorded history.
const FIELDS: u16 = 2;

/// The highest number of draws to find these records.
const DRAWS: usize = 10_000;

/// The records with a recorded history. They are popular records, because clients contend for
/// these.
#[derive(Default)]
pub(crate) struct Sample {
    records: BTreeSet<RecordNumber>,
}

impl Sample {
    /// The sample: the first records that a worker of this seed would request.
    pub(crate) fn new(workload: &CoreWorkload, seed: u64) -> Result<Sample, WorkloadError> {
        // The same workload with reads only, so that each draw names an existing record.
        let mut reads = workload.clone();
        reads.mix = latchwork_workload::ycsb::Mix {
            read: 1.0,
            update: 0.0,
            insert: 0.0,
            scan: 0.0,
            read_modify_write: 0.0,
            upsert: 0.0,
        };
        let inserts = Arc::new(InsertCounter::new(reads.first_insert()));
        let worker = WorkerIndex { index: 0, count: 1 };
        let mut records = BTreeSet::new();
        for operation in OperationStream::new(&reads, &inserts, worker, seed)?.take(DRAWS) {
            if let YcsbOperation::Read { record, .. } = operation {
                records.insert(record);
            }
            if records.len() == RECORDS {
                break;
            }
        }
        Ok(Sample { records })
    }

    fn has(&self, record: RecordNumber, field: FieldIndex) -> bool {
        field.0 < FIELDS && self.records.contains(&record)
    }
}

/// One field of one record.
type Place = (RecordNumber, FieldIndex);

/// The history of the sample, of one worker or of all.
pub(crate) type History = CallHistory<Place, MapOperation<ContentVersion>>;

impl Sample {
    /// Records the versions of an operation into a worker's history, if the operation concerns the
    /// sample.
    pub(crate) fn note(
        &self,
        history: &mut History,
        (operation, ended): (&YcsbOperation, Ended),
        (begin, end): (Time, Time),
        seen: &[Seen],
    ) {
        let record = match operation {
            YcsbOperation::Read { record, .. }
            | YcsbOperation::Update { record, .. }
            | YcsbOperation::ReadModifyWrite { record, .. }
            | YcsbOperation::Upsert { record, .. } => *record,
            YcsbOperation::Insert { .. } | YcsbOperation::Scan { .. } => return,
        };
        if !self.records.contains(&record) {
            return;
        }
        let (invoked, returned) = (begin, Some(end));
        if ended == Err(OperationFailure::NotFound) {
            for field in (0..FIELDS).map(FieldIndex) {
                let operation = MapOperation::Get { found: None };
                history.record((record, field), Call { invoked, returned, operation });
            }
        }
        for seen in seen.iter().filter(|seen| self.has(record, seen.field)) {
            let operation = match (seen.found, seen.written) {
                (found, None) => MapOperation::Get { found },
                (None, Some(value)) => MapOperation::Update { value, updated: true },
                (found, Some(written)) => MapOperation::ReadModifyWrite { found, written },
            };
            history.record((record, seen.field), Call { invoked, returned, operation });
        }
    }

    /// Checks whether one order of the accesses to each field explains the answers of all workers.
    /// `None` when too many accesses overlap for a decision. Only read-modify-writes can have this
    /// result.
    pub(crate) fn judge(history: &History) -> Option<Result<(), String>> {
        match history.check(judge_field) {
            Ok(()) => Some(Ok(())),
            Err((_, None)) => None,
            Err(((record, field), Some(violation))) => {
                Some(Err(format!("field {field} of record {record}: {violation}")))
            }
        }
    }
}

/// Adds a write that never returned for each version in the history that no call wrote: a worker
/// wrote it whose history is not known, because its node has died.
pub(crate) fn allow_unknown_writes(history: &mut History) {
    let mut unknown = Vec::new();
    for (place, calls) in history.calls() {
        let (mut found, mut written) = (BTreeSet::new(), BTreeSet::from([ContentVersion::LOADED]));
        for call in calls {
            match call.operation {
                MapOperation::Get { found: Some(version) } => _ = found.insert(version),
                MapOperation::Update { value, .. } => _ = written.insert(value),
                MapOperation::ReadModifyWrite { found: version, written: value } => {
                    found.extend(version);
                    written.insert(value);
                }
                _ => {}
            }
        }
        unknown.extend(found.difference(&written).map(|version| (*place, *version)));
    }
    for (place, value) in unknown {
        let operation = MapOperation::Update { value, updated: true };
        history.record(place, Call { invoked: Time::ZERO, returned: None, operation });
    }
}

/// Checks the accesses to one field. The error is `None` when the check cannot decide.
fn judge_field(calls: &[Call<MapOperation<ContentVersion>>]) -> Result<(), Option<String>> {
    let plain: Option<Vec<_>> = calls.iter().map(plain).collect();
    if let Some(calls) = plain {
        return check_register(ContentVersion::LOADED, &calls)
            .map_err(|error| Some(error.to_string()));
    }
    match check_object(&MapKey::new(), Some(ContentVersion::LOADED), calls) {
        Ok(()) => Ok(()),
        Err(ObjectViolation::Undecided { .. }) => Err(None),
        Err(violation) => Err(Some(violation.to_string())),
    }
}

/// The call as a call of a register, if it is a plain read or write. The check of a register always
/// decides, because no two writes of a run have the same version.
fn plain(
    call: &Call<MapOperation<ContentVersion>>,
) -> Option<Call<RegisterOperation<ContentVersion>>> {
    let operation = match call.operation {
        MapOperation::Get { found: Some(version) } => RegisterOperation::Read(version),
        MapOperation::Update { value, updated: true } => RegisterOperation::Write(value),
        _ => return None,
    };
    Some(Call { invoked: call.invoked, returned: call.returned, operation })
}

#[cfg(test)]
mod tests {
    use latchwork_workload::ycsb::{Builtin, Fields};

    use super::*;

    const FIELD: FieldIndex = FieldIndex(0);

    /// A history with its sample, and a record of the sample.
    struct Witness(Sample, History, RecordNumber);

    impl Witness {
        fn new() -> Witness {
            let sample = Sample::new(&Builtin::A.workload().unwrap(), 1).unwrap();
            let record = *sample.records.first().unwrap();
            Witness(sample, History::new(), record)
        }

        fn note(
            &mut self,
            operation: &YcsbOperation,
            ended: Ended,
            span: (Time, Time),
            seen: &[Seen],
        ) {
            self.0.note(&mut self.1, (operation, ended), span, seen);
        }

        fn judge(&self) -> Option<Result<(), String>> {
            Sample::judge(&self.1)
        }
    }

    fn witness() -> (Witness, RecordNumber) {
        let witness = Witness::new();
        let record = witness.2;
        (witness, record)
    }

    fn note(
        witness: &mut Witness,
        record: RecordNumber,
        found: u64,
        written: Option<u64>,
        at: u64,
    ) {
        let found = Some(ContentVersion::new(found));
        let written = written.map(ContentVersion::new);
        let seen = [Seen { field: FIELD, found, written }];
        let operation = YcsbOperation::Read { record, fields: Fields::All };
        let time = |at| Time::from_nanos(at);
        witness.note(&operation, Ok(()), (time(at), time(at + 5)), &seen);
    }

    #[test]
    fn the_sample_is_popular_and_of_full_size() {
        let sample = Sample::new(&Builtin::A.workload().unwrap(), 1).unwrap();
        assert_eq!(sample.records.len(), RECORDS);
    }

    #[test]
    fn a_lost_update_is_judged_wrong() {
        let (mut good, record) = witness();
        note(&mut good, record, 0, Some(1), 10);
        note(&mut good, record, 1, Some(2), 20);
        note(&mut good, record, 2, None, 30);
        assert_eq!(good.judge(), Some(Ok(())));
        assert_eq!(good.1.len(), 3);

        let (mut lost, record) = witness();
        note(&mut lost, record, 0, Some(1), 10);
        note(&mut lost, record, 0, Some(1 << 16), 20);
        assert!(matches!(lost.judge(), Some(Err(_))));
    }

    #[test]
    fn a_stale_read_among_plain_reads_and_writes_is_judged_wrong() {
        let (mut witness, record) = witness();
        let operation = YcsbOperation::Update { record, fields: Fields::One(FIELD) };
        let span = (Time::from_nanos(10), Time::from_nanos(15));
        let written = Some(ContentVersion::new(1 << 48));
        witness.note(&operation, Ok(()), span, &[Seen { field: FIELD, found: None, written }]);
        note(&mut witness, record, 1 << 48, None, 20);
        assert_eq!(witness.judge(), Some(Ok(())));
        note(&mut witness, record, 0, None, 30);
        assert!(matches!(witness.judge(), Some(Err(_))));
    }

    #[test]
    fn a_record_that_vanished_is_judged_wrong() {
        let (mut witness, record) = witness();
        let operation = YcsbOperation::Read { record, fields: Fields::All };
        let span = (Time::from_nanos(1), Time::from_nanos(2));
        witness.note(&operation, Err(OperationFailure::NotFound), span, &[]);
        assert!(matches!(witness.judge(), Some(Err(_))));
    }
}
