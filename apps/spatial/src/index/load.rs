//! Loading: all workers insert their shares of the entries, or one worker loads all in bulk.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory as _;
use latchwork_harness::driver::tasks;
use latchwork_harness::{AppError, LoopTime, PhaseProgress};
use latchwork_rtree::{NewEntry, Packing};
use latchwork_runtime::Time;

use super::{Index, open};
use crate::digest;
use crate::geometry::Area;
use crate::settings::Settings;

/// What workers load into a tree.
pub(crate) struct Load {
    pub(crate) settings: Arc<Settings>,
    /// The name of the tree.
    pub(crate) name: String,
    /// The ids and boxes of the entries.
    pub(crate) entries: Vec<(u64, Area)>,
}

/// A worker that inserts. Its tasks take its entries in turn.
struct Inserter {
    load: Arc<Load>,
    phase: Arc<PhaseProgress>,
    index: Index,
    worker: usize,
    next: Cell<usize>,
    time: LoopTime,
}

/// Loads all entries on the first worker. Returns the end of the loading.
pub(crate) async fn bulk(
    load: Arc<Load>,
    phase: Arc<PhaseProgress>,
    packing: Packing,
    member: Member,
) -> Result<Time, AppError> {
    let index = open(&load.settings, &member, &load.name).await?;
    if member.index > 0 {
        return Ok(member.handle.now());
    }
    let entry = |(id, rect): &(u64, Area)| {
        phase.count(0);
        NewEntry { rect: *rect, id: *id, payload: digest::payload(*id, rect).to_vec() }
    };
    let entries = load.entries.iter().take_while(|_| !phase.stopped()).map(entry).collect();
    let loaded = index.bulk_load_by(entries, packing).await;
    loaded.map_err(|error| load.settings.tree_error(&error))?;
    Ok(member.handle.now())
}

/// Inserts one worker's share of the entries, several at a time. Returns the end of the loading.
pub(crate) async fn inserts(
    load: Arc<Load>,
    phase: Arc<PhaseProgress>,
    time: LoopTime,
    member: Member,
) -> Result<Time, AppError> {
    let index = open(&load.settings, &member, &load.name).await?;
    let handle = &member.handle;
    let (worker, next) = (member.index, Cell::new(member.index));
    let inserter = Inserter { load, phase, index, worker, next, time };
    let inflight = inserter.load.settings.common.cluster.inflight;
    let inserter =
        tasks(handle, Rc::new(inserter), 0..inflight, |inserter, _| inserter.work()).await?;
    let released = inserter.index.release_spares().await;
    released.map_err(|error| inserter.load.settings.tree_error(&error))?;
    Ok(handle.now())
}

impl Inserter {
    async fn work(self: Rc<Self>) {
        let (load, phase) = (&self.load, &self.phase);
        let handle = self.index.memory().handle().clone();
        while let Some((id, area)) = load.entries.get(self.next.get())
            && !phase.stopped()
        {
            self.next.set(self.next.get() + load.settings.common.workers());
            if let Err(error) = self.index.insert(area, *id, &digest::payload(*id, area)).await {
                return phase.fail(load.settings.tree_error(&error));
            }
            phase.count(self.worker);
            self.time.end_operation(&handle, phase, handle.now()).await;
        }
    }
}
