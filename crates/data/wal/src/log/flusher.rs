//! [`Flusher`]: writes what was appended, syncs it, and says so.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use latchwork_runtime::{Handle, Time};

use super::segment::{Active, NotBegun};
use super::shared::{Rotation, Shared, Taken, Work, waits};
use crate::directory::Segment;
use crate::format::{Known, Mark};
use crate::{Device, End, LogDirectory, NodeId, Timestamp, WalError};

/// The one who writes a log. One per log, on a thread of its own or as a task of virtual time.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    directory: Option<Arc<LogDirectory>>,
    active: Active,
    /// The highest timestamp that was ever logged by this node.
    through: Timestamp,
    /// Groups since the log's beginning that are durable.
    groups: u64,
    /// What this segment's last mark knows of other logs; `None` before its first one.
    marked: Option<BTreeMap<NodeId, Known>>,
    /// Since when, and since which one, the witness lacks something of this log.
    owing: Option<(Time, u64)>,
    /// What writing takes, where it takes no time by itself.
    device: Option<Device>,
    /// Groups in the last batch, and how long its sync took.
    last: (usize, Duration),
    spare: Vec<u8>,
    /// Nothing of this log can be lost any more by going on with another.
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
                // Given up before the end is known, so that the log can be opened anew as soon as
                // it is.
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

    /// What became of the last batch, when the log is closed.
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
                    Err(error) => return Err(Flusher::tell(rotation, error)),
                };
            } else {
                // Somebody may wait for all that came before.
                batch.outcome.keep(Ok(()));
            }
            self.spare = batch.bytes;
            self.spare.clear();
            let is_full = self.active.length >= self.shared.settings.segment_bytes;
            if rotation.is_some() || is_full {
                let rotated = self.rotate(handle).await;
                match (rotated, rotation) {
                    (Ok(rotated), Some(rotation)) => rotation.keep(rotated),
                    // The segment grows until there is room for another.
                    (Ok(_), None) => {}
                    (Err(error), rotation) => return Err(Flusher::tell(rotation, error)),
                }
            }
            if closing {
                return Ok(outcome);
            }
        }
    }

    /// Waits for something to do, and keeps the witness young meanwhile.
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

    /// Writes the witness, unless another log's flusher has done so.
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
            self.warn_of_witness(&error);
            // The one before stays, and is true. It is tried again when it is due again.
            self.owing = Some((handle.now(), now));
        }
    }

    fn warn_of_witness(&self, error: &WalError) {
        let node = self.shared.node.0;
        tracing::warn!(node, "what is lost of the log from now on may not be noticed: {error}");
    }

    /// Lets more groups come, where that is worth it.
    async fn gather(&self, handle: &Handle) {
        let Shared { settings, .. } = &*self.shared;
        let (wanted, longest) = if waits(settings) {
            (usize::MAX, settings.interval)
        } else {
            // Those of the last batch were woken by it, and most come again at once.
            (self.last.0, settings.gather.min(self.last.1 / 4))
        };
        if wanted > 1 && !longest.is_zero() {
            // Too late is as good.
            let _ = handle.timeout(handle.now() + longest, self.shared.work(wanted)).await;
        }
    }

    /// Writes a batch, until it is lasting or refused. `Err`: the log has failed.
    async fn write(
        &mut self,
        handle: &Handle,
        batch: &mut Taken,
    ) -> Result<Result<(), WalError>, WalError> {
        let (mark, known) = self.mark()?;
        let bytes = (mark.len() + batch.bytes.len()) as u64;
        self.active.finish(&mut batch.bytes, mark.len());
        let mut is_first = true;
        while let Err(cause) = self.append(&mark, &batch.bytes) {
            self.shared.count(|stats| stats.refused += 1);
            let refused =
                WalError::Refused { file: self.active.name.clone(), cause: Arc::new(cause) };
            if std::mem::take(&mut is_first) {
                // It may be tried again very often.
                tracing::warn!(node = self.shared.node.0, "{refused}");
            }
            if let Err(cause) = self.active.roll_back() {
                // Why it was to be taken back matters more than why it could not be.
                let both = format!("{cause}, after: {refused}");
                let cause = std::io::Error::new(cause.kind(), both);
                return self.failed(batch, "taking back a write", cause);
            }
            // What was acknowledged without being lasting, and what others build on, is tried again
            // for as long as there is hope.
            let tries = waits(&self.shared.settings) || batch.built_on;
            if batch.built_on {
                if self.shared.is_closing() {
                    // The next batch, which may have what builds on this one, must not be written.
                    let cause = std::io::Error::other(refused);
                    return self.failed(batch, "writing what others have built on to", cause);
                }
                self.shared.refuse(&refused);
            }
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
        self.through = self.through.max(batch.highest);
        self.last = (batch.groups, took);
        self.marked = Some(known);
        if let Some(directory) = &self.directory {
            // Before these groups are acknowledged: a batch of another log that has seen them must
            // know of them.
            directory.publish(self.shared.node, self.active.end(self.groups), self.through);
            if self.owing.is_none() {
                self.owing = Some((handle.now(), directory.noted(self.shared.node).0));
            }
        }
        // Not before: from here on these groups are acknowledged.
        self.shared.end(batch, Ok(()), Some(took));
        Ok(Ok(()))
    }

    /// The mark that goes before a batch which was taken: what is known of other logs, if that is
    /// news. It is read after the batch was taken, so it knows of all that the batch's commits have
    /// seen.
    fn mark(&self) -> Result<(Vec<u8>, BTreeMap<NodeId, Known>), WalError> {
        let Some(directory) = &self.directory else { return Err(WalError::Closed) };
        let known = directory.known_beside(self.shared.node);
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

    /// Writes the end record of a log that is closed; where the log ends then. `Err`: the log has
    /// failed.
    async fn finish(&mut self, handle: &Handle) -> Result<Option<End>, WalError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let known = directory.known_beside(self.shared.node);
        let mut record = Mark { known, closes: true }.encode()?;
        self.active.finish(&mut record, 0);
        let failed = |doing, cause: std::io::Error| WalError::Failed {
            doing,
            file: self.active.name.clone(),
            cause: Arc::new(cause),
        };
        if let Err(cause) = self.active.append(&record) {
            // All groups are durable, and the witness will say so.
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
        // Before those who wait learn of it: what they append next must not seem to be taken.
        self.shared.fail(&error);
        batch.outcome.keep(Err(error.clone()));
        Err(error)
    }

    /// Begins a new segment, unless this one is empty; the number of the one that comes next.
    /// `Err`: the log has failed.
    async fn rotate(&mut self, handle: &Handle) -> Result<Result<u64, WalError>, WalError> {
        let Segment { number, .. } = self.active.segment;
        if self.active.is_empty() {
            return Ok(Ok(number));
        }
        if let Some(device) = self.device {
            // The file and the directory.
            handle.sleep(device.sync * 2).await;
        }
        let next = Segment { number: number + 1, before: self.through, groups: self.groups };
        let Some(directory) = &self.directory else { return Ok(Err(WalError::Closed)) };
        match Active::begin(directory, self.shared.node, next) {
            Ok(active) => {
                self.active = active;
                self.marked = None;
                self.shared.count(|stats| stats.segments += 1);
                Ok(Ok(next.number))
            }
            Err(NotBegun::Refused(error)) => Ok(Err(error)),
            Err(NotBegun::Unknown(error)) => Err(error.into_failed()),
        }
    }

    /// Those who wait for a rotation that will not be learn why.
    fn tell(rotation: Option<Arc<Rotation>>, error: WalError) -> WalError {
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
    /// A flusher that did not come to its end (its worker is gone) tells all who wait. The
    /// directory keeps the node's log as open: it has to be read again before anything is appended.
    fn drop(&mut self) {
        if !self.clean {
            let cause = Arc::new(std::io::Error::other("the log's flusher is gone"));
            let file = self.active.name.clone();
            self.stop(&WalError::Failed { doing: "flushing", file, cause });
        }
    }
}
