//! Reads, writes, upgrades and dropped accesses of single lines.
//!
//! ```text
//!   payload of a line:  | stamp 8 | ...... | the same stamp 8 |
//! ```
//!
//! Every writer adds one to the version that it finds and puts its own number beside it: each stamp is
//! written once, and the stamps of a line say in which order they were written. Torn and stale copies
//! cannot hide.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::{CoherentMemory, MemoryError, Mode, Need, Upgrade};
use latchwork_memnode::ObjectKind;
use latchwork_runtime::Time;
use latchwork_verbs::{GlobalAddr, VerbError};
use latchwork_workload::distribution::{YCSB_THETA, Zipfian};
use latchwork_workload::history::{Access, Call, RegisterOperation};
use latchwork_workload::random::Random;

use super::{FIND_LIMIT, Load, Record, Work, pass_time};
use crate::Check;
use crate::checks::Verdict;
use crate::checks::counter::{self, Addition};
use crate::checks::history::{self, Versioned};
use crate::scenario::{LinesLoad, Plant, Scenario};
use crate::world::{Observer, Process};

const LINE: ObjectKind = ObjectKind(7);
const COUNTER: &str = "counter";

/// So many waits for a line at most make an operation, as far as anybody may count on it.
const ACCESSES_MAX: u32 = 4;

/// What a line says: how often it was written, and by whom last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Stamp(u64);

impl Stamp {
    const BY: u32 = 20;

    fn next(self, by: Process) -> Stamp {
        Stamp((self.version() + 1) << Self::BY | u64::from(by.number))
    }

    pub(crate) fn version(self) -> u64 {
        self.0 >> Self::BY
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.0 & ((1 << Self::BY) - 1);
        write!(f, "version {} by task {by}", self.version())
    }
}

/// A call on one line, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineCall {
    pub(crate) process: Process,
    pub(crate) line: GlobalAddr,
    pub(crate) invoked: Time,
    pub(crate) returned: Time,
    pub(crate) saw: Stamp,
    pub(crate) wrote: Option<Stamp>,
}

impl Versioned for LineCall {
    type Value = Stamp;

    fn timed(&self) -> Call<RegisterOperation<Stamp>> {
        let operation = match self.wrote {
            Some(stamp) => RegisterOperation::Write(stamp),
            None => RegisterOperation::Read(self.saw),
        };
        Call { invoked: self.invoked, returned: Some(self.returned), operation }
    }

    fn access(&self) -> Access<u32, u64> {
        Access {
            process: self.process.number,
            object: self.line.bits(),
            read: Some(self.saw.version()),
            wrote: self.wrote.map(Stamp::version),
        }
    }
}

impl fmt::Display for LineCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LineCall { process, line, invoked, returned, saw, .. } = self;
        write!(f, "{line}: {process}: {invoked} to {returned}: saw {saw}")?;
        self.wrote.map_or(Ok(()), |wrote| write!(f, ", wrote {wrote}"))
    }
}

/// The workload.
pub(crate) struct Lines {
    load: LinesLoad,
    operations: u64,
    plant: Option<Plant>,
    seed: u64,
    connections_fail: bool,
    observer: Rc<Observer>,
    zipfian: Option<Zipfian>,
    lines: RefCell<Vec<GlobalAddr>>,
    calls: RefCell<Vec<LineCall>>,
    /// A line for global atomics, and what was added to it.
    counter: Cell<GlobalAddr>,
    additions: RefCell<Vec<Addition>>,
    counted: Cell<Option<u64>>,
}

/// What the clients saw.
#[derive(Default)]
pub(crate) struct LinesRecord {
    calls: Vec<LineCall>,
    additions: Vec<Addition>,
    counted: Option<u64>,
}

impl Lines {
    pub(crate) fn new(scenario: &Scenario, load: &LinesLoad, observer: &Rc<Observer>) -> Lines {
        Lines {
            operations: scenario.operations,
            plant: scenario.plant,
            seed: scenario.seed,
            connections_fail: scenario.faults.fail_one_in > 0,
            observer: observer.clone(),
            zipfian: load.zipfian.then(|| Zipfian::new(load.lines, YCSB_THETA).ok()).flatten(),
            lines: RefCell::default(),
            calls: RefCell::default(),
            counter: Cell::new(GlobalAddr::NULL),
            additions: RefCell::default(),
            counted: Cell::new(None),
            load: load.clone(),
        }
    }
}

