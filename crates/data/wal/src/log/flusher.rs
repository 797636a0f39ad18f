//! [`Flusher`]: writes appended log records, syncs them, and reports the outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use latchwork_runtime::{Handle, Time};
use latchwork_strict::strict_assert;

use super::segment::{Active, NotBegun};
use super::shared::{Rotation, Shared, Taken, Work, waits};
use crate::directory::Segment;
use crate::format::{Known, Mark};
use crate::{Device, LogDirectory, LogEnd, NodeId, Timestamp, WalError};

/// The one writer of a log, on a thread of its own or as a task in virtual time.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    directory: Option<Arc<LogDirectory>>,
    active: Active,
    /// The highest timestamp of all durable records of the log.
    through: Timestamp,
    /// Durable log records since the start of the log.
    groups: u64,
    /// The content of the last mark of this segment: how far other logs were durable. `None` before
    /// the first mark.
    marked: Option<BTreeMap<NodeId, Known>>,
    /// Set while the witness may lack records of this log: the time since when, and the number of
    /// writes of the witness at that time.
    owing: Option<(Time, u64)>,
    /// The speed of a simulated device; `None` when writing takes real time.
    device: Option<Device>,
    /// The number of log records in the last flush batch, and the time that its sync took.
    last: (usize, Duration),
    spare: Vec<u8>,
    /// The log ended in order, so the drop of the flusher reports no failure.
    clean: bool,
}

impl Flusher {
    /// Begins the next segment of the log.
    pub(super) fn new(
        shared: Arc<Shared>,
        directory: Arc<LogDirectory>,
        segment: Segment,
        device: Option<Device>,
    ) -> Result<Flusher, WalError> {
        let active = match Active::begin(&directory, shared.node, segment) {
            Ok(active) => active,
            Err(NotBegun::Refused(error)) => {
                directory.leave(shared.node, segment.before, None);
                return Err(error);
            }
            Err(NotBegun::Unknown(error)) => return Err(error),
        };
        shared.count(|stats| stats.segments += 1);
        let (through, last, spare) = (segment.before, (1, Duration::ZERO), Vec::new());
        let directory = Some(directory);
        Ok(Flusher {
            shared,
            directory,
            active,
            through,
            groups: segment.groups,
            marked: None,
            owing: None,
            device,
            last,
            spare,
            clean: false,
        })
    }

    /// Works until the log is closed or has failed.
    pub(super) async fn run(mut self, handle: Handle) {
        let served = self.serve(&handle).await;
        let ended = match served {
            Ok(last) => self.finish(&handle).await.map(|closed| (last, closed)),
            Err(error) => Err(error),
        };
        match ended {
            Ok((last, closed)) => {
                self.clean = true;
                // The directory is released before the end is reported. So a caller that sees the
                // end can open the log again at once.
                if let Some(directory) = self.directory.take() {
                    directory.leave(self.shared.node, self.through, closed);
                    if let Err(error) = directory.note(true) {
                        self.warn_of_witness(&error);
                    }
                }
                self.shared.fail(&WalError::Closed);
                self.shared.ended.keep(last);
            }
            Err(error) => self.stop(&error),
        }
    }

