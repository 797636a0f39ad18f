//! Loading: all workers insert their shares of the records, or one worker loads all in bulk.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_blink::{Tree, TreeConfig, TreeError};
use latchwork_cluster::{Member, Worker};
use latchwork_coherence::{CoherentMemory as _, MemoryError};
use latchwork_harness::AppError;
use latchwork_harness::{PhaseProgress, stop};
use latchwork_memnode::{ObjectKind, PoolError};
use latchwork_report::histogram::{Latencies, OperationFailure};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::ycsb::{
    ContentKey, ContentVersion, KeyBuffer, OperationKind, RecordNumber,
};
use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::store::{Buffers, Store};

/// The kind of object of a tree in the catalogue.
const TREE: ObjectKind = ObjectKind::TREE;

/// The longest time that workers wait for the worker that makes the tree.
const TREE_WAIT: Duration = Duration::from_secs(30);
/// The time of one attempt to find the tree.
const TREE_LOOK: Duration = Duration::from_millis(100);

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

/// Opens the table on a worker. The first worker makes the table.
pub(crate) async fn open(session: &Session, member: &Member) -> Result<Store<Worker>, AppError> {
    let (memory, handle) = (&member.memory, &member.handle);
    let table = session.table.as_str();
    let port = memory.port();
    let failed = |error: &dyn std::fmt::Display| {
        AppError::Failed(format!("table {table} cannot be opened: {error}"))
    };
    let known = member.catalogue.lookup(port, table).await.map_err(|error| failed(&error))?;
    let tree = if member.index == 0 && known.is_none() {
        let tree = Tree::create(memory.clone(), TreeConfig::default()).await;
        let tree = tree.map_err(|error| session.tree_error(&error))?;
        let named = member.catalogue.register(port, table, TREE, tree.root().bits()).await;
        named.map_err(|error| failed(&error))?;
        tree
    } else {
        let deadline = handle.now() + TREE_WAIT;
        let entry = loop {
            let look = deadline.min(handle.now() + TREE_LOOK);
            match member.catalogue.wait_for(port, handle, table, look).await {
                // The worker that makes the tree may have failed, so the wait also ends with the
                // run.
                Err(PoolError::NotFound { .. }) if look < deadline && !stop::is_aborted() => {}
                entry => break entry,
            }
        };
        let root = GlobalAddr::from_bits(entry.map_err(|error| failed(&error))?.value);
        let tree = Tree::open(memory.clone(), root, TreeConfig::default()).await;
        tree.map_err(|error| session.tree_error(&error))?
    };
    Ok(Store::new(tree, &session.workload))
}

/// One worker's part of the loading: its share of the records, several at the same time.
struct Loader {
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    store: Store<Worker>,
    next: Cell<u64>,
    end: u64,
    loaded: RefCell<Loaded>,
    worker: usize,
}

/// The fill of pages after bulk loading. A tenth stays free for inserts and for growing fields.
const BULK_FILL: f64 = 0.9;

/// Loads all records in the order of their keys, on the first worker. Other workers load nothing.
/// `None` if the phase failed.
pub(crate) async fn bulk(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Option<Loaded> {
    let handle = member.handle.clone();
    let mut loaded =
        Loaded { latencies: Latencies::new(), records: 0, digest: 0, end: handle.now() };
    if member.index > 0 {
        return Some(loaded);
    }
    let store = match open(&session, &member).await {
        Ok(store) => store,
        Err(error) => {
            phase.fail(error);
            return None;
        }
    };
    let workload = &session.workload;
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
    match store.tree().bulk_load(entries, BULK_FILL).await {
        Ok(records) => loaded.records = records,
        Err(TreeError::Memory(MemoryError::OutOfMemory(_))) => {
            phase.fail(session.out_of_memory(&format!("after loading {} records", phase.done())));
            return None;
        }
        Err(error) => {
            phase.fail(session.tree_error(&error));
            return None;
        }
    }
    loaded.end = handle.now();
    Some(loaded)
}

/// Loads one worker's share by inserts. `None` if the phase failed.
pub(crate) async fn inserts(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Option<Loaded> {
    let store = match open(&session, &member).await {
        Ok(store) => store,
        Err(error) => {
            phase.fail(error);
            return None;
        }
    };
    let handle = member.handle.clone();
    let share = session.workload.load_share(member.index as u64, session.workers() as u64);
    let loaded = Loaded { latencies: Latencies::new(), records: 0, digest: 0, end: handle.now() };
    let inflight = session.settings.cluster.inflight;
    let loader = Rc::new(Loader {
        session,
        phase,
        store,
        next: Cell::new(share.start),
        end: share.end,
        loaded: RefCell::new(loaded),
        worker: member.index,
    });
    let tasks: Vec<_> = (0..inflight).map(|_| handle.spawn(loader.clone().work())).collect();
    for task in tasks {
        task.await.ok()?;
    }
    let mut loaded = Rc::into_inner(loader)?.loaded.into_inner();
    loaded.end = handle.now();
    Some(loaded)
}

impl Loader {
    async fn work(self: Rc<Self>) {
        let handle = self.store.tree().memory().handle().clone();
        let mut buffers = Buffers::new();
        let mut begin = handle.now();
        while self.next.get() < self.end && !self.phase.stopped() {
            let record = RecordNumber(self.next.get());
            self.next.set(record.0 + 1);
            let inserted = self.store.insert(record, &mut buffers).await;
            let end = handle.now();
            if let Err(error) = self.note(record, inserted, end - begin, &mut buffers) {
                return self.phase.fail(error);
            }
            self.phase.count(self.worker);
            begin = end;
        }
    }

    fn note(
        &self,
        record: RecordNumber,
        inserted: Result<(), TreeError>,
        latency: Duration,
        buffers: &mut Buffers,
    ) -> Result<(), AppError> {
        let mut loaded = self.loaded.borrow_mut();
        match inserted {
            Ok(()) => {
                let content = self.store.content_key(record, buffers);
                loaded.records += 1;
                loaded.digest = loaded.digest.wrapping_add(content.number());
                loaded.latencies.record(OperationKind::Insert, latency, None);
            }
            // Another record number has the same hash, and so the same key.
            Err(TreeError::Exists) => {
                loaded.latencies.record_failure(OperationKind::Insert, OperationFailure::Error);
            }
            Err(TreeError::Memory(MemoryError::OutOfMemory(_))) => {
                let when = format!("after loading {} records", self.phase.done());
                return Err(self.session.out_of_memory(&when));
            }
            Err(error) => return Err(self.session.tree_error(&error)),
        }
        Ok(())
    }
}
