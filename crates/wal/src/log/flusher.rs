//! [`Flusher`]: writes what was appended, syncs it, and says so.

use std::time::Duration;

use latchwork_runtime::Handle;
use latchwork_runtime::sync::Arc;

use super::segment::{Active, NotBegun};
use super::shared::{Rotation, Shared, Taken, Work, waits};
use crate::directory::Segment;
use crate::{Device, LogDirectory, Timestamp, WalError};

/// The one who writes a log. One per log, on a thread of its own or as a task of virtual time.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    directory: Option<Arc<LogDirectory>>,
    active: Active,
    /// The highest timestamp that was ever logged by this node.
    through: Timestamp,
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
                directory.leave(shared.node, segment.before);
                return Err(error);
            }
            Err(NotBegun::Unknown(error)) => return Err(error),
        };
        shared.count(|stats| stats.segments += 1);
        let (through, last, spare) = (segment.before, (1, Duration::ZERO), Vec::new());
        let directory = Some(directory);
        Ok(Flusher { shared, directory, active, through, device, last, spare, clean: false })
    }

    /// Works until the log is closed or has failed.
    pub(super) async fn run(mut self, handle: Handle) {
        match self.serve(&handle).await {
            Ok(end) => {
                self.clean = true;
                // Given up before anybody learns of the end, so that whoever does can open it anew.
                if let Some(directory) = self.directory.take() {
                    directory.leave(self.shared.node, self.through);
                }
                self.shared.fail(&WalError::Closed);
                self.shared.ended.keep(end);
            }
            Err(error) => self.stop(&error),
        }
    }

    /// What became of the last batch, when the log is closed.
    async fn serve(&mut self, handle: &Handle) -> Result<Result<(), WalError>, WalError> {
        loop {
            self.shared.work(1).await;
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
        self.active.finish(&mut batch.bytes);
        let mut is_first = true;
        while let Err(cause) = self.active.append(&batch.bytes) {
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
            // What was acknowledged without being lasting, and what others build on, is tried again for as long as there
            // is hope.
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
            handle.sleep(device.writing(batch.bytes.len() as u64) + device.sync).await;
        }
        if let Err(cause) = self.active.sync() {
            return self.failed(batch, "syncing", cause);
        }
        // Not before: from here on these groups are acknowledged.
        let took = handle.now() - begin;
        self.active.length += batch.bytes.len() as u64;
        self.through = self.through.max(batch.highest);
        self.last = (batch.groups, took);
        self.shared.end(batch, Ok(()), Some(took));
        Ok(Ok(()))
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

    /// Begins a new segment, unless this one is empty; the number of the one that comes next. `Err`: the log
    /// has failed.
    async fn rotate(&mut self, handle: &Handle) -> Result<Result<u64, WalError>, WalError> {
        let Segment { number, .. } = self.active.segment;
        if self.active.is_empty() {
            return Ok(Ok(number));
        }
        if let Some(device) = self.device {
            // The file and the directory.
            handle.sleep(device.sync * 2).await;
        }
        let next = Segment { number: number + 1, before: self.through };
        let Some(directory) = &self.directory else { return Ok(Err(WalError::Closed)) };
        match Active::begin(directory, self.shared.node, next) {
            Ok(active) => {
                self.active = active;
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
    /// A flusher that did not come to its end (its worker is gone) tells all who wait. The directory keeps
    /// the node's log as open: it has to be read again before anything is appended.
    fn drop(&mut self) {
        if !self.clean {
            let cause = Arc::new(std::io::Error::other("the log's flusher is gone"));
            let file = self.active.name.clone();
            self.stop(&WalError::Failed { doing: "flushing", file, cause });
        }
    }
}