    /// Writes flush batches until the log is closed, and returns the outcome of the last one.
    async fn serve(&mut self, handle: &Handle) -> Result<Result<(), WalError>, WalError> {
        loop {
            self.wait(handle).await;
            self.gather(handle).await;
            let Work { mut batch, rotation, closing } =
                self.shared.take(std::mem::take(&mut self.spare));
            let mut outcome = Ok(());
            if batch.groups > 0 {
                outcome = match self.write(handle, &mut batch).await {
                    Ok(outcome) => outcome,
                    Err(error) => return Err(self.tell(rotation, error)),
                };
            } else {
                // A caller of `flush` may wait on this empty batch: everything before it has an
                // outcome now.
                batch.outcome.keep(Ok(()));
            }
            self.spare = batch.bytes;
            self.spare.clear();
            let is_full = self.active.length >= self.shared.settings.segment_bytes;
            strict_assert!(self.spare.is_empty(), "the bytes of a written batch are written again");
            if rotation.is_some() || is_full {
                let rotated = self.rotate(handle).await;
                match (rotated, rotation) {
                    (Ok(rotated), Some(rotation)) => rotation.keep(rotated),
                    // If no new segment could be begun, the present segment grows, and the rotation
                    // is tried again after the next flush batch.
                    (Ok(rotated), None) => self.warn_of_growth(handle, rotated),
                    (Err(error), rotation) => return Err(self.tell(rotation, error)),
                }
            }
            if closing {
                return Ok(outcome);
            }
        }
    }

    /// Waits for work. While it waits, it writes the witness whenever the witness is due.
    async fn wait(&mut self, handle: &Handle) {
        while let Some((since, _)) = self.owing {
            let due = since + self.shared.settings.witness;
            if handle.now() < due && handle.timeout(due, self.shared.work(1)).await.is_ok() {
                return;
            }
            self.note(handle).await;
        }
        self.shared.work(1).await;
    }

    /// Writes the witness, if it lacks records of this log. If the flusher of another log has
    /// written the witness since the wait began, the wait begins anew instead.
    async fn note(&mut self, handle: &Handle) {
        let Some((_, times)) = self.owing.take() else { return };
        let Some(directory) = &self.directory else { return };
        let (now, lacks) = directory.noted(self.shared.node);
        if !lacks {
            return;
        }
        if now > times {
            self.owing = Some((handle.now(), now));
            return;
        }
        if let Some(device) = self.device {
            handle.sleep(device.sync).await;
        }
        if let Err(error) = directory.note(false) {
            if directory.may_warn(handle.now()) {
                self.warn_of_witness(&error);
            }
            // The previous witness stays in place, and is true. The next attempt follows when the
            // witness is due again.
            self.owing = Some((handle.now(), now));
        }
    }

