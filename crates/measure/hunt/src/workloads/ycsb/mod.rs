//! The workload `ycsb`: YCSB's core workloads A to F, and those of Sherman's evaluation, on an
//! ordered index. The contents of each field have a version, which names the write.

mod step;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

use latchwork_history::calls::MapOperation;
use latchwork_index::{ValueEdit, ValueView};
use latchwork_strict::strict_assert;
use latchwork_workload::ycsb::{
    ContentKey, ContentVersion, CoreWorkload, FieldIndex, Fields, InsertCounter, KeyBuffer,
    OperationStream, RecordNumber, Versions, WorkerIndex, YcsbOperation,
};

use self::step::{Fielded, OneRecord, Step};
use super::client::Client;
use super::indexes::{IndexLoad, Indexed, MapError, Polls, SharedMap};
use super::tree::{inserted, known};
use crate::WorldCheck;
use crate::scenario::{SeededBug, TreeLoad, YcsbLoad};

/// Maximum number of waits for a line in one operation. This is an estimate.
const ACCESSES_MAX: u32 = 200;

/// The workload.
pub(super) struct Ycsb<T> {
    load: YcsbLoad,
    workload: CoreWorkload,
    inserts: Arc<InsertCounter>,
    /// The keys of the loaded records, sorted.
    loaded: Vec<Vec<u8>>,
    index: PhantomData<T>,
}

/// What a task knows.
pub(super) struct Task {
    stream: RefCell<OperationStream>,
    versions: RefCell<Versions>,
}

impl<T: SharedMap> Ycsb<T> {
    pub(super) fn new(load: &YcsbLoad) -> Result<Indexed<Ycsb<T>>, String> {
        let workload = load.workload()?;
        let mut buffer = KeyBuffer::new();
        let key = |number| workload.keys.write(RecordNumber(number), &mut buffer).to_vec();
        let mut loaded: Vec<Vec<u8>> = workload.records.clone().map(key).collect();
        loaded.sort_unstable();
        loaded.dedup();
        strict_assert!(loaded.is_sorted_by(|one, next| one < next), "records out of order");
        let inserts = Arc::new(InsertCounter::new(workload.first_insert()));
        Ok(Indexed::new(Ycsb { load: load.clone(), workload, inserts, loaded, index: PhantomData }))
    }

    /// A record as it is loaded: its bytes, and the versions of its fields.
    fn first(&self, key: &[u8]) -> (Vec<u8>, Fielded) {
        let (layout, mut bytes) = (&self.workload.layout, Vec::new());
        layout.encode(ContentKey::new(key), ContentVersion::LOADED, &mut bytes);
        (bytes, vec![ContentVersion::LOADED.number(); usize::from(layout.fields())])
    }
}

impl<T: SharedMap> IndexLoad for Ycsb<T> {
    const NAME: &'static str = "the table";
    const WALK_MAX: u32 = ACCESSES_MAX;
    type Index = T;
    type Model = OneRecord;
    type Value = Fielded;
    type Task = Task;
    type Operation = YcsbOperation;
    type Entry = ();

    fn config(client: &Client<Indexed<Self>>) -> T::Config {
        let entries_per_page = client.load().load.entries_per_page;
        let load = TreeLoad { entries_per_page, ..TreeLoad::default() };
        T::config(&load, &client.shared.scenario, &T::Common::default())
    }

    async fn fill(client: &Client<Indexed<Self>>, tree: &T) -> Result<(), MapError<T>> {
        let (load, invoked) = (client.load(), client.now());
        let entries = load.loaded.iter().map(|key| (key, load.first(key).0));
        tree.bulk_load(entries, 0.8).await?;
        for key in &load.loaded {
            let (_, value) = load.first(key);
            let step = Step::Whole(MapOperation::Insert { value, inserted: true });
            client.add_now(ContentKey::new(key).number(), invoked, step);
        }
        Ok(())
    }

    fn begin(client: &Client<Indexed<Self>>) -> Result<Task, String> {
        let (load, scenario) = (client.load(), &client.shared.scenario);
        let index = u64::from(client.process.number) - 1;
        let count = scenario.tasks_in_all() as u64;
        strict_assert!(index < count, "a worker that the workload does not know");
        let worker = WorkerIndex { index, count };
        let stream = OperationStream::new(&load.workload, &load.inserts, worker, scenario.seed);
        let stream = RefCell::new(stream.map_err(|error| error.to_string())?);
        Ok(Task { stream, versions: RefCell::new(Versions::of_worker(index as u16)) })
    }

