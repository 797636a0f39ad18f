//! Loading: all workers insert their shares of the records, or one worker loads all in bulk.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::driver::tasks;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_index::{ErrorKind, IndexError};
use latchwork_report::histogram::{Latencies, OperationFailure};
use latchwork_runtime::{Handle, Time};
use latchwork_workload::ycsb::{
    ContentKey, ContentVersion, KeyBuffer, OperationKind, RecordNumber,
};
use serde::{Deserialize, Serialize};

use crate::index::TableIndex;
use crate::settings::{BULK_FILL, Settings};
use crate::status::Status;
use crate::store::{Buffers, Store};

/// The results of one worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) latencies: Latencies<OperationKind>,
    /// Records that the worker loaded.
    pub(crate) records: u64,
    /// The sum of their keys' hashes.
    pub(crate) digest: u64,
    /// The end of its loading.
    pub(crate) end: Time,
}

/// One worker's part of the loading: its share of the records, several at the same time.
struct Loader<I: TableIndex> {
    settings: Arc<Settings>,
    phase: Arc<PhaseProgress>,
    /// The status lines, if any.
    status: Option<Arc<Status>>,
    begin: Time,
    store: Store<I>,
    handle: Handle,
    next: Cell<u64>,
    end: u64,
    loaded: RefCell<Loaded>,
    worker: usize,
}

/// Loads all records in the order of their keys, on the first worker. Other workers load nothing.
pub(crate) async fn bulk<I: TableIndex>(
    settings: Arc<Settings>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Result<Loaded, AppError> {
    let handle = member.handle.clone();
    let mut loaded = Loaded::new(handle.now());
    if member.index > 0 {
        return Ok(loaded);
    }
    let index = I::open(&settings, &member).await?;
    let workload = &settings.workload;
    let mut buffer = KeyBuffer::new();
    let key = |number| Box::from(workload.keys.write(RecordNumber(number), &mut buffer));
    let mut keys: Vec<Box<[u8]>> = workload.records.clone().map(key).collect();
    keys.sort_unstable();
    // Two record numbers with the same hash have the same key, so they are one record.
    keys.dedup();
    let entries = keys.iter().take_while(|_| !phase.stopped()).map(|key| {
        let content = ContentKey::new(key);
        let mut record = Vec::new();
        workload.layout.encode(content, ContentVersion::LOADED, &mut record);
        loaded.digest = loaded.digest.wrapping_add(content.number());
        phase.count(0);
        (key, record)
    });
    let records = index.bulk_load(entries, BULK_FILL).await;
    loaded.records = records.map_err(|error| settings.load_error(&error, &phase))?;
    loaded.end = handle.now();
    Ok(loaded)
}

/// Loads one worker's share by inserts.
pub(crate) async fn inserts<I: TableIndex>(
    settings: Arc<Settings>,
    phase: Arc<PhaseProgress>,
    status: Option<Arc<Status>>,
    member: Member,
) -> Result<Loaded, AppError> {
    let store = Store::new(I::open(&settings, &member).await?, &settings.workload);
    let handle = member.handle.clone();
    let workers = settings.common.workers() as u64;
    let share = settings.workload.load_share(member.index as u64, workers);
    let inflight = settings.common.cluster.inflight;
    if let Some(status) = &status {
        status.accompany(&phase);
    }
    let begin = handle.now();
    let loader = Rc::new(Loader {
        settings,
        phase,
        status,
        begin,
        store,
        handle: handle.clone(),
        next: Cell::new(share.start),
        end: share.end,
        loaded: RefCell::new(Loaded::new(begin)),
        worker: member.index,
    });
    let loader = tasks(&handle, loader, 0..inflight, |loader, _| loader.work()).await?;
    Ok(Loaded { end: handle.now(), ..loader.loaded.into_inner() })
}

impl Loaded {
    fn new(now: Time) -> Loaded {
        Loaded { latencies: Latencies::new(), records: 0, digest: 0, end: now }
    }
}

impl<I: TableIndex> Loader<I> {
    async fn work(self: Rc<Self>) {
        let mut buffers = Buffers::new();
        let mut begin = self.handle.now();
        while self.next.get() < self.end && !self.phase.stopped() {
            let record = RecordNumber(self.next.get());
            self.next.set(record.0 + 1);
            let inserted = self.store.insert(record, &mut buffers).await;
            let end = self.handle.now();
            if let Err(error) = self.note(record, inserted, (begin, end), &mut buffers) {
                return self.phase.fail(error);
            }
            self.phase.count(self.worker);
            if self.settings.common.is_simulated() {
                self.phase.reach(end);
            }
            begin = end;
        }
    }

    fn note(
        &self,
        record: RecordNumber,
        inserted: Result<(), I::Error>,
        (begin, end): (Time, Time),
        buffers: &mut Buffers,
    ) -> Result<(), AppError> {
        let mut loaded = self.loaded.borrow_mut();
        let is_new = match inserted {
            Ok(()) => {
                let content = self.store.content_key(record, buffers);
                loaded.records += 1;
                loaded.digest = loaded.digest.wrapping_add(content.number());
                true
            }
            // Another record number has the same hash, and so the same key.
            Err(error) if error.kind() == ErrorKind::Exists => false,
            Err(error) => return Err(self.settings.load_error(&error, &self.phase)),
        };
        let note = |latencies: &mut Latencies<OperationKind>| match is_new {
            true => latencies.record(OperationKind::Insert, end - begin, None),
            false => latencies.record_failure(OperationKind::Insert, OperationFailure::Error),
        };
        note(&mut loaded.latencies);
        if let Some(status) = &self.status {
            status.note(self.worker, || self.begin, end, note);
        }
        Ok(())
    }
}
