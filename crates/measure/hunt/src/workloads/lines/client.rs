//! [`Client`]: one task of the workload, with its accesses to the lines.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};
use latchwork_runtime::Time;
use latchwork_verbs::{GlobalAddr, VerbError};
use latchwork_workload::random::WorkloadRandom;

use super::call::{LineCall, Stamp};
use super::state::{ACCESSES_MAX, Lines};
use crate::WorldCheck;
use crate::checks::counter::Addition;
use crate::scenario::{LinesLoad, SeededBug};
use crate::world::Process;

/// One task.
pub(super) struct Client<'a> {
    load: &'a Lines,
    member: &'a Member,
    process: Process,
    random: RefCell<WorkloadRandom>,
    /// For each line, the time and the result of an earlier read. Some seeded bugs return it again.
    answered: RefCell<BTreeMap<usize, (Time, Stamp)>>,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        load: &'a Lines,
        member: &'a Member,
        process: Process,
        random: WorkloadRandom,
    ) -> Client<'a> {
        let (random, answered) = (RefCell::new(random), RefCell::default());
        Client { load, member, process, random, answered }
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    fn now(&self) -> Time {
        self.load.observer.time(&self.member.handle)
    }

    pub(super) async fn operation(&self) {
        let LinesLoad { lines, writes, upgrades, dropped, atomics, .. } = self.load.load;
        let at = match &self.load.zipfian {
            Some(zipfian) => zipfian.draw(&mut self.random.borrow_mut()),
            None => self.below(lines),
        } as usize;
        let kind = self.below(100);
        if kind < writes {
            self.observed("write", at, self.write(at)).await;
        } else if kind < writes + upgrades {
            self.observed("read and write", at, self.read_then_write(at)).await;
        } else if kind < writes + upgrades + dropped {
            self.observed("an access to drop", at, self.drop_midway(at)).await;
        } else if kind < writes + upgrades + dropped + atomics {
            self.count("add", 1).await;
        } else {
            self.observed("read", at, self.read(at)).await;
        }
    }

    fn line(&self, at: usize) -> GlobalAddr {
        self.load.lines.borrow()[at]
    }

    pub(super) async fn observed(
        &self,
        what: &'static str,
        at: usize,
        work: impl Future<Output = Result<(), MemoryError>>,
    ) {
        let about = (what, self.line(at).to_string(), ACCESSES_MAX);
        let entered = async {
            let _operation = self.member.memory.enter().await?;
            work.await
        };
        self.load.observer.operation(self.process, about, entered).await;
    }

    fn record(&self, at: usize, invoked: Time, saw: Stamp, wrote: Option<Stamp>) {
        let (process, line) = (self.process, self.line(at));
        let call = LineCall { process, line, invoked, returned: self.now(), saw, wrote };
        self.load.calls.borrow_mut().push(call);
    }

    fn not_torn(&self, at: usize, (first, last): (u64, u64)) -> Stamp {
        if first != last {
            let text = format!(
                "{} found {} torn: {} and {}",
                self.process,
                self.line(at),
                Stamp(first),
                Stamp(last)
            );
            self.load.observer.fail(WorldCheck::Values, text);
        }
        Stamp(first)
    }

    pub(super) async fn read(&self, at: usize) -> Result<(), MemoryError> {
        let invoked = self.now();
        if self.load.plant == Some(SeededBug::WaitsForNothing) && self.below(50) == 0 {
            std::future::pending::<()>().await;
        }
        let read = self.member.memory.read(self.line(at), |w| (w.u64(0), w.u64(w.len() - 8)));
        let saw = self.not_torn(at, read.await?);
        let (invoked, saw) = match (self.load.plant, self.answered.borrow().get(&at)) {
            (Some(SeededBug::Remembers), Some((_, remembered))) => (invoked, *remembered),
            (Some(SeededBug::Backdates), Some(remembered)) => *remembered,
            _ => (invoked, saw),
        };
        if self.load.plant.is_some() && self.below(2) == 0 {
            self.answered.borrow_mut().insert(at, (invoked, saw));
        }
        self.record(at, invoked, saw, None);
        Ok(())
    }

    /// Writes the next stamp into a line. Returns the stamp before and the new stamp.
    fn stamp(&self, at: usize, guard: &mut WriteGuard<'_>) -> (Stamp, Stamp) {
        let words = guard.words();
        let last = words.len() - 8;
        let found = self.not_torn(at, (words.u64(0), words.u64(last)));
        let stamp = found.next(self.process);
        if self.load.plant == Some(SeededBug::Forgets) && self.below(4) == 0 {
            return (found, stamp);
        }
        words.set_u64(0, stamp.0);
        words.set_u64(last, stamp.0);
        self.load.observer.tell(guard.addr(), Some(stamp.0));
        if self.load.plant != Some(SeededBug::ForgetsDirty) || self.below(4) > 0 {
            guard.mark_dirty(0..8);
            guard.mark_dirty(last..last + 8);
        }
        (found, stamp)
    }

    async fn write(&self, at: usize) -> Result<(), MemoryError> {
        let invoked = self.now();
        let write = self.member.memory.write(self.line(at), |guard| self.stamp(at, guard));
        let (saw, wrote) = write.await?;
        self.record(at, invoked, saw, Some(wrote));
        Ok(())
    }

    /// Reads a line and upgrades it. Writes only if no other node has written since the read, else
    /// starts again.
    async fn read_then_write(&self, at: usize) -> Result<(), MemoryError> {
        let (memory, line, invoked) = (&self.member.memory, self.line(at), self.now());
        let mut kept = None;
        loop {
            let version = match memory.try_read(line) {
                Ok(read) => read.version(),
                Err(need) => {
                    drop(kept.take());
                    kept = Some(memory.ensure(need).await?);
                    continue;
                }
            };
            let (upgrade, ticket) = memory.upgrade(version, kept.take()).await?;
            if upgrade != Upgrade::Kept {
                continue;
            }
            if ticket.is_none() {
                self.load
                    .observer
                    .fail(WorldCheck::Error, format!("{line} was kept and is not reserved"));
            }
            // Between the read and this write, another task of this node may have written, but no
            // other node.
            if let Ok(mut guard) = memory.try_write(line) {
                let (saw, wrote) = self.stamp(at, &mut guard);
                drop(guard);
                self.record(at, invoked, saw, Some(wrote));
                return Ok(());
            }
        }
    }

    async fn drop_midway(&self, at: usize) -> Result<(), MemoryError> {
        let mode = if self.below(2) == 0 { AccessMode::Shared } else { AccessMode::Exclusive };
        let patience = Duration::from_nanos(self.below(8000));
        let access = self.member.memory.ensure(Need { addr: self.line(at), mode });
        match self.member.handle.timeout(self.member.handle.now() + patience, access).await {
            Ok(ticket) => ticket.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Adds to the counter. With `add` = 0, only reads the counter.
    pub(super) async fn count(&self, what: &'static str, add: u64) {
        let counter = self.load.counter.get();
        let invoked = self.now();
        let (process, additions) = (self.process, &self.load.additions);
        let added = async {
            let at = additions.borrow().len();
            if add > 0 {
                // The addition is recorded without an answer first, because a task that dies may
                // have added or not.
                let addition = Addition { process, invoked, returned: Time::MAX, old: None };
                additions.borrow_mut().push(addition);
            }
            let old = self.member.memory.fetch_add(counter, 0, add).await;
            if let (1.., Ok(old)) = (add, &old) {
                let returned = self.now();
                additions.borrow_mut()[at] =
                    Addition { process, invoked, returned, old: Some(*old) };
            }
            match old {
                // Without a completion, the task does not know the answer. In a world with failing
                // batches this is permitted.
                Err(MemoryError::Fabric(VerbError::Ambiguous { .. }))
                    if self.load.connections_fail =>
                {
                    Ok(None)
                }
                old => old.map(Some),
            }
        };
        let about = (what, counter.to_string(), ACCESSES_MAX);
        let found = self.load.observer.operation(self.process, about, added).await;
        if add == 0 {
            self.load.counted.set(found.flatten());
        }
    }
}
