//! [`Shared`]: the state that the committers and the flusher share.

use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicU64, Mutex, Ordering};
use latchwork_strict::{STRICT, strict_assert};
use slab::Slab;

use super::flush_wait::Promise;
use crate::format::LogRecord;
use crate::{CommitMode, LogSettings, NodeId, Timestamp, WalError};

/// The outcome of a flush batch.
pub(super) type Outcome = Promise<Result<(), WalError>>;
/// The number of the segment that a rotation began.
pub(super) type Rotation = Promise<Result<u64, WalError>>;

/// The log position of a log record, for [`Log::durable`](crate::Log::durable) to wait on. All
/// records of one flush batch share one outcome.
#[derive(Clone, Debug)]
pub struct Position(pub(super) Arc<Outcome>);

impl Position {
    /// The outcome of the record: `Ok` when the record is durable, `None` while its flush batch has
    /// no outcome.
    pub fn outcome(&self) -> Option<Result<(), WalError>> {
        self.0.result()
    }
}

/// Counts and times of one log since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stats {
    /// Durable log records.
    pub groups: u64,
    /// Bytes of the durable log records.
    pub bytes: u64,
    /// Syncs that made log records durable: one for each flush batch.
    pub syncs: u64,
    /// Time spent in these syncs. With a simulated device, the writes are included.
    pub syncing: Duration,
    /// The longest of these syncs.
    pub sync_max: Duration,
    /// Failed attempts to write a flush batch. A batch that is retried counts once per attempt.
    pub refused: u64,
    /// Segments begun.
    pub segments: u64,
}

impl Stats {
    /// The mean count of log records that share a sync.
    pub fn groups_per_sync(&self) -> f64 {
        self.groups as f64 / self.syncs.max(1) as f64
    }
}

pub(super) struct Shared {
    pub(super) node: NodeId,
    pub(super) settings: LogSettings,
    state: Mutex<State>,
    /// The number of log records since the start of the log whose commits other nodes may see.
    /// `None` in a mode in which other nodes see durable commits only.
    pub(super) visible: Option<Arc<AtomicU64>>,
    /// Kept when the flusher has finished with the files.
    pub(super) ended: Arc<Outcome>,
}

/// The mutable state, all of it under one lock. The longest work under the lock is the copy of one
/// log record. An append checks under this lock whether the log has failed or is closed. If not,
/// its record is in the present batch. The flusher takes that batch next, or the batch gets the
/// error when the log fails.
#[derive(Default)]
struct State {
    batch: Taken,
    /// The outcome of the previous flush batch, which may be in flight.
    before: Option<Arc<Outcome>>,
    /// Set while the device refuses to be written: the error of the last attempt.
    refused: Option<WalError>,
    /// Set while the flusher retries a flush batch on which later records may depend: new records
    /// are refused.
    refusing: bool,
    /// Bytes of log records that have no outcome yet, including those being written.
    waiting: usize,
    rotation: Option<Arc<Rotation>>,
    /// A caller of `flush` waits, so the flusher must not delay the records for the interval.
    hurry: bool,
    closing: bool,
    failed: Option<WalError>,
    flusher: Option<Waker>,
    /// The flusher wants to be woken when the flush batch has this many records.
    wanted: usize,
    room: Slab<Waker>,
    stats: Stats,
}

/// The log records that the flusher takes at once: one flush batch.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) bytes: Vec<u8>,
    pub(super) groups: usize,
    pub(super) highest: Timestamp,
    /// Later records may depend on a record of this batch, so the batch must not be refused.
    pub(super) built_on: bool,
    pub(super) outcome: Arc<Outcome>,
}

/// The work that the flusher takes at once.
pub(super) struct Work {
    pub(super) batch: Taken,
    pub(super) rotation: Option<Arc<Rotation>>,
    pub(super) closing: bool,
}

impl Shared {
    pub(super) fn new(node: NodeId, settings: LogSettings) -> Shared {
        let visible = waits(&settings).then(|| Arc::new(AtomicU64::new(0)));
        Shared { node, settings, state: Mutex::default(), visible, ended: Arc::default() }
    }

    // ---- committers -----------------------------------------------------------------------------

    pub(super) fn append(&self, group: &LogRecord, built_on: bool) -> Result<Position, WalError> {
        let (bytes, most) = (group.bytes(), self.settings.backlog_bytes);
        if bytes > most {
            return Err(WalError::TooLarge { bytes, most });
        }
        // The body checksum is most of the work, so it is computed outside of the lock.
        let crc = group.body_crc();
        let (position, waker) = {
            let mut state = self.state.lock();
            state.check()?;
            if let Some(refused) = state.refused.as_ref().filter(|_| state.refusing) {
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
                // Relaxed: the commit becomes visible to other nodes after this increment. A node
                // that sees the commit has synchronized with it.
                visible.fetch_add(1, Ordering::Relaxed);
            }
            batch.highest = batch.highest.max(group.timestamp());
            batch.built_on |= built_on;
            let position = Position(batch.outcome.clone());
            if STRICT {
                state.check_bounds(most);
            }
            (position, state.call_flusher())
        };
        wake(waker);
        Ok(position)
    }

