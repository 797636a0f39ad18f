//! Transactions that lock lines by two phases and wait for no lock, and such that lock only what
//! they write.
//!
//! ```text
//!   payload of a line:  | stamp 8 | amount 8 | flag 8 | ...... | the same stamp 8 |
//! ```
//!
//! | operation | locks | so that |
//! | --- | --- | --- |
//! | transfer | to write or by upgrades what it writes, to read what it only reads | nothing changes under its locks, and all amounts together are 0 |
//! | audit | all lines to read | it sees that |
//! | flag | its own line to write; looks at the other of the pair without | never are both flags of a pair set |
//! | look | nothing; half of them wait for locks, half do not | they see one order of all writes |
//!
//! In a world it is also counted beside the locks who has which: those that exclude each other
//! never meet.

mod client;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::random::Random;

use super::lines::{LineCall, Stamp};
use super::{FIND_LIMIT, Load, Record, Work, named, pass_time};
use crate::checks::{Verdict, history};
use crate::scenario::{LocksLoad, Plant, Scenario};
use crate::world::{Observer, Process};
use client::Client;

/// The workload.
pub(crate) struct Locks {
    load: LocksLoad,
    operations: u64,
    plant: Option<Plant>,
    seed: u64,
    observer: Rc<Observer>,
    lines: RefCell<Vec<GlobalAddr>>,
    /// Who has locked each line, as far as this thread knows: so many to read, or -1 for one to
    /// write.
    holders: RefCell<Vec<i64>>,
    calls: RefCell<Vec<LineCall>>,
    /// Of this thread alone: there may be others that it does not know of.
    alone: Cell<bool>,
}

/// What the clients saw.
#[derive(Default)]
pub(crate) struct LocksRecord {
    calls: Vec<LineCall>,
}

impl Locks {
    pub(crate) fn new(scenario: &Scenario, load: &LocksLoad, observer: &Rc<Observer>) -> Locks {
        Locks {
            operations: scenario.operations,
            plant: scenario.plant,
            seed: scenario.seed,
            observer: observer.clone(),
            lines: RefCell::default(),
            holders: RefCell::new(vec![0; load.lines as usize]),
            calls: RefCell::default(),
            alone: Cell::new(true),
            load: load.clone(),
        }
    }
}

impl Load for Locks {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            for _ in 0..self.load.lines {
                let line = member.memory.allocate().await.map_err(|error| error.to_string())?;
                let clear = |guard: &mut WriteGuard<'_>| {
                    let end = guard.words().len();
                    guard.words().clear(0..end);
                    guard.mark_dirty(0..end);
                };
                member.memory.write(line, clear).await.map_err(|error| error.to_string())?;
                self.observer.tell(line, Some(0));
                self.lines.borrow_mut().push(line);
            }
            Ok(())
        })
    }

    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            self.alone.set(false);
            let lines = self.lines.borrow().clone();
            named::publish_all(&member, &lines).await
        })
    }

    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            self.alone.set(false);
            let deadline = member.handle.now() + FIND_LIMIT;
            *self.lines.borrow_mut() = named::find_all(&member, self.load.lines, deadline).await?;
            Ok(())
        })
    }

    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let random = Random::for_stream(self.seed, u64::from(process.number) + 1);
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
            let client = Client::new(&self, &member, process, Random::new(0));
            client.look_at_all().await;
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        Some(self.load.lines)
    }

    fn take(&self) -> Record {
        Record::Locks(LocksRecord { calls: self.calls.take() })
    }
}

impl LocksRecord {
    pub(crate) fn merge(&mut self, other: LocksRecord) {
        self.calls.extend(other.calls);
    }

    pub(crate) fn judge(&self) -> Verdict {
        history::check(Stamp::default(), &self.calls)
    }
}