    fn draw(client: &Client<Indexed<Self>>) -> YcsbOperation {
        client.own().stream.borrow_mut().draw()
    }

    async fn apply(client: &Client<Indexed<Self>>, operation: YcsbOperation) {
        let claimed = operation.claimed();
        match operation {
            YcsbOperation::Read { record, .. } => {
                client.at("read", record, client.read(record)).await;
            }
            YcsbOperation::Update { record, fields } => {
                client.at("update", record, client.update(record, fields)).await;
            }
            YcsbOperation::Insert { record } => {
                client.at("insert", record, client.insert(record)).await;
            }
            YcsbOperation::Scan { first, records, .. } => {
                let scan = client.scan(first, Some(records as usize));
                client.at("scan from", first, scan).await;
            }
            YcsbOperation::ReadModifyWrite { record, write, .. } => {
                client.at("read and write", record, client.change(record, write)).await;
            }
            YcsbOperation::Upsert { record, .. } => {
                client.at("upsert", record, client.upsert(record)).await;
            }
        }
        if let Some(record) = claimed {
            client.load().inserts.acknowledge(record);
        }
    }

    async fn look(client: &Client<Indexed<Self>>) {
        let scan = client.scan(RecordNumber(0), None);
        client.observed("scan", "all", ACCESSES_MAX, scan).await;
    }

    fn model() -> OneRecord {
        OneRecord
    }
}

impl<T: SharedMap> Client<Indexed<Ycsb<T>>> {
    fn key(&self, record: RecordNumber) -> Vec<u8> {
        self.load().workload.keys.write(record, &mut KeyBuffer::new()).to_vec()
    }

    async fn at(
        &self,
        what: &'static str,
        record: RecordNumber,
        work: impl Future<Output = Result<(), MapError<T>>>,
    ) {
        self.observed(what, format!("record {}", record.0), ACCESSES_MAX, work).await;
    }

    /// The versions of the fields of a record. A field with bytes of several writes is a failure.
    fn whole(&self, key: &[u8], bytes: &[u8]) -> Fielded {
        let mut versions = Fielded::new();
        let layout = &self.load().workload.layout;
        let note = |_, version: ContentVersion| versions.push(version.number());
        if let Err(bad) = layout.verify(ContentKey::new(key), bytes, note) {
            let text = format!("{}: {bad}", String::from_utf8_lossy(key));
            self.wrong(WorldCheck::Values, text);
            versions.resize(usize::from(layout.fields()), 0);
        }
        versions
    }

    fn each(&self, fields: Fields) -> Range<u16> {
        match fields {
            Fields::All => 0..self.load().workload.layout.fields(),
            Fields::One(field) => field.0..field.0 + 1,
        }
    }

    /// For each field, its position in the record and its new contents.
    fn contents(
        &self,
        key: &[u8],
        fields: &Range<u16>,
        version: ContentVersion,
    ) -> Vec<(usize, Vec<u8>)> {
        let layout = &self.load().workload.layout;
        let field = |field| {
            let field = FieldIndex(field);
            // All fields have the same length in this workload, so each has a fixed position.
            let place = layout.place(field).unwrap_or_default();
            let mut bytes = vec![0; place.len()];
            layout.fill_field(ContentKey::new(key), field, version, &mut bytes);
            (place.start, bytes)
        };
        fields.clone().map(field).collect()
    }

    async fn read(&self, record: RecordNumber) -> Result<(), MapError<T>> {
        let key = self.key(record);
        let get = async { Ok(self.index().get(&key).await?.map(|bytes| self.whole(&key, &bytes))) };
        let told = |found: Option<Result<_, MapError<T>>>| {
            Ok(Step::Whole(MapOperation::Get { found: found.transpose()?.flatten() }))
        };
        self.call(call_of(&key), get, told).await
    }

    async fn insert(&self, record: RecordNumber) -> Result<(), MapError<T>> {
        let key = self.key(record);
        let (bytes, value) = self.load().first(&key);
        let told = |answer: Option<Result<(), MapError<T>>>| {
            let (value, inserted) = (value.clone(), inserted(answer)?);
            Ok(Step::Whole(MapOperation::Insert { value, inserted }))
        };
        self.call(call_of(&key), self.index().insert(&key, &bytes), told).await
    }