    /// Waits until the backlog is at most half full.
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

    /// The position behind all records appended so far. The flusher does not delay these records
    /// for the interval.
    pub(super) fn hurry(&self) -> Result<Position, WalError> {
        let (position, waker) = {
            let mut state = self.state.lock();
            state.check()?;
            // This holds also for an empty flush batch: its outcome follows that of the batch that
            // is being written.
            state.hurry = true;
            (Position(state.batch.outcome.clone()), state.call_flusher())
        };
        wake(waker);
        Ok(position)
    }

    /// The outcome of all records appended so far; `None` when all of them have an outcome already.
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

    /// Keeps records out until the result is dropped.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.state.lock()
    }

    pub(super) fn trouble(&self) -> Option<WalError> {
        let state = self.state.lock();
        let failed = state.failed.as_ref().filter(|error| !matches!(error, WalError::Closed));
        failed.or(state.refused.as_ref()).cloned()
    }

    pub(super) fn stats(&self) -> Stats {
        self.state.lock().stats
    }

    /// Fills the backlog.
    #[cfg(all(test, loom))]
    pub(super) fn fill(&self) {
        let mut state = self.state.lock();
        let all = self.settings.backlog_bytes;
        state.batch.bytes.resize(all, 0);
        state.waiting = all;
    }

    // ---- the flusher ----------------------------------------------------------------------------

    /// Waits until there are `groups` log records to write, or until the flusher has urgent work: a
    /// flush, a rotation or the close.
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

    /// Takes all the work there is. `spare` is an empty buffer for the next flush batch.
    pub(super) fn take(&self, spare: Vec<u8>) -> Work {
        let mut state = self.state.lock();
        state.hurry = false;
        let next = Taken { bytes: spare, ..Taken::default() };
        strict_assert!(next.bytes.is_empty(), "the next batch begins with old bytes");
        strict_assert!(
            state.batch.groups > 0 || state.batch.bytes.is_empty(),
            "bytes without a record"
        );
        let batch = std::mem::replace(&mut state.batch, next);
        if batch.groups > 0 {
            state.before = Some(batch.outcome.clone());
        }
        Work { batch, rotation: state.rotation.take(), closing: state.closing }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state.lock().closing
    }

    /// Notes that a flush batch was refused. With `built_on`, new records are refused until the
    /// batch ends.
    pub(super) fn refuse(&self, refused: &WalError, built_on: bool) {
        let mut state = self.state.lock();
        (state.refused, state.refusing) = (Some(refused.clone()), built_on);
    }

    /// Ends a flush batch: its bytes leave the backlog.
    pub(super) fn end(&self, batch: &Taken, outcome: Result<(), WalError>, took: Option<Duration>) {
        let room = {
            let mut state = self.state.lock();
            strict_assert!(
                state.failed.is_some() || state.waiting >= batch.bytes.len(),
                "more bytes were written than waited"
            );
            state.waiting = state.waiting.saturating_sub(batch.bytes.len());
            state.refusing = false;
            if let Some(took) = took {
                state.refused = None;
                let stats = &mut state.stats;
                stats.groups += batch.groups as u64;
                stats.bytes += batch.bytes.len() as u64;
                stats.syncs += 1;
                stats.syncing += took;
                stats.sync_max = stats.sync_max.max(took);
                strict_assert!(stats.sync_max <= stats.syncing, "one sync took longer than all");
                strict_assert!(stats.groups >= stats.syncs, "a sync without a record");
            }
            std::mem::take(&mut state.room)
        };
        batch.outcome.keep(outcome);
        room.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.state.lock().stats);
    }

    /// Makes the log refuse everything from now on. The waiters for the batch that is filling and
    /// for a rotation get `error`. All other calls get the error with which the log failed first. A
    /// batch that was taken before this call gets its outcome from the caller.
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
    /// Checks the bounds of the backlog, and that the fields of the present batch agree.
    fn check_bounds(&self, most: usize) {
        assert!(self.waiting <= most, "{} bytes wait, {most} may", self.waiting);
        assert!(
            self.batch.bytes.len() <= self.waiting || self.failed.is_some(),
            "a batch of {} bytes, of which {} wait",
            self.batch.bytes.len(),
            self.waiting
        );
        let is_empty = self.batch.groups == 0;
        assert_eq!(is_empty, self.batch.bytes.is_empty(), "bytes without a record");
        assert_eq!(is_empty, self.batch.highest == Timestamp::ZERO, "a commit without a timestamp");
        assert!(!is_empty || !self.batch.built_on, "a commit depends on an empty batch");
        assert!(self.batch.outcome.result().is_none(), "a batch that is filled has an outcome");
    }

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

    /// The flusher's waker, if the flusher wants to be woken for the present work.
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

/// A task's entry in `State::room`, removed when this value is dropped.
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

/// Whether the flusher delays log records for the interval.
pub(super) fn waits(settings: &LogSettings) -> bool {
    settings.mode == CommitMode::Async
}
