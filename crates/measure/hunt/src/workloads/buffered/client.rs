//! [`Client`]: one task of the workload. The task writes, fences, updates and reads, and records
//! each action.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::{Member, Worker};
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_relaxed::{RelaxedError, WriteBuffer};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::random::WorkloadRandom;

use super::state::{ACCESSES_MAX, Buffered, SLOT};
use crate::WorldCheck;
use crate::checks::buffers::{BufferAction, Stamp, Who};
use crate::scenario::{BufferedLoad, SeededBug};
use crate::world::Process;

/// One task.
pub(super) struct Client<'a> {
    pub(super) load: &'a Rc<Buffered>,
    pub(super) member: &'a Member,
    pub(super) process: Process,
    pub(super) who: Who,
    pub(super) buffer: WriteBuffer<Worker>,
    pub(super) random: RefCell<WorkloadRandom>,
    /// The number of the task's last write.
    pub(super) number: Cell<u64>,
}

impl Client<'_> {
    fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    fn add(&self, began: Stamp, deed: BufferAction) {
        self.load.add(self.member, Some(self.who), began, deed);
    }

    pub(super) async fn operation(&self) {
        let BufferedLoad { lines, writes, fences, updates, dropped, .. } = self.load.load;
        let at = match &self.load.zipfian {
            Some(zipfian) => zipfian.draw(&mut self.random.borrow_mut()),
            None => self.below(lines),
        } as usize;
        let kind = self.below(100);
        // A write that is dropped before it is issued has no effect. A fence that is dropped needs
        // no end.
        let patience = if self.below(100) < dropped {
            Duration::from_nanos(self.below(8000))
        } else {
            Duration::from_secs(1_000_000)
        };
        if kind < writes {
            self.observed("write", at, patience, self.write(at)).await;
        } else if kind < writes + fences {
            self.observed("fence, not on", at, patience, self.fence()).await;
        } else if kind < writes + fences + updates {
            self.observed("update", at, patience, self.update(at)).await;
        } else {
            self.observed("read", at, patience, self.read(at)).await;
        }
    }

    async fn observed(
        &self,
        what: &'static str,
        at: usize,
        patience: Duration,
        work: impl Future<Output = Result<(), RelaxedError>>,
    ) {
        let entered = async {
            let _operation = self.member.memory.enter().await?;
            let until = self.member.handle.now() + patience;
            match self.member.handle.timeout(until, std::pin::pin!(work)).await {
                Ok(Ok(())) | Err(_) => Ok(()),
                Ok(Err(RelaxedError::Memory(error))) => Err(error),
                Ok(Err(RelaxedError::Lost(lost))) => {
                    self.load.lost(self.member, self.who, lost);
                    Ok(())
                }
                // The update was not issued, because its fence or its line took too long. This
                // error is permitted if writes may be late.
                Ok(Err(RelaxedError::HeldBack(_))) if self.load.may_be_late() => Ok(()),
                Ok(Err(error)) => {
                    self.load
                        .observer
                        .fail(WorldCheck::Error, format!("{}: {error}", self.process));
                    Ok(())
                }
            }
        };
        let about = (what, self.line(at).to_string(), ACCESSES_MAX);
        self.load.observer.operation::<(), MemoryError>(self.process, about, entered).await;
    }

    fn line(&self, at: usize) -> GlobalAddr {
        self.load.lines.borrow()[at]
    }

    fn next(&self) -> u64 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    async fn write(&self, line: usize) -> Result<(), RelaxedError> {
        let (began, number) = (self.load.stamp(self.member), self.next());
        let bytes = number.to_le_bytes();
        let forgets = self.load.plant == Some(SeededBug::Forgets) && self.below(20) == 0;
        if !forgets {
            self.buffer.write(self.line(line), SLOT * self.who.task, &bytes).await?;
        }
        // The worker's clock may be ahead of the world's time. The later of both counts, because
        // the check uses the world's time.
        let issued = self.member.handle.now();
        let latest: Time = issued.max(self.load.observer.time(&self.member.handle));
        let by = latest + self.load.settings.deadline;
        self.add(began, BufferAction::Wrote { line, number, issued, by });
        Ok(())
    }

    async fn fence(&self) -> Result<(), RelaxedError> {
        let began = self.load.stamp(self.member);
        let ended = self.buffer.flush().await;
        if let Err(RelaxedError::Lost(_)) | Ok(()) = ended {
            self.add(began, BufferAction::Fenced { left: false });
        }
        ended
    }

    async fn update(&self, line: usize) -> Result<(), RelaxedError> {
        let (began, number) = (self.load.stamp(self.member), self.next());
        self.add(began, BufferAction::Updating { line, number });
        let slot = SLOT * self.who.task;
        let change = |guard: &mut WriteGuard<'_>| {
            guard.words().set_u64(slot, number);
            guard.mark_dirty(slot..slot + SLOT);
        };
        self.buffer.update(self.line(line), change).await?;
        self.add(began, BufferAction::Updated { line, number });
        Ok(())
    }

    async fn read(&self, line: usize) -> Result<(), RelaxedError> {
        let began = self.load.stamp(self.member);
        let mut bytes = vec![0; SLOT * self.load.slots];
        self.buffer.read(self.line(line), 0, &mut bytes).await?;
        let slots = bytes.chunks_exact(SLOT);
        let slots = slots.map(|slot| slot.try_into().map_or(0, u64::from_le_bytes)).collect();
        self.add(began, BufferAction::Saw { line, slots });
        Ok(())
    }
}
