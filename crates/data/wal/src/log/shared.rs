//! [`Shared`]: what those who commit and the flusher have in common.

use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicU64, Mutex, Ordering};
use slab::Slab;

use super::promise::Promise;
use crate::format::Group;
use crate::{Mode, NodeId, Settings, Timestamp, WalError};

/// The outcome of a batch.
pub(super) type Outcome = Promise<Result<(), WalError>>;
/// The number of the segment that a rotation began.
pub(super) type Rotation = Promise<Result<u64, WalError>>;

/// Where a group stands in the log: what [`Log::durable`](crate::Log::durable) waits for.
#[derive(Clone, Debug)]
pub struct Position(pub(super) Arc<Outcome>);

impl Position {
    /// Whether the group is lasting; `None` while nobody knows.
    pub fn outcome(&self) -> Option<Result<(), WalError>> {
        self.0.result()
    }
}

/// What a log has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stats {
    /// Groups that are lasting.
    pub groups: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Syncs that made groups lasting: one for each batch.
    pub syncs: u64,
    /// Time spent in them.
    pub syncing: Duration,
    /// The longest one.
    pub sync_max: Duration,
    /// Batches that could not be written; [`Mode::Async`] counts each attempt.
    pub refused: u64,
    /// Segments begun.
    pub segments: u64,
}

impl Stats {
    /// How many commits share a sync, in the mean.
    pub fn groups_per_sync(&self) -> f64 {
        self.groups as f64 / self.syncs.max(1) as f64
    }
}

pub(super) struct Shared {
    pub(super) node: NodeId,
    pub(super) settings: Settings,
    state: Mutex<State>,
    /// Groups since the log's beginning that other nodes may see before they are durable; none
    /// where they cannot.
    pub(super) visible: Option<Arc<AtomicU64>>,
    /// Kept when the flusher is through with the files.
    pub(super) ended: Arc<Outcome>,
}

/// All of it under one lock, which is held for a copy of a group at most. So an appender either
/// sees that the log has failed or is closed, or its group is in the batch that the flusher takes
/// next.
#[derive(Default)]
struct State {
    batch: Taken,
    /// Of the batch before it, which may be under way.
    before: Option<Arc<Outcome>>,
    /// A batch on which others build waits for its device, which has refused it.
    refusing: Option<WalError>,
    /// Bytes of groups that are not lasting, those that are being written included.
    waiting: usize,
    rotation: Option<Arc<Rotation>>,
    /// Somebody waits for what the interval would let wait.
    hurry: bool,
    closing: bool,
    failed: Option<WalError>,
    flusher: Option<Waker>,
    /// Groups in the batch for which the flusher wants to be woken.
    wanted: usize,
    room: Slab<Waker>,
    stats: Stats,
}

/// What the flusher takes at once.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) bytes: Vec<u8>,
    pub(super) groups: usize,
    pub(super) highest: Timestamp,
    /// Others build on a group of it: it must not be refused.
    pub(super) built_on: bool,
    pub(super) outcome: Arc<Outcome>,
}

/// What there is to do.
pub(super) struct Work {
    pub(super) batch: Taken,
    pub(super) rotation: Option<Arc<Rotation>>,
    pub(super) closing: bool,
}

impl Shared {
    pub(super) fn new(node: NodeId, settings: Settings) -> Shared {
        let visible = waits(&settings).then(|| Arc::new(AtomicU64::new(0)));
        Shared { node, settings, state: Mutex::default(), visible, ended: Arc::default() }
    }

    // ---- those who commit ------------------------------------------------------------------------

    pub(super) fn append(&self, group: &Group, built_on: bool) -> Result<Position, WalError> {
        let (bytes, most) = (group.bytes(), self.settings.backlog_bytes);
        if bytes > most {
            return Err(WalError::TooLarge { bytes, most });
        }
        // Most of the work, and outside of the lock.
        let crc = group.body_crc();
        let (position, waker) = {
            let mut state = self.state.lock();
            state.check()?;
            if let Some(refused) = &state.refusing {
                return Err(refused.clone());
            }
            if state.waiting + bytes > most {
                return Err(WalError::Backlog { waiting: state.waiting, most });
            }
            state.waiting += bytes;
            let batch = &mut state.batch;
            group.encode(crc, &mut batch.bytes);
            batch.groups += 1;
            if let Some(visible) = &self.visible {
                // Relaxed: another node that sees the group has synchronized with its commit, which
                // follows this.
                visible.fetch_add(1, Ordering::Relaxed);
            }
            batch.highest = batch.highest.max(group.timestamp());
            batch.built_on |= built_on;
            let position = Position(batch.outcome.clone());
            (position, state.call_flusher())
        };
        wake(waker);
        Ok(position)
    }

