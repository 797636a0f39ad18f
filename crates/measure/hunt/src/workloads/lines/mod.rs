//! The workload `lines`: reads, writes, upgrades and dropped accesses of single lines.
//!
//! ```text
//!   payload of a line:  | stamp 8 | ...... | the same stamp 8 |
//! ```
//!
//! The content of a line is a *stamp*: a version and the number of the writer. Each write
//! increments the version. So each stamp is written once, and the stamps show the order of the
//! writes. Different stamps at the two ends show a torn copy.

mod record;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};
use latchwork_runtime::Time;
use latchwork_verbs::{GlobalAddr, VerbError};
use latchwork_workload::distribution::Zipfian;

use super::client::{Client, Phase, Work, popular};
use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::checks::counter::Addition;
use crate::scenario::{LinesLoad, SeededBug};

pub(super) use record::{LinesRecord, Stamp};

/// Maximum number of waits for a line in one operation. This is an estimate.
const ACCESSES_MAX: u32 = 4;

/// The workload. The last root is the counter, which only global atomics use.
pub(super) struct Lines {
    load: LinesLoad,
    zipfian: Option<Zipfian>,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Write,
    ReadThenWrite,
    DropMidway,
    Add,
    Read,
}

impl Lines {
    pub(super) fn new(load: &LinesLoad) -> Lines {
        Lines { load: load.clone(), zipfian: popular(load.zipfian, load.lines) }
    }
}

impl Work for Lines {
    const STREAM: u64 = 1;
    /// For each line, the time and the result of an earlier read. Some seeded bugs return it again.
    type Task = RefCell<BTreeMap<usize, (Time, Stamp)>>;
    type Operation = (Kind, usize);
    type Record = LinesRecord;

    async fn set_up(client: &Client<Self>) -> Result<Vec<GlobalAddr>, String> {
        let roots = client.new_lines(client.of().roots()).await;
        let roots = roots.map_err(|error| error.to_string())?;
        let [lines @ .., counter] = &roots[..] else { return Ok(roots) };
        for line in lines {
            client.shared.observer.tell(*line, Some(Stamp::default().bits()));
        }
        // From here on only global atomics use the line. Atomics bypass the caches, so no cache may
        // have the line.
        let (member, counter) = (&client.member, *counter);
        let node = member.memory.node();
        while node.cache().find(counter).is_some() || node.is_in_flight(counter) {
            member.memory.evict(counter);
            member.handle.sleep(Duration::from_micros(10)).await;
        }
        Ok(roots)
    }

    async fn begin(_client: &Client<Self>, _phase: Phase) -> Option<Self::Task> {
        Some(RefCell::default())
    }

    fn draw(client: &Client<Self>) -> (Kind, usize) {
        let LinesLoad { lines, writes, upgrades, dropped, atomics, .. } = client.of().load;
        let at = client.any_line(lines, client.of().zipfian.as_ref());
        let shares = [
            (writes, Kind::Write),
            (upgrades, Kind::ReadThenWrite),
            (dropped, Kind::DropMidway),
            (atomics, Kind::Add),
        ];
        (client.kind(&shares, Kind::Read), at)
    }

    async fn apply(client: &Client<Self>, (kind, at): (Kind, usize)) {
        match kind {
            Kind::Write => client.at("write", at, client.write(at)).await,
            Kind::ReadThenWrite => {
                client.at("read and write", at, client.read_then_write(at)).await;
            }
            Kind::DropMidway => client.at("an access to drop", at, client.drop_midway(at)).await,
            Kind::Add => _ = client.count("add", 1).await,
            Kind::Read => client.at("read", at, client.read(at)).await,
        }
    }

    async fn inspect(client: &Client<Self>) {
        client.begin(Phase::Inspect).await;
        for at in 0..client.of().load.lines as usize {
            client.at("read at the end", at, client.read(at)).await;
        }
        let counted = client.count("count at the end", 0).await;
        client.record(|record| record.counted = counted);
    }

    fn roots(&self) -> u64 {
        self.load.lines + 1
    }

    fn lines_in_use(&self, _record: &LinesRecord) -> Option<u64> {
        Some(self.roots())
    }

    fn merge(record: &mut LinesRecord, more: LinesRecord) {
        record.merge(more);
    }

    fn forget_unseen(record: &mut LinesRecord, dead: &BTreeMap<usize, Time>) {
        record.forget_unseen(|node| dead.contains_key(&node));
    }

    fn judge(&self, record: &LinesRecord) -> CheckResult {
        record.judge()
    }
}

