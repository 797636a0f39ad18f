//! The workload `ycsb`: YCSB's core workloads A to F on a shared B-link tree. The contents of each
//! field have a version, which names the write.

mod record;
mod step;

use std::cell::RefCell;
use std::ops::{Bound, ControlFlow, Range};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_blink::{Tree, TreeError, ValueMut};
use latchwork_cluster::{Member, Worker};
use latchwork_history::calls::MapOperation;
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_workload::ycsb::{
    ContentKey, ContentVersion, CoreWorkload, Fields, InsertCounter, KeyBuffer, OperationStream,
    RecordNumber, Versions, WorkerIndex, YcsbOperation,
};

use self::step::{Fielded, Step};
use super::load::{Load, Work, pass_time};
use super::record::Record;
use super::tree::{Recorder, Shared, inserted, known, tree_config};
use crate::WorldCheck;
use crate::scenario::{Scenario, SeededBug, YcsbLoad};
use crate::world::{Observer, Process};

pub(crate) use record::YcsbRecord;

/// Maximum number of waits for a line in one operation. This is an estimate.
const ACCESSES_MAX: u32 = 200;

/// The workload.
pub(crate) struct Ycsb {
    workload: CoreWorkload,
    inserts: Arc<InsertCounter>,
    operations: u64,
    plant: Option<SeededBug>,
    seed: u64,
    workers: u64,
    observer: Rc<Observer>,
    shared: Shared<Tree<Worker>>,
    recorder: Recorder<Step>,
    /// The keys of the loaded records, sorted.
    loaded: Vec<Vec<u8>>,
}

impl Ycsb {
    pub(crate) fn new(
        scenario: &Scenario,
        load: &YcsbLoad,
        observer: &Rc<Observer>,
    ) -> Result<Ycsb, String> {
        let workload = load.workload()?;
        let mut buffer = KeyBuffer::new();
        let key = |number| workload.keys.write(RecordNumber(number), &mut buffer).to_vec();
        let mut loaded: Vec<Vec<u8>> = workload.records.clone().map(key).collect();
        loaded.sort_unstable();
        loaded.dedup();
        strict_assert!(loaded.is_sorted_by(|one, next| one < next), "records out of order");
        Ok(Ycsb {
            inserts: Arc::new(InsertCounter::new(workload.first_insert())),
            operations: scenario.operations,
            plant: scenario.plant,
            seed: scenario.seed,
            workers: (scenario.compute_nodes * scenario.workers * scenario.tasks) as u64,
            observer: observer.clone(),
            shared: Shared::new(
                ("the table", ACCESSES_MAX),
                tree_config(load.entries_per_page),
                observer,
            ),
            recorder: Recorder::new(observer),
            loaded,
            workload,
        })
    }

    async fn make(&self, member: &Member) -> Result<(), TreeError> {
        let tree = self.shared.create(member).await?;
        let invoked = self.observer.time(&member.handle);
        let encode = |key: &Vec<u8>| {
            let mut bytes = Vec::new();
            self.workload.layout.encode(ContentKey::new(key), ContentVersion::LOADED, &mut bytes);
            bytes
        };
        let entries = self.loaded.iter().map(|key| (key, encode(key)));
        tree.bulk_load(entries, 0.8).await?;
        let value =
            vec![ContentVersion::LOADED.number(); usize::from(self.workload.layout.fields())];
        for key in &self.loaded {
            let step = Step::Whole(MapOperation::Insert { value: value.clone(), inserted: true });
            let returned = Some(self.observer.time(&member.handle));
            self.recorder.add(ContentKey::new(key).number(), invoked, returned, step);
        }
        Ok(())
    }
}