    async fn upsert(&self, record: RecordNumber) -> Result<(), MapError<T>> {
        let (key, mut bytes) = (self.key(record), Vec::new());
        let (layout, version) =
            (&self.load().workload.layout, self.own().versions.borrow_mut().take());
        layout.encode(ContentKey::new(&key), version, &mut bytes);
        let value: Fielded = vec![version.number(); usize::from(layout.fields())];
        let told = |answer: Option<Result<bool, MapError<T>>>| {
            let value = value.clone();
            Ok(Step::Whole(match answer.transpose()? {
                None => MapOperation::Upsert { value },
                Some(true) => MapOperation::Insert { value, inserted: true },
                Some(false) => MapOperation::Update { value, updated: true },
            }))
        };
        self.call(call_of(&key), self.index().upsert(&key, &bytes), told).await
    }

    async fn update(&self, record: RecordNumber, fields: Fields) -> Result<(), MapError<T>> {
        let (key, fields) = (self.key(record), self.each(fields));
        let version = self.own().versions.borrow_mut().take();
        let contents = self.contents(&key, &fields, version);
        let forgets = self.has_bug(SeededBug::Forgets);
        let update = async {
            // One field can be updated in place. Several fields must be changed in one atomic step.
            if let ([(start, bytes)], false) = (&contents[..], forgets) {
                return self.index().update_range(&key, *start, bytes).await;
            }
            let write = |value: &mut T::ValueMut<'_>| {
                let contents = contents.iter().filter(|_| !forgets);
                contents.for_each(|(start, bytes)| value.write(*start, bytes));
            };
            self.index().modify(&key, write).await
        };
        let told = |answer| {
            let found = known(answer)?.is_some();
            Ok(Step::Set { fields: fields.clone(), version: version.number(), found })
        };
        self.call(call_of(&key), update, told).await
    }

    async fn change(&self, record: RecordNumber, fields: Fields) -> Result<(), MapError<T>> {
        let (key, fields) = (self.key(record), self.each(fields));
        let version = self.own().versions.borrow_mut().take();
        let contents = self.contents(&key, &fields, version);
        let change = async {
            let change = |value: &mut T::ValueMut<'_>| {
                let found = self.whole(&key, &value.to_vec());
                contents.iter().for_each(|(start, bytes)| value.write(*start, bytes));
                found
            };
            self.index().modify(&key, change).await
        };
        let told = |answer| {
            let found = known(answer)?;
            Ok(Step::Change { fields: fields.clone(), version: version.number(), found })
        };
        self.call(call_of(&key), change, told).await
    }

    /// Reads up to `most` records from `first` on, or all records. Each loaded record in the
    /// scanned range that was not found is recorded as a read that found nothing.
    async fn scan(&self, first: RecordNumber, most: Option<usize>) -> Result<(), MapError<T>> {
        let (key, invoked) = (self.key(first), self.now());
        let from = if most.is_some() { Bound::Included(&key[..]) } else { Bound::Unbounded };
        let mut seen: Vec<(Vec<u8>, Fielded)> = Vec::new();
        let visit = |key: &[u8], bytes: &[u8]| {
            seen.push((key.to_vec(), self.whole(key, bytes)));
            ControlFlow::Continue(())
        };
        self.index().scan_up(from, most.unwrap_or(usize::MAX), visit).await?;
        if !seen.is_sorted_by(|a, b| a.0 < b.0) {
            self.wrong(WorldCheck::Tree, "a scan does not ascend");
        }
        let end = seen.last().filter(|_| most == Some(seen.len())).map(|(key, _)| key.clone());
        let loaded = self.load().loaded.iter();
        let missed = loaded.filter(|key| most.is_none() || **key >= self.key(first));
        let missed = missed.filter(|key| end.as_ref().is_none_or(|end| *key <= end));
        let missed = missed.filter(|key| !seen.iter().any(|(other, _)| other == *key));
        let all = seen.iter().map(|(key, found)| (key, Some(found.clone())));
        for (key, found) in all.chain(missed.map(|key| (key, None))) {
            let step = Step::Whole(MapOperation::Get { found });
            self.add_now(ContentKey::new(key).number(), invoked, step);
        }
        Ok(())
    }
}

/// The key in the record of a call that is not dropped.
fn call_of(key: &[u8]) -> (u64, Polls) {
    (ContentKey::new(key).number(), None)
}
