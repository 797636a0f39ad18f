//! Loading: all workers insert their shares of the entries, or one worker loads all in bulk.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory as _;
use latchwork_harness::PhaseProgress;
use latchwork_rtree::{NewEntry, Packing};
use latchwork_runtime::Time;

use super::{Index, open};
use crate::digest;
use crate::geometry::Area;
use crate::session::Session;

/// What workers need to load a tree.
pub(crate) struct Loader {
    pub(crate) session: Arc<Session>,
    pub(crate) phase: Arc<PhaseProgress>,
    /// The name of the tree.
    pub(crate) name: String,
}

/// The entries of one worker, which its tasks take in turn.
struct LoadShare {
    next: Cell<usize>,
    entries: Vec<(u64, Area)>,
}

/// Loads all entries on the first worker. Returns the end of the loading; `None` if the phase
/// failed.
pub(crate) async fn bulk(
    loader: Arc<Loader>,
    entries: impl Iterator<Item = (u64, Area)>,
    packing: Packing,
    member: Member,
) -> Option<Time> {
    let index = opened(&loader, &member).await?;
    if member.index > 0 {
        return Some(member.handle.now());
    }
    let entry = |(id, rect): (u64, Area)| {
        loader.phase.count(0);
        NewEntry { rect, id, payload: digest::payload(id, &rect).to_vec() }
    };
    let entries = entries.take_while(|_| !loader.phase.stopped()).map(entry).collect();
    if let Err(error) = index.bulk_load_by(entries, packing).await {
        loader.phase.fail(loader.session.tree_error(&error));
        return None;
    }
    Some(member.handle.now())
}

/// Inserts one worker's share of the entries, several at a time. Returns the end of the loading;
/// `None` if the phase failed.
pub(crate) async fn inserts(
    loader: Arc<Loader>,
    entries: Vec<(u64, Area)>,
    member: Member,
) -> Option<Time> {
    let index = opened(&loader, &member).await?;
    let handle = member.handle.clone();
    let share = Rc::new(LoadShare { next: Cell::new(0), entries });
    let task = |_| {
        let (index, loader, share) = (index.clone(), loader.clone(), share.clone());
        handle.spawn(insert_some(index, loader, share, member.index))
    };
    let tasks: Vec<_> = (0..loader.session.cluster.inflight).map(task).collect();
    for task in tasks {
        task.await.ok()?;
    }
    if let Err(error) = index.release_spares().await {
        loader.phase.fail(loader.session.tree_error(&error));
        return None;
    }
    Some(handle.now())
}

async fn insert_some(index: Index, loader: Arc<Loader>, share: Rc<LoadShare>, worker: usize) {
    let handle = index.memory().handle().clone();
    while let Some((id, area)) = share.entries.get(share.next.get())
        && !loader.phase.stopped()
    {
        share.next.set(share.next.get() + 1);
        if let Err(error) = index.insert(area, *id, &digest::payload(*id, area)).await {
            return loader.phase.fail(loader.session.tree_error(&error));
        }
        loader.phase.count(worker);
        loader.session.time.end_operation(&handle, &loader.phase, handle.now()).await;
    }
}

async fn opened(loader: &Loader, member: &Member) -> Option<Index> {
    match open(&loader.session, member, &loader.name).await {
        Ok(index) => Some(index),
        Err(error) => {
            loader.phase.fail(error);
            None
        }
    }
}