impl Load for Ycsb {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move { self.make(&member).await.map_err(|error| error.to_string()) })
    }

    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move { self.shared.publish(&member).await })
    }

    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move { self.shared.find(&member).await })
    }

    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let Some(tree) = self.shared.enter(&member, process).await else { return };
            let index = u64::from(process.number) - 1;
            strict_assert!(index < self.workers, "a worker that the workload does not know");
            let worker = WorkerIndex { index, count: self.workers };
            let stream = OperationStream::new(&self.workload, &self.inserts, worker, self.seed);
            let mut stream = match stream {
                Ok(stream) => stream,
                Err(error) => return self.observer.fail(WorldCheck::Scenario, error.to_string()),
            };
            let versions = RefCell::new(Versions::of_worker(index as u16));
            let client = Client { load: &self, member: &member, process, tree, versions };
            for _ in 0..self.operations {
                client.operation(stream.draw()).await;
                pass_time(&member).await;
            }
        })
    }

    fn finish(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            self.shared.leave(&member, process).await;
        })
    }

    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let Some(tree) = self.shared.enter_alone(&member, process).await else { return };
            let versions = RefCell::new(Versions::of_worker(0));
            let client = Client { load: &self, member: &member, process, tree, versions };
            let scan = Box::pin(client.scan(RecordNumber(0), None));
            client.observed("scan", "all".to_owned(), scan).await;
            self.shared.validate(process, &client.tree, async { Ok(()) }).await;
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        self.shared.pages()
    }

    fn take(&self) -> Record {
        let (calls, statistics) = (self.recorder.take(), self.shared.take());
        Record::Ycsb(YcsbRecord { calls, statistics })
    }
}

/// One task.
struct Client<'a> {
    load: &'a Ycsb,
    member: &'a Member,
    process: Process,
    tree: Tree<Worker>,
    versions: RefCell<Versions>,
}