impl Load for Lines {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            for _ in 0..self.load.lines {
                let line = make(&member).await.map_err(|error| error.to_string())?;
                self.observer.tell(line, Some(Stamp::default().0));
                self.lines.borrow_mut().push(line);
            }
            let counter = make(&member).await.map_err(|error| error.to_string())?;
            // From here on it is used by atomics alone, which know no caches.
            let node = member.memory.node();
            while node.cache().find(counter).is_some() || node.is_under_way(counter) {
                member.memory.evict(counter);
                member.handle.sleep(Duration::from_micros(10)).await;
            }
            self.counter.set(counter);
            Ok(())
        })
    }

    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let port = member.memory.port();
            let lines = self.lines.borrow().clone();
            for (at, line) in lines.iter().enumerate() {
                let name = format!("line {at}");
                let done = member.catalogue.register(port, &name, LINE, line.bits()).await;
                done.map_err(|error| error.to_string())?;
            }
            let counter = self.counter.get().bits();
            let done = member.catalogue.register(port, COUNTER, LINE, counter).await;
            done.map(drop).map_err(|error| error.to_string())
        })
    }

    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let deadline = member.handle.now() + FIND_LIMIT;
            let find = async |name: &str| {
                let port = member.memory.port();
                let found = member.catalogue.wait_for(port, &member.handle, name, deadline).await;
                found.map(|entry| GlobalAddr::from_bits(entry.value)).map_err(|e| e.to_string())
            };
            let mut lines = Vec::new();
            for at in 0..self.load.lines {
                lines.push(find(&format!("line {at}")).await?);
            }
            *self.lines.borrow_mut() = lines;
            self.counter.set(find(COUNTER).await?);
            Ok(())
        })
    }

    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let random = Random::for_stream(self.seed, u64::from(process.number) + 1);
            let random = RefCell::new(random);
            let client = Client {
                load: &self,
                member: &member,
                process,
                random,
                answered: RefCell::default(),
            };
            for _ in 0..self.operations {
                client.operation().await;
                pass_time(&member).await;
            }
        })
    }

    fn finish(self: Rc<Self>, _member: Member, _process: Process) -> Work<()> {
        Box::pin(async {})
    }

    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let random = RefCell::new(Random::new(0));
            let client = Client {
                load: &self,
                member: &member,
                process,
                random,
                answered: RefCell::default(),
            };
            for at in 0..self.load.lines as usize {
                client.observed("read at the end", at, client.read(at)).await;
            }
            client.count("count at the end", 0).await;
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        Some(self.load.lines + 1)
    }

    fn take(&self) -> Record {
        Record::Lines(LinesRecord {
            calls: self.calls.take(),
            additions: self.additions.take(),
            counted: self.counted.get(),
        })
    }
}

impl LinesRecord {
    pub(crate) fn merge(&mut self, other: LinesRecord) {
        self.calls.extend(other.calls);
        self.additions.extend(other.additions);
        self.counted = self.counted.or(other.counted);
    }

    pub(crate) fn judge(&self) -> Verdict {
        counter::check(&self.additions, self.counted)?;
        history::check(Stamp::default(), &self.calls)
    }
}

async fn make(member: &Member) -> Result<GlobalAddr, MemoryError> {
    let line = member.memory.allocate().await?;
    let clear = |guard: &mut WriteGuard<'_>| {
        let end = guard.words().len();
        guard.words().clear(0..end);
        guard.mark_dirty(0..end);
    };
    member.memory.write(line, clear).await?;
    Ok(line)
}

/// One task.
struct Client<'a> {
    load: &'a Lines,
    member: &'a Member,
    process: Process,
    random: RefCell<Random>,
    /// When each line was read, and what it said, for plants that remember.
    answered: RefCell<BTreeMap<usize, (Time, Stamp)>>,
}

impl Client<'_> {
    fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    fn now(&self) -> Time {
        self.load.observer.time(&self.member.handle)
    }

    async fn operation(&self) {
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

    async fn observed(
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
            self.load.observer.fail(Check::Values, text);
        }
        Stamp(first)
    }

    async fn read(&self, at: usize) -> Result<(), MemoryError> {
        let invoked = self.now();
        if self.load.plant == Some(Plant::WaitsForNothing) && self.below(50) == 0 {
            std::future::pending::<()>().await;
        }
        let read = self.member.memory.read(self.line(at), |w| (w.u64(0), w.u64(w.len() - 8)));
        let saw = self.not_torn(at, read.await?);
        let (invoked, saw) = match (self.load.plant, self.answered.borrow().get(&at)) {
            (Some(Plant::Remembers), Some((_, remembered))) => (invoked, *remembered),
            (Some(Plant::Backdates), Some(remembered)) => *remembered,
            _ => (invoked, saw),
        };
        if self.load.plant.is_some() && self.below(2) == 0 {
            self.answered.borrow_mut().insert(at, (invoked, saw));
        }
        self.record(at, invoked, saw, None);
        Ok(())
    }

    /// Writes the next stamp. Returns what stood there, and what stands there now.
    fn stamp(&self, at: usize, guard: &mut WriteGuard<'_>) -> (Stamp, Stamp) {
        let words = guard.words();
        let last = words.len() - 8;
        let found = self.not_torn(at, (words.u64(0), words.u64(last)));
        let stamp = found.next(self.process);
        if self.load.plant == Some(Plant::Forgets) && self.below(4) == 0 {
            return (found, stamp);
        }
        words.set_u64(0, stamp.0);
        words.set_u64(last, stamp.0);
        self.load.observer.tell(guard.addr(), Some(stamp.0));
        if self.load.plant != Some(Plant::ForgetsDirty) || self.below(4) > 0 {
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

    /// Reads, decides to write, and writes only what the reader saw.
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
                    .fail(Check::Error, format!("{line} was kept and is not reserved"));
            }
            // Another task of the node may have come between; another node may not.
            if let Ok(mut guard) = memory.try_write(line) {
                let (saw, wrote) = self.stamp(at, &mut guard);
                drop(guard);
                self.record(at, invoked, saw, Some(wrote));
                return Ok(());
            }
        }
    }

    async fn drop_midway(&self, at: usize) -> Result<(), MemoryError> {
        let mode = if self.below(2) == 0 { Mode::Shared } else { Mode::Exclusive };
        let patience = Duration::from_nanos(self.below(8000));
        let access = self.member.memory.ensure(Need { addr: self.line(at), mode });
        match self.member.handle.timeout(self.member.handle.now() + patience, access).await {
            Ok(ticket) => ticket.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Adds to the counter; nothing is added by a task that only looks.
    async fn count(&self, what: &'static str, add: u64) {
        let counter = self.load.counter.get();
        let invoked = self.now();
        let (process, additions) = (self.process, &self.load.additions);
        let added = async {
            let at = additions.borrow().len();
            if add > 0 {
                // Open at first: who dies in its middle may have added or not.
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
                // Only who waits for a completion can tell, and a failing connection has none.
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
