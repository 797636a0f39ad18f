//! The workload `buffered`: tasks write lines through write buffers, and read them.
//!
//! ```text
//!   payload of a line:  | slot of task 1 | slot of task 2 | ...     8 bytes each
//! ```
//!
//! A task writes only its own slots, without reading them, and numbers its writes 1, 2, 3... A
//! reader reads all slots of a line at once. The tasks of a worker share one buffer. The check
//! (`checks::buffers`) compares all reads with the order that the buffer's consistency level
//! promises.

mod client;
mod record;
mod state;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_relaxed::RelaxedError;
use latchwork_workload::random::WorkloadRandom;

use super::load::{FIND_LIMIT, Load, Work, pass_time};
use super::named;
use super::record::Record;
use crate::WorldCheck;
use crate::checks::buffers::{BufferAction, Who};
use crate::world::Process;
use client::Client;
use state::ACCESSES_MAX;

pub(crate) use record::BufferedRecord;
pub(crate) use state::Buffered;

impl Load for Buffered {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            for _ in 0..self.load.lines {
                let make = async {
                    let line = member.memory.allocate().await?;
                    let clear = |guard: &mut WriteGuard<'_>| {
                        let end = guard.words().len();
                        guard.words().clear(0..end);
                        guard.mark_dirty(0..end);
                    };
                    member.memory.write(line, clear).await.map(|()| line)
                };
                let line = make.await.map_err(|error: MemoryError| error.to_string())?;
                self.lines.borrow_mut().push(line);
            }
            Ok(())
        })
    }

    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let lines = self.lines.borrow().clone();
            named::publish_all(&member, &lines).await
        })
    }

    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let deadline = member.handle.now() + FIND_LIMIT;
            let lines = named::find_all(&member, self.load.lines, deadline).await?;
            *self.lines.borrow_mut() = lines;
            Ok(())
        })
    }

    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let task = process.number as usize - 1;
            let who = Who { task, writer: task / self.tasks };
            let buffer = match self.buffer(&member, who) {
                Ok(buffer) => buffer,
                Err(text) => return self.observer.fail(WorldCheck::Scenario, text),
            };
            let random = WorkloadRandom::for_stream(self.seed, u64::from(process.number));
            let random = RefCell::new(random);
            let number = Cell::new(0);
            let client =
                Client { load: &self, member: &member, process, who, buffer, random, number };
            for _ in 0..self.operations {
                client.operation().await;
                pass_time(&member).await;
            }
        })
    }

    fn finish(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let task = process.number as usize - 1;
            let who = Who { task, writer: task / self.tasks };
            let Some(buffer) = self.buffers.borrow_mut().remove(&who.writer) else { return };
            let began = self.stamp(&member);
            let leave = async {
                match buffer.leave().await {
                    Ok(()) => {}
                    Err(RelaxedError::Lost(lost)) => self.lost(&member, who, lost),
                    Err(error) => {
                        self.observer.fail(WorldCheck::Error, format!("{process}: {error}"))
                    }
                }
                Ok::<(), MemoryError>(())
            };
            let about = ("leave", "its buffer".to_owned(), ACCESSES_MAX);
            self.observer.operation(process, about, leave).await;
            self.add(&member, Some(who), began, BufferAction::Fenced { left: true });
        })
    }

    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            for line in 0..self.load.lines as usize {
                let began = self.stamp(&member);
                let about = ("read at the end", format!("line {line}"), ACCESSES_MAX);
                let look = async {
                    let _operation = member.memory.enter().await?;
                    let slots = self.look(&member, line).await?;
                    self.add(&member, None, began, BufferAction::Saw { line, slots });
                    Ok::<(), MemoryError>(())
                };
                self.observer.operation(process, about, look).await;
            }
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        Some(self.load.lines)
    }

    fn take(&self) -> Record {
        // Dropping the buffers of dead nodes makes them report the writes that they still have.
        let left = self.buffers.take();
        drop(left);
        Record::Buffered(BufferedRecord { order: self.load.order, events: self.events.take() })
    }
}