    fn may_warn(&self, handle: &Handle) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.may_warn(handle.now()))
    }

    fn warn_of_growth(&self, handle: &Handle, rotated: Result<u64, WalError>) {
        if let Err(error) = rotated
            && self.may_warn(handle)
        {
            tracing::warn!(node = self.shared.node.0, "a full segment of a log grows: {error}");
        }
    }

    fn warn_of_witness(&self, error: &WalError) {
        let node = self.shared.node.0;
        tracing::warn!(node, "what is lost of the log from now on may not be noticed: {error}");
    }

    /// Waits for more log records, up to the limits of the settings.
    async fn gather(&self, handle: &Handle) {
        let Shared { settings, .. } = &*self.shared;
        let (wanted, longest) = if waits(settings) {
            (usize::MAX, settings.interval)
        } else {
            // The last flush batch woke its committers, which probably commit again soon.
            (self.last.0, settings.gather.min(self.last.1 / 4))
        };
        if wanted > 1 && !longest.is_zero() {
            // A timeout ends the wait, and is no error.
            let _ = handle.timeout(handle.now() + longest, self.shared.work(wanted)).await;
        }
    }

    /// Writes a flush batch until it is durable or refused. `Err`: the log has failed.
    async fn write(
        &mut self,
        handle: &Handle,
        batch: &mut Taken,
    ) -> Result<Result<(), WalError>, WalError> {
        let (mark, known) = self.mark()?;
        let bytes = (mark.len() + batch.bytes.len()) as u64;
        strict_assert!(batch.groups > 0 && !batch.bytes.is_empty(), "an empty batch is written");
        self.active.finish(&mut batch.bytes, mark.len());
        strict_assert!(
            mark.len().is_multiple_of(crate::format::ALIGN)
                && batch.bytes.len().is_multiple_of(crate::format::ALIGN)
        );
        while let Err(cause) = self.append(&mark, &batch.bytes) {
            self.shared.count(|stats| stats.refused += 1);
            let refused =
                WalError::Refused { file: self.active.name.clone(), cause: Arc::new(cause) };
            if self.may_warn(handle) {
                tracing::warn!(node = self.shared.node.0, "{refused}");
            }
            if let Err(cause) = self.active.roll_back() {
                // The error text names the failed rollback first, then the write error that made
                // the rollback necessary.
                let both = format!("{cause}, after: {refused}");
                let cause = std::io::Error::new(cause.kind(), both);
                return self.failed(batch, "taking back a write", cause);
            }
            // Two kinds of batches are retried while the log is not closing: those acknowledged
            // before they are durable, and those on which later records depend.
            let tries = waits(&self.shared.settings) || batch.built_on;
            if batch.built_on && self.shared.is_closing() {
                // The log is closing. The next flush batch may hold records that depend on this
                // batch, so it must not be written.
                let cause = std::io::Error::other(refused);
                return self.failed(batch, "writing what others have built on to", cause);
            }
            self.shared.refuse(&refused, batch.built_on);
            if !tries || self.shared.is_closing() {
                self.shared.end(batch, Err(refused.clone()), None);
                return Ok(Err(refused));
            }
            handle.sleep(self.shared.settings.interval).await;
        }
        let begin = handle.now();
        if let Some(device) = self.device {
            handle.sleep(device.writing(bytes) + device.sync).await;
        }
        if let Err(cause) = self.active.sync() {
            return self.failed(batch, "syncing", cause);
        }
        let took = handle.now() - begin;
        self.active.length += bytes;
        self.groups += batch.groups as u64;
        strict_assert!(self.groups >= batch.groups as u64, "the number of commits wraps");
        self.through = self.through.max(batch.highest);
        strict_assert!(self.through >= batch.highest, "the log forgets a commit");
        self.last = (batch.groups, took);
        self.marked = Some(known);
        if let Some(directory) = &self.directory {
            // The end is published before these records are acknowledged. So if a commit of another
            // node has seen one of these records, the next mark of that node's log covers the
            // record.
            directory.publish(self.shared.node, self.active.end(self.groups), self.through);
            if self.owing.is_none() {
                self.owing = Some((handle.now(), directory.noted(self.shared.node).0));
            }
        }
        // This call comes last, because it ends the waits for these records.
        self.shared.end(batch, Ok(()), Some(took));
        Ok(Ok(()))
    }

    /// The mark for the flush batch that was taken; empty when the last mark of the segment states
    /// the same. The ends of the other logs are read after the batch was taken. So the mark covers
    /// all records that commits of the batch have seen.
    fn mark(&self) -> Result<(Vec<u8>, BTreeMap<NodeId, Known>), WalError> {
        let Some(directory) = &self.directory else { return Err(WalError::Closed) };
        let known = directory.known_elsewhere(self.shared.node);
        if self.marked.as_ref() == Some(&known) {
            return Ok((Vec::new(), known));
        }
        let mark = Mark { known, closes: false };
        let mut bytes = mark.encode()?;
        self.active.finish(&mut bytes, 0);
        Ok((bytes, mark.known))
    }

    fn append(&self, mark: &[u8], batch: &[u8]) -> std::io::Result<()> {
        if !mark.is_empty() {
            self.active.append(mark)?;
        }
        self.active.append(batch)
    }

    /// Writes the end record of a closed log, and returns the end of the log behind it. `None` when
    /// the record could not be written. `Err`: the log has failed.
    async fn finish(&mut self, handle: &Handle) -> Result<Option<LogEnd>, WalError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let known = directory.known_elsewhere(self.shared.node);
        let mut record = Mark { known, closes: true }.encode()?;
        self.active.finish(&mut record, 0);
        let failed = |doing, cause: std::io::Error| WalError::Failed {
            doing,
            file: self.active.name.clone(),
            cause: Arc::new(cause),
        };
        if let Err(cause) = self.active.append(&record) {
            // All records that were not refused are durable, and the next witness states their end.
            tracing::warn!(node = self.shared.node.0, "a log ends without its end record: {cause}");
            self.active.roll_back().map_err(|cause| failed("taking back a write", cause))?;
            return Ok(None);
        }
        if let Some(device) = self.device {
            handle.sleep(device.writing(record.len() as u64) + device.sync).await;
        }
        self.active.sync().map_err(|cause| failed("syncing", cause))?;
        self.active.length += record.len() as u64;
        Ok(Some(self.active.end(self.groups)))
    }

    fn failed<T>(
        &self,
        batch: &Taken,
        doing: &'static str,
        cause: std::io::Error,
    ) -> Result<T, WalError> {
        let file = self.active.name.clone();
        let error = WalError::Failed { doing, file, cause: Arc::new(cause) };
        tracing::error!(node = self.shared.node.0, "a log has failed: {error}");
        // The log fails before the waiters learn of the error. Otherwise their next append could
        // seem to succeed.
        self.shared.fail(&error);
        batch.outcome.keep(Err(error.clone()));
        Err(error)
    }

    /// Begins a new segment and returns its number. If the present segment is empty, it stays, and
    /// its number is returned. `Ok(Err)`: no new segment was begun, and the log continues in the
    /// present one. `Err`: the log has failed.
    async fn rotate(&mut self, handle: &Handle) -> Result<Result<u64, WalError>, WalError> {
        strict_assert!(
            self.owing.is_none_or(|(since, _)| since <= handle.now()),
            "the witness is owed from the future"
        );
        let Segment { number, .. } = self.active.segment;
        if self.active.is_empty() {
            return Ok(Ok(number));
        }
        if let Some(device) = self.device {
            // One sync for the file, one for the directory.
            handle.sleep(device.sync * 2).await;
        }
        let next = Segment { number: number + 1, before: self.through, groups: self.groups };
        strict_assert!(
            next.before >= self.active.segment.before && next.groups >= self.active.segment.groups,
            "the next segment begins before the present one"
        );
        let Some(directory) = &self.directory else { return Ok(Err(WalError::Closed)) };
        match Active::begin(directory, self.shared.node, next) {
            Ok(active) => {
                self.active = active;
                strict_assert!(self.active.is_empty(), "a new segment has records");
                self.marked = None;
                self.shared.count(|stats| stats.segments += 1);
                Ok(Ok(next.number))
            }
            Err(NotBegun::Refused(error)) => Ok(Err(error)),
            Err(NotBegun::Unknown(error)) => Err(error.into_failed()),
        }
    }

    /// Fails the log, and reports `error` to the waiters of a rotation that will not happen.
    /// Returns the error.
    fn tell(&self, rotation: Option<Arc<Rotation>>, error: WalError) -> WalError {
        // The log fails before the waiters learn of the error, as in `failed`.
        self.shared.fail(&error);
        if let Some(rotation) = rotation {
            rotation.keep(Err(error.clone()));
        }
        error
    }

    fn stop(&mut self, error: &WalError) {
        self.directory = None;
        self.shared.fail(error);
        self.shared.ended.keep(Err(error.clone()));
    }
}

impl Drop for Flusher {
    /// A flusher may be dropped before the log has ended, because its worker has ended. The drop
    /// reports a failure to the waiters for the batch that is filling, for a rotation, for room and
    /// for the end. The waiters for a batch that was taken wait until their deadlines. In the
    /// directory the log stays marked as open, so the directory must be opened again before this
    /// log.
    fn drop(&mut self) {
        if !self.clean {
            let cause = Arc::new(std::io::Error::other("the log's flusher is gone"));
            let file = self.active.name.clone();
            self.stop(&WalError::Failed { doing: "flushing", file, cause });
        }
    }
}
