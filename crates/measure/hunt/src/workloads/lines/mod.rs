//! The workload `lines`: reads, writes, upgrades and dropped accesses of single lines.
//!
//! ```text
//!   payload of a line:  | stamp 8 | ...... | the same stamp 8 |
//! ```
//!
//! The content of a line is a *stamp*: a version and the number of the writer. Each write
//! increments the version. So each stamp is written once, and the stamps show the order of the
//! writes. Different stamps at the two ends show a torn copy.

mod call;
mod client;
mod record;
mod state;

use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_verbs::GlobalAddr;
use latchwork_workload::random::WorkloadRandom;

use super::load::{FIND_LIMIT, Load, Work, pass_time};
use super::named;
use super::record::Record;
use crate::world::Process;
use client::Client;

pub(crate) use call::{LineCall, Stamp};
pub(crate) use record::LinesRecord;
pub(crate) use state::Lines;

const COUNTER: &str = "counter";

impl Load for Lines {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            for _ in 0..self.load.lines {
                let line = make(&member).await.map_err(|error| error.to_string())?;
                self.observer.tell(line, Some(Stamp::default().0));
                self.lines.borrow_mut().push(line);
            }
            let counter = make(&member).await.map_err(|error| error.to_string())?;
            // From here on only global atomics use the line. Atomics bypass the caches, so no cache
            // may have the line.
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
