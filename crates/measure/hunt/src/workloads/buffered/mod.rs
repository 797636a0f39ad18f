//! Lines that are written through write buffers: later reads, and their order.
//!
//! ```text
//!   payload of a line:  | slot of task 1 | slot of task 2 | ...     8 bytes each
//! ```
//!
//! A task writes only its own slots, without reading them, and numbers its writes 1, 2, 3... A
//! reader reads all slots of a line at once. The tasks of a worker share one buffer. The check
//! compares all reads with the promise of the buffer's level (`checks::buffers`).

mod client;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use latchwork_cache::WriteGuard;
use latchwork_cluster::{Member, Worker};
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_relaxed::{
    Consistency, LossCause, LostWrites, RelaxedError, WriteBuffer, WriteBufferSettings,
};
use latchwork_verbs::{GlobalAddr, Words};
use latchwork_workload::distribution::{YCSB_THETA, Zipfian};
use latchwork_workload::random::WorkloadRandom;

use client::Client;

use super::{FIND_LIMIT, Load, Record, Work, named, pass_time};
use crate::WorldCheck;
use crate::checks::Verdict;
use crate::checks::buffers::{self, BufferAction, Event, Stamp, Who};
use crate::scenario::{BufferedLoad, Scenario, ScenarioStoreOrder, SeededBug};
use crate::world::{Failing, Observer, Process};

/// The bytes of a slot.
const SLOT: usize = 8;

/// The most waits for a line in one operation. A fence waits as long as a write may take, and an
/// update also waits for its line.
const ACCESSES_MAX: u32 = 2 * BufferedLoad::PATIENCE;

/// The workload.
pub(crate) struct Buffered {
    load: BufferedLoad,
    settings: WriteBufferSettings,
    operations: u64,
    tasks: usize,
    slots: usize,
    seed: u64,
    plant: Option<SeededBug>,
    may_fail: bool,
    observer: Rc<Observer>,
    zipfian: Option<Zipfian>,
    lines: RefCell<Vec<GlobalAddr>>,
    /// The buffer of each worker, by the worker's number.
    buffers: RefCell<BTreeMap<usize, WriteBuffer<Worker>>>,
    events: RefCell<Vec<Event>>,
    happened: Cell<u64>,
}

/// The actions and the reads of all tasks.
pub(crate) struct BufferedRecord {
    order: ScenarioStoreOrder,
    events: Vec<Event>,
}

impl Buffered {
    pub(crate) fn new(scenario: &Scenario, load: &BufferedLoad, observer: &Rc<Observer>) -> Self {
        let mut settings = load.settings(scenario);
        if scenario.plant == Some(SeededBug::Overtakes) {
            settings.consistency = Consistency::Pso;
        }
        Buffered {
            settings,
            operations: scenario.operations,
            tasks: scenario.tasks,
            slots: scenario.compute_nodes * scenario.workers * scenario.tasks,
            seed: scenario.seed,
            plant: scenario.plant,
            may_fail: scenario.faults.may_fail_operations(),
            observer: observer.clone(),
            zipfian: load.zipfian.then(|| Zipfian::new(load.lines, YCSB_THETA).ok()).flatten(),
            lines: RefCell::default(),
            buffers: RefCell::default(),
            events: RefCell::default(),
            happened: Cell::new(0),
            load: load.clone(),
        }
    }

    fn stamp(&self, member: &Member) -> Stamp {
        self.happened.set(self.happened.get() + 1);
        (self.observer.time(&member.handle), self.happened.get())
    }

    /// The buffer of a worker.
    fn buffer(self: &Rc<Self>, member: &Member, who: Who) -> Result<WriteBuffer<Worker>, String> {
        if let Some(buffer) = self.buffers.borrow().get(&who.writer) {
            return Ok(buffer.clone());
        }
        // After a crash of its node a buffer is never closed. It must not keep the workload alive.
        let load: Weak<Buffered> = Rc::downgrade(self);
        let of = member.clone();
        let on_loss = move |lost| {
            if let Some(load) = load.upgrade() {
                load.lost(&of, who, lost);
            }
        };
        let made = WriteBuffer::new(member.memory.clone(), self.settings.clone(), on_loss);
        let buffer = made.map_err(|error| error.to_string())?;
        self.buffers.borrow_mut().insert(who.writer, buffer.clone());
        Ok(buffer)
    }

    fn add(&self, member: &Member, who: Option<Who>, began: Stamp, deed: BufferAction) {
        let ended = self.stamp(member);
        self.events.borrow_mut().push(Event { who, began, ended, deed });
    }

    /// Handles a report of lost writes.
    fn lost(&self, member: &Member, who: Who, LostWrites(lost): LostWrites) {
        let began = self.stamp(member);
        for write in lost {
            let may = match &write.cause {
                LossCause::Deadline(_) => self.may_be_late(),
                LossCause::Memory(error) => self.may_fail && error.is_clean(),
                // An earlier write was lost and may be, or the node has died.
                LossCause::Order | LossCause::Abandoned => true,
            };
            if !may {
                self.observer
                    .fail(WorldCheck::Error, format!("task {}: lost {write}", who.task + 1));
            }
            let Some(line) = self.lines.borrow().iter().position(|line| *line == write.addr) else {
                self.observer
                    .fail(WorldCheck::StoreOrder, format!("lost, and in no line: {write}"));
                continue;
            };
            let slots = write.bytes.chunks_exact(SLOT).zip(write.offset / SLOT..);
            for (bytes, task) in slots {
                let last = bytes.try_into().map_or(0, u64::from_le_bytes);
                let deed = BufferAction::Lost { line, task, last, from: write.issued };
                self.add(member, Some(who), began, deed);
            }
        }
    }

    /// Whether a write may take longer than its deadline.
    fn may_be_late(&self) -> bool {
        self.may_fail || self.load.write_deadline_us > 0
    }

    async fn look(&self, member: &Member, at: usize) -> Result<Vec<u64>, MemoryError> {
        let slots = |words: Words<'_>| (0..self.slots).map(|k| words.u64(SLOT * k)).collect();
        let line = self.lines.borrow()[at];
        member.memory.read(line, slots).await
    }
}

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
        // The buffers of dead nodes report the writes that they still have.
        let left = self.buffers.take();
        drop(left);
        Record::Buffered(BufferedRecord { order: self.load.order, events: self.events.take() })
    }
}

impl BufferedRecord {
    pub(crate) fn merge(&mut self, other: BufferedRecord) {
        self.events.extend(other.events);
    }

    pub(crate) fn judge(&self) -> Verdict {
        buffers::check(self.order, &self.events)
    }
}