impl Client<'_> {
    fn now(&self) -> Time {
        self.load.observer.time(&self.member.handle)
    }

    fn key(&self, record: RecordNumber) -> Vec<u8> {
        self.load.workload.keys.write(record, &mut KeyBuffer::new()).to_vec()
    }

    async fn operation(&self, operation: YcsbOperation) {
        let about = |record: RecordNumber| format!("record {}", record.0);
        match operation {
            YcsbOperation::Read { record, .. } => {
                self.observed("read", about(record), Box::pin(self.read(record))).await
            }
            YcsbOperation::Update { record, fields } => {
                let update = Box::pin(self.update(record, fields));
                self.observed("update", about(record), update).await
            }
            YcsbOperation::Insert { record } => {
                let ended = self.observed("insert", about(record), Box::pin(self.insert(record)));
                let ended = ended.await;
                self.load.inserts.acknowledge(record);
                ended
            }
            YcsbOperation::Scan { first, records, .. } => {
                let scan = Box::pin(self.scan(first, Some(records as usize)));
                self.observed("scan from", about(first), scan).await
            }
            YcsbOperation::ReadModifyWrite { record, write, .. } => {
                let change = Box::pin(self.change(record, write));
                self.observed("read and write", about(record), change).await
            }
        };
    }

    async fn observed(
        &self,
        what: &'static str,
        on: String,
        work: Pin<Box<impl Future<Output = Result<(), TreeError>>>>,
    ) -> Option<()> {
        self.load.observer.operation(self.process, (what, on, ACCESSES_MAX), work).await
    }

    /// The versions of the fields of a record. A field with bytes of several writes is a failure.
    fn whole(&self, key: &[u8], bytes: &[u8]) -> Fielded {
        let mut versions = Fielded::new();
        let layout = &self.load.workload.layout;
        let note = |_, version: ContentVersion| versions.push(version.number());
        if let Err(bad) = layout.verify(ContentKey::new(key), bytes, note) {
            let text = format!("{}: {}: {bad}", self.process, String::from_utf8_lossy(key));
            self.load.observer.fail(WorldCheck::Values, text);
            versions.resize(usize::from(layout.fields()), 0);
        }
        versions
    }

    fn each(&self, fields: Fields) -> Range<u16> {
        match fields {
            Fields::All => 0..self.load.workload.layout.fields(),
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
        let layout = &self.load.workload.layout;
        let field = |field| {
            let field = latchwork_workload::ycsb::FieldIndex(field);
            // All fields have the same length in this workload, so each has a fixed position.
            let place = layout.place(field).unwrap_or_default();
            let mut bytes = vec![0; place.len()];
            layout.fill_field(ContentKey::new(key), field, version, &mut bytes);
            (place.start, bytes)
        };
        fields.clone().map(field).collect()
    }

    async fn call<T>(
        &self,
        key: &[u8],
        call: impl Future<Output = Result<T, TreeError>>,
        told: impl Fn(Option<Result<T, TreeError>>) -> Result<Step, TreeError>,
    ) -> Result<(), TreeError> {
        let about = (ContentKey::new(key).number(), None);
        self.load.recorder.call(&self.member.handle, about, call, told).await
    }

    async fn read(&self, record: RecordNumber) -> Result<(), TreeError> {
        let key = self.key(record);
        let get = async { Ok(self.tree.get(&key).await?.map(|bytes| self.whole(&key, &bytes))) };
        let told = |found: Option<Result<_, TreeError>>| {
            Ok(Step::Whole(MapOperation::Get { found: found.transpose()?.flatten() }))
        };
        self.call(&key, get, told).await
    }

    async fn insert(&self, record: RecordNumber) -> Result<(), TreeError> {
        let key = self.key(record);
        let (layout, mut bytes) = (&self.load.workload.layout, Vec::new());
        layout.encode(ContentKey::new(&key), ContentVersion::LOADED, &mut bytes);
        let value = vec![ContentVersion::LOADED.number(); usize::from(layout.fields())];
        let told = |answer: Option<Result<(), TreeError>>| {
            let (value, inserted) = (value.clone(), inserted(answer)?);
            Ok(Step::Whole(MapOperation::Insert { value, inserted }))
        };
        self.call(&key, self.tree.insert(&key, &bytes), told).await
    }

    async fn update(&self, record: RecordNumber, fields: Fields) -> Result<(), TreeError> {
        let (key, fields) = (self.key(record), self.each(fields));
        let version = self.versions.borrow_mut().take();
        let contents = self.contents(&key, &fields, version);
        let forgets = self.load.plant == Some(SeededBug::Forgets);
        let update = async {
            // One field can be updated in place. Several fields must be changed in one atomic step.
            if let ([(start, bytes)], false) = (&contents[..], forgets) {
                return self.tree.update_range(&key, *start, bytes).await;
            }
            let write = |value: &mut ValueMut<'_>| {
                let contents = contents.iter().filter(|_| !forgets);
                contents.for_each(|(start, bytes)| value.write(*start, bytes));
            };
            self.tree.modify(&key, write).await
        };
        let told = |answer| {
            let found = known(answer)?.is_some();
            Ok(Step::Set { fields: fields.clone(), version: version.number(), found })
        };
        self.call(&key, update, told).await
    }

    async fn change(&self, record: RecordNumber, fields: Fields) -> Result<(), TreeError> {
        let (key, fields) = (self.key(record), self.each(fields));
        let version = self.versions.borrow_mut().take();
        let contents = self.contents(&key, &fields, version);
        let change = async {
            let change = |value: &mut ValueMut<'_>| {
                let found = self.whole(&key, &value.to_vec());
                contents.iter().for_each(|(start, bytes)| value.write(*start, bytes));
                found
            };
            self.tree.modify(&key, change).await
        };
        let told = |answer| {
            let found = known(answer)?;
            Ok(Step::Change { fields: fields.clone(), version: version.number(), found })
        };
        self.call(&key, change, told).await
    }

    /// Reads up to `most` records from `first` on, or all records. Each loaded record in the
    /// scanned range that was not found is recorded as a read that found nothing.
    async fn scan(&self, first: RecordNumber, most: Option<usize>) -> Result<(), TreeError> {
        let (key, invoked) = (self.key(first), self.now());
        let from = if most.is_some() { Bound::Included(&key[..]) } else { Bound::Unbounded };
        let mut seen: Vec<(Vec<u8>, Fielded)> = Vec::new();
        let visit = |key: &[u8], bytes: &[u8]| {
            seen.push((key.to_vec(), self.whole(key, bytes)));
            ControlFlow::Continue(())
        };
        self.tree.scan_up(from, most.unwrap_or(usize::MAX), visit).await?;
        if !seen.is_sorted_by(|a, b| a.0 < b.0) {
            let text = format!("{}: a scan does not ascend", self.process);
            self.load.observer.fail(WorldCheck::Tree, text);
        }
        let end = seen.last().filter(|_| most == Some(seen.len())).map(|(key, _)| key.clone());
        let loaded = self.load.loaded.iter();
        let missed = loaded.filter(|key| most.is_none() || **key >= self.key(first));
        let missed = missed.filter(|key| end.as_ref().is_none_or(|end| *key <= end));
        let missed = missed.filter(|key| !seen.iter().any(|(other, _)| other == *key));
        let all = seen.iter().map(|(key, found)| (key, Some(found.clone())));
        for (key, found) in all.chain(missed.map(|key| (key, None))) {
            let step = Step::Whole(MapOperation::Get { found });
            let id = ContentKey::new(key).number();
            self.load.recorder.add(id, invoked, Some(self.now()), step);
        }
        Ok(())
    }
}
