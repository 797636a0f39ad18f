//! Write-backs in place: the changes of a line go to memory while the node keeps the line
//! ([`CoherentMemory::persist`](latchwork_coherence::CoherentMemory::persist)).
//!
//! The protocol copies the dirty bytes into a write-back slot and posts them. Writers are shut out
//! for the time of the copy only. So a line may be dirty again before its write-back is over, and
//! the caller waits for the first one that began after its call.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::{DirtyBounds, FrameId};
use latchwork_coherence::MemoryError;
use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::in_place::{Attempt, Persist, WriteBack};
use crate::inner::Inner;
use crate::lines::Worker;
use crate::protocol::CoherenceProtocol;
use crate::worker_core::WorkerCore;
use crate::write_back::Slot;

/// The pause before the first further attempt, doubled with each, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_micros(2);
const PAUSE_MAX: Duration = Duration::from_micros(500);

impl WorkerCore {
    /// Copies the dirty bytes of the line in frame `id`, or with `whole` all its bytes, and counts
    /// the line as clean. This node holds the line exclusively. Call this under the lock of the
    /// line's shard. `None`, and the line stays dirty: a writer is in the latch, or no slot is
    /// free.
    pub fn copy_in_place(
        &self,
        addr: GlobalAddr,
        id: FrameId,
        whole: bool,
    ) -> Option<(DirtyBounds, Slot)> {
        if self.held(id).is_some() {
            return None;
        }
        let cache = &self.node.cache;
        let frame = cache.frame(id);
        let copied = frame.between_writes(|| {
            let changed = frame.dirty();
            let dirty = match whole {
                true => DirtyBounds::of(0..cache.line_size()).union(self.take_dirty(id)),
                false => self.take_dirty(id),
            };
            let (line, range) = (cache.line(id), dirty.range());
            strict_assert!(!range.is_empty(), "a clean line is written back in place");
            let slot = self.write_backs.copy_out(addr.node(), &self.port, line, range);
            if slot.is_none() {
                frame.set_dirty(changed);
            }
            Some((dirty, slot?))
        });
        let (dirty, slot) = copied.flatten()?;
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.copy(dirty.range().len()));
            frame.hold_until(self.handle.now().as_nanos());
        }
        Some((dirty, slot))
    }

    /// Reports the end of a write-back in place. Call this under the lock of the line's shard.
    pub fn persisted(&self, addr: GlobalAddr, end: Result<(), VerbError>) {
        self.node.write_backs_in_place.end(addr, end);
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// Begins a write-back of the line in place, if there is anything to write back, and if that is
    /// possible now.
    pub(crate) fn persist(&self, addr: GlobalAddr) -> Result<Attempt, MemoryError> {
        let mut records = self.node.records.shard(addr).lock();
        let record = self.record(&mut records, addr);
        if let Some(error) = record.local.failed {
            return Err(error.into());
        }
        let begun = self.node.protocol.persist(&mut self.site(addr, record));
        let failed = record.local.failed;
        let attempt = match begun {
            _ if failed.is_some() => Attempt::NotNow,
            Persist::Done => Attempt::Done,
            Persist::NotNow => Attempt::NotNow,
            Persist::Begun => Attempt::InFlight(self.node_core.write_backs_in_place.of(addr), true),
            Persist::InFlight { has_all } => {
                Attempt::InFlight(self.node_core.write_backs_in_place.of(addr), has_all)
            }
        };
        self.finish(&mut records, addr);
        failed.map_or(Ok(attempt), |error| Err(error.into()))
    }
}

impl Worker {
    /// Ends when memory has what this node had written to the line when the call began.
    pub(crate) async fn write_back_in_place(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        let mut before: Option<Arc<WriteBack>> = None;
        let mut pause = PAUSE;
        loop {
            let attempt = self.lines().persist(addr)?;
            match attempt {
                Attempt::Done => return Ok(()),
                Attempt::InFlight(write_back, has_all) => {
                    // One that began after the first one has ended began after the call.
                    let later = before.is_some_and(|first| !Arc::ptr_eq(&first, &write_back));
                    poll_fn(|cx| write_back.poll(cx)).await?;
                    if has_all || later {
                        return Ok(());
                    }
                    before = Some(write_back);
                }
                Attempt::NotNow => {
                    self.core.handle.sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
}