    /// Waits until half of what may wait is free.
    pub(super) async fn room(&self) -> Result<(), WalError> {
        let mut place = Place { shared: self, key: None };
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if let Err(error) = state.check() {
                return Poll::Ready(Err(error));
            }
            if state.waiting <= self.settings.backlog_bytes / 2 {
                return Poll::Ready(Ok(()));
            }
            match place.key.and_then(|key| state.room.get_mut(key)) {
                Some(waker) => waker.clone_from(cx.waker()),
                None => place.key = Some(state.room.insert(cx.waker().clone())),
            }
            Poll::Pending
        })
        .await
    }

    /// The end of all that was appended so far; lets the interval not wait for it.
    pub(super) fn hurry(&self) -> Result<Position, WalError> {
        let (position, waker) = {
            let mut state = self.state.lock();
            state.check()?;
            // Even when there is nothing in the batch: what is being written comes before it.
            state.hurry = true;
            (Position(state.batch.outcome.clone()), state.call_flusher())
        };
        wake(waker);
        Ok(position)
    }

    /// The end of all that was appended so far, unless that has been written, or refused.
    pub(super) fn end_of_all(&self) -> Result<Option<Position>, WalError> {
        let state = self.state.lock();
        state.check()?;
        let last = match state.batch.groups {
            0 => state.before.as_ref(),
            _ => Some(&state.batch.outcome),
        };
        let open = last.filter(|outcome| outcome.result().is_none());
        Ok(open.map(|outcome| Position(outcome.clone())))
    }

    pub(super) fn rotate(&self) -> Result<Arc<Rotation>, WalError> {
        let (rotation, waker) = {
            let mut state = self.state.lock();
            state.check()?;
            let rotation = state.rotation.get_or_insert_default().clone();
            (rotation, state.call_flusher())
        };
        wake(waker);
        Ok(rotation)
    }

    pub(super) fn close(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.closing = true;
            state.call_flusher()
        };
        wake(waker);
    }

    pub(super) fn stats(&self) -> Stats {
        self.state.lock().stats
    }

    /// Makes what waits as much as may wait.
    #[cfg(all(test, loom))]
    pub(super) fn fill(&self) {
        let mut state = self.state.lock();
        let all = self.settings.backlog_bytes;
        state.batch.bytes.resize(all, 0);
        state.waiting = all;
    }

    // ---- the flusher -----------------------------------------------------------------------------

    /// Waits until there are `groups` to write, or something else cannot wait.
    pub(super) async fn work(&self, groups: usize) {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if state.batch.groups >= groups || state.is_urgent() {
                return Poll::Ready(());
            }
            state.wanted = groups;
            state.flusher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Takes all there is to do. `spare` is an empty buffer, for what comes next.
    pub(super) fn take(&self, spare: Vec<u8>) -> Work {
        let mut state = self.state.lock();
        state.hurry = false;
        let next = Taken { bytes: spare, ..Taken::default() };
        let batch = std::mem::replace(&mut state.batch, next);
        if batch.groups > 0 {
            state.before = Some(batch.outcome.clone());
        }
        Work { batch, rotation: state.rotation.take(), closing: state.closing }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state.lock().closing
    }

    /// Takes nothing more, until a batch ends.
    pub(super) fn refuse(&self, refused: &WalError) {
        self.state.lock().refusing = Some(refused.clone());
    }

    /// Ends a batch: its bytes wait no more.
    pub(super) fn end(&self, batch: &Taken, outcome: Result<(), WalError>, took: Option<Duration>) {
        let room = {
            let mut state = self.state.lock();
            state.waiting = state.waiting.saturating_sub(batch.bytes.len());
            state.refusing = None;
            if let Some(took) = took {
                let stats = &mut state.stats;
                stats.groups += batch.groups as u64;
                stats.bytes += batch.bytes.len() as u64;
                stats.syncs += 1;
                stats.syncing += took;
                stats.sync_max = stats.sync_max.max(took);
            }
            std::mem::take(&mut state.room)
        };
        batch.outcome.keep(outcome);
        room.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.state.lock().stats);
    }

    /// The log takes nothing any more: `error` for all who wait and all who come.
    pub(super) fn fail(&self, error: &WalError) {
        let (batch, rotation, room) = {
            let mut state = self.state.lock();
            state.failed.get_or_insert_with(|| error.clone());
            state.waiting = 0;
            let batch = std::mem::take(&mut state.batch);
            (batch, state.rotation.take(), std::mem::take(&mut state.room))
        };
        batch.outcome.keep(Err(error.clone()));
        if let Some(rotation) = rotation {
            rotation.keep(Err(error.clone()));
        }
        room.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl State {
    fn check(&self) -> Result<(), WalError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.closing => Err(WalError::Closed),
            None => Ok(()),
        }
    }

    fn is_urgent(&self) -> bool {
        self.hurry || self.closing || self.rotation.is_some()
    }

    /// The flusher's waker, when it wants to be woken for what there is.
    fn call_flusher(&mut self) -> Option<Waker> {
        if self.batch.groups >= self.wanted || self.is_urgent() {
            self.flusher.take()
        } else {
            None
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// One waiter's place, given back when it is dropped.
struct Place<'a> {
    shared: &'a Shared,
    key: Option<usize>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.shared.state.lock().room.try_remove(key);
            drop(waker);
        }
    }
}

/// Whether the flusher lets groups wait for the interval.
pub(super) fn waits(settings: &Settings) -> bool {
    settings.mode == Mode::Async
}