impl Client<Lines> {
    async fn at(
        &self,
        what: &'static str,
        at: usize,
        work: impl Future<Output = Result<(), MemoryError>>,
    ) {
        self.entered(what, self.root(at), ACCESSES_MAX, work).await;
    }

    async fn read(&self, at: usize) -> Result<(), MemoryError> {
        let invoked = self.now();
        if self.has_bug(SeededBug::WaitsForNothing) && self.below(50) == 0 {
            std::future::pending::<()>().await;
        }
        let read = self.member.memory.read(self.root(at), |w| (w.u64(0), w.u64(w.len() - 8)));
        let saw = self.whole(at, read.await?);
        let plant = self.shared.scenario.plant;
        let (invoked, saw) = match (plant, self.task().borrow().get(&at)) {
            (Some(SeededBug::Remembers), Some((_, remembered))) => (invoked, *remembered),
            (Some(SeededBug::Backdates), Some(remembered)) => *remembered,
            _ => (invoked, saw),
        };
        if plant.is_some() && self.below(2) == 0 {
            self.task().borrow_mut().insert(at, (invoked, saw));
        }
        self.add_call(at, invoked, saw, None);
        Ok(())
    }

    /// Writes the next stamp into a line. Returns the stamp before and the new stamp.
    fn stamp(&self, at: usize, guard: &mut WriteGuard<'_>) -> (Stamp, Stamp) {
        let words = guard.words();
        let last = words.len() - 8;
        let found = self.whole(at, (words.u64(0), words.u64(last)));
        let stamp = found.next(self.process);
        if self.has_bug(SeededBug::Forgets) && self.below(4) == 0 {
            return (found, stamp);
        }
        words.set_u64(0, stamp.bits());
        words.set_u64(last, stamp.bits());
        self.shared.observer.tell_by(self.process, guard.addr(), stamp.bits());
        if !self.has_bug(SeededBug::ForgetsDirty) || self.below(4) > 0 {
            guard.mark_dirty(0..8);
            guard.mark_dirty(last..last + 8);
        }
        (found, stamp)
    }

    async fn write(&self, at: usize) -> Result<(), MemoryError> {
        let invoked = self.now();
        let write = self.member.memory.write(self.root(at), |guard| self.stamp(at, guard));
        let (saw, wrote) = write.await?;
        self.add_call(at, invoked, saw, Some(wrote));
        Ok(())
    }

    /// Reads a line and upgrades it. Writes only if no other node has written since the read, else
    /// starts again.
    async fn read_then_write(&self, at: usize) -> Result<(), MemoryError> {
        let (memory, line, invoked) = (&self.member.memory, self.root(at), self.now());
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
                self.wrong(WorldCheck::Error, format!("{line} was kept and is not reserved"));
            }
            // Between the read and this write, another task of this node may have written, but no
            // other node.
            if let Ok(mut guard) = memory.try_write(line) {
                let (saw, wrote) = self.stamp(at, &mut guard);
                drop(guard);
                self.add_call(at, invoked, saw, Some(wrote));
                return Ok(());
            }
        }
    }

    async fn drop_midway(&self, at: usize) -> Result<(), MemoryError> {
        let mode = if self.below(2) == 0 { AccessMode::Shared } else { AccessMode::Exclusive };
        let patience = Duration::from_nanos(self.below(8000));
        let access = self.member.memory.ensure(Need { addr: self.root(at), mode });
        match self.member.handle.timeout(self.member.handle.now() + patience, access).await {
            Ok(ticket) => ticket.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Adds to the counter, and returns its value before. With `add` = 0, only reads the counter.
    async fn count(&self, what: &'static str, add: u64) -> Option<u64> {
        let counter = self.root(self.of().load.lines as usize);
        let (process, invoked) = (self.process, self.now());
        let added = async {
            let at = self.shared.record.borrow().additions.len();
            if add > 0 {
                // The addition is recorded without an answer first, because a task that dies may
                // have added or not.
                let addition = Addition { process, invoked, returned: Time::MAX, old: None };
                self.record(|record| record.additions.push(addition));
            }
            let old = self.member.memory.fetch_add(counter, 0, add).await;
            if let (1.., Ok(old)) = (add, &old) {
                let returned = self.now();
                let addition = Addition { process, invoked, returned, old: Some(*old) };
                self.record(|record| record.additions[at] = addition);
            }
            match old {
                // Without a completion, the task does not know the answer. In a world with failing
                // batches this is permitted.
                Err(MemoryError::Fabric(VerbError::Ambiguous { .. }))
                    if self.shared.scenario.faults.fail_one_in > 0 =>
                {
                    Ok(None)
                }
                old => old.map(Some),
            }
        };
        self.observed(what, counter, ACCESSES_MAX, added).await.flatten()
    }
}
