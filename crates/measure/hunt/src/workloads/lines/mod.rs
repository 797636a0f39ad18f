//! Reads, writes, upgrades and dropped accesses of single lines.
//!
//! ```text
//!   payload of a line:  | stamp 8 | ...... | the same stamp 8 |
//! ```
//!
//! Every writer adds one to the version in the line and adds its own number: that is a *stamp*. So
//! each stamp is written once, and the stamps of a line show the order of its writes. Torn and
//! stale copies are always visible.

mod client;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_history::calls::{Access, Call, RegisterOperation};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::distribution::{YCSB_THETA, Zipfian};
use latchwork_workload::random::WorkloadRandom;

use super::{FIND_LIMIT, Load, Record, Work, named, pass_time};
use crate::checks::Verdict;
use crate::checks::counter::{self, Addition};
use crate::checks::history::{self, Versioned};
use crate::scenario::{LinesLoad, Scenario, SeededBug};
use crate::world::{Observer, Process};
use client::Client;

const COUNTER: &str = "counter";

/// The most waits for a line in one operation, as an estimate.
const ACCESSES_MAX: u32 = 4;

/// A stamp: the number of writes of a line, and the last writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Stamp(u64);

impl Stamp {
    const BY: u32 = 20;

    /// A stamp from the bits in a line.
    pub(super) fn of(bits: u64) -> Stamp {
        Stamp(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn next(self, by: Process) -> Stamp {
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

/// A call on one line, with its result.
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
    plant: Option<SeededBug>,
    seed: u64,
    connections_fail: bool,
    observer: Rc<Observer>,
    zipfian: Option<Zipfian>,
    lines: RefCell<Vec<GlobalAddr>>,
    calls: RefCell<Vec<LineCall>>,
    /// A line for global atomics. Next to it are the recorded additions.
    counter: Cell<GlobalAddr>,
    additions: RefCell<Vec<Addition>>,
    counted: Cell<Option<u64>>,
}

/// The record of all clients.
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
            // From here on only atomics use the line, and atomics bypass the caches.
            let node = member.memory.node();
            while node.cache().find(counter).is_some() || node.is_in_flight(counter) {
                member.memory.evict(counter);
                member.handle.sleep(Duration::from_micros(10)).await;
            }
            self.counter.set(counter);
            Ok(())
        })
    }

    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let lines = self.lines.borrow().clone();
            named::publish_all(&member, &lines).await?;
            named::publish(&member, COUNTER, self.counter.get()).await
        })
    }

    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let deadline = member.handle.now() + FIND_LIMIT;
            let lines = named::find_all(&member, self.load.lines, deadline).await?;
            *self.lines.borrow_mut() = lines;
            self.counter.set(named::find(&member, COUNTER, deadline).await?);
            Ok(())
        })
    }

    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let random = WorkloadRandom::for_stream(self.seed, u64::from(process.number) + 1);
            let client = Client::new(&self, &member, process, random);
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
            let client = Client::new(&self, &member, process, WorkloadRandom::new(0));
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
