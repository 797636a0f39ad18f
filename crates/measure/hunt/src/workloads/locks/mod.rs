//! The workload `locks`: transactions that lock lines. A transfer and an audit use two-phase
//! locking and wait for no lock. Other operations lock only the line that they write, or nothing.
//!
//! ```text
//!   payload of a line:  | stamp 8 | amount 8 | flag 8 | ...... | the same stamp 8 |
//! ```
//!
//! | operation | locks | promise to check |
//! | --- | --- | --- |
//! | transfer | locks or upgrades what it writes, to write; locks what it only reads, to read | nothing changes under its locks, and the sum of all amounts is 0 |
//! | audit | all lines to read | it reads the sum 0 |
//! | flag | its own line to write; reads the other line of the pair without a lock | the flags of a pair are never both set |
//! | look | nothing; half of them wait for locks, half do not | all reads fit one order of all writes |
//!
//! In a world the workload also counts the owners of each lock. The count must show that a write
//! lock has one owner and no reader beside the owner.

mod client;
mod record;
mod state;

use std::rc::Rc;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory;
use latchwork_workload::random::WorkloadRandom;

use super::load::{FIND_LIMIT, Load, Work, pass_time};
use super::named;
use super::record::Record;
use crate::world::Process;
use client::Client;

pub(crate) use record::LocksRecord;
pub(crate) use state::Locks;

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
