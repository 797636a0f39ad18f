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

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::{Member, Worker};
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_relaxed::{
    Consistency, LossCause, LostWrites, RelaxedError, WriteBuffer, WriteBufferSettings,
};
use latchwork_runtime::Time;
use latchwork_verbs::Words;
use latchwork_workload::distribution::Zipfian;

use super::client::{Client, Phase, Shared, Work, popular};
use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::checks::buffers::{self, BufferAction, Event, Events, Stamp, Who};
use crate::scenario::{BufferedLoad, Scenario, SeededBug};
use crate::world::Failing;

/// The size of a slot in bytes.
const SLOT: usize = 8;

/// Maximum number of waits for a line in one operation. A fence waits as long as a buffered write
/// may take. An update waits for a fence and for its line.
const ACCESSES_MAX: u32 = 2 * BufferedLoad::PATIENCE;

/// The workload.
pub(super) struct Buffered {
    load: BufferedLoad,
    settings: WriteBufferSettings,
    slots: usize,
    zipfian: Option<Zipfian>,
    /// The buffer of each worker, by the worker's number.
    buffers: RefCell<BTreeMap<usize, WriteBuffer<Worker>>>,
    happened: Cell<u64>,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Write,
    Fence,
    Update,
    Read,
}

/// An operation on a line, which is dropped after some time.
pub(super) struct Operation {
    kind: Kind,
    line: usize,
    patience: Duration,
}

/// What a task knows.
pub(super) struct Task {
    who: Who,
    buffer: WriteBuffer<Worker>,
    /// The number of the task's last write.
    number: Cell<u64>,
}

impl Buffered {
    pub(super) fn new(scenario: &Scenario, load: &BufferedLoad) -> Buffered {
        let mut settings = load.settings(scenario);
        if scenario.plant == Some(SeededBug::Overtakes) {
            settings.consistency = Consistency::Pso;
        }
        Buffered {
            settings,
            slots: scenario.tasks_in_all(),
            zipfian: popular(load.zipfian, load.lines),
            buffers: RefCell::default(),
            happened: Cell::new(0),
            load: load.clone(),
        }
    }
}

impl Work for Buffered {
    type Task = Task;
    type Operation = Operation;
    type Record = Events;

    async fn begin(client: &Client<Self>, _phase: Phase) -> Option<Task> {
        let (shared, who) = (&client.shared, client.writer());
        let buffer = shared.buffer(&client.member, who);
        match buffer {
            Ok(buffer) => Some(Task { who, buffer, number: Cell::new(0) }),
            Err(text) => {
                shared.observer.fail(WorldCheck::Scenario, text);
                None
            }
        }
    }

    fn draw(client: &Client<Self>) -> Operation {
        let BufferedLoad { lines, writes, fences, updates, dropped, .. } = client.of().load;
        let line = client.any_line(lines, client.of().zipfian.as_ref());
        let shares = [(writes, Kind::Write), (fences, Kind::Fence), (updates, Kind::Update)];
        let kind = client.kind(&shares, Kind::Read);
        // A write that is dropped before it is issued has no effect. A fence that is dropped needs
        // no end.
        let patience = if client.percent(dropped) {
            Duration::from_nanos(client.below(8000))
        } else {
            Duration::from_secs(1_000_000)
        };
        Operation { kind, line, patience }
    }

    async fn apply(client: &Client<Self>, Operation { kind, line, patience }: Operation) {
        match kind {
            Kind::Write => client.at("write", line, patience, client.write(line)).await,
            Kind::Fence => client.at("fence, not on", line, patience, client.fence()).await,
            Kind::Update => client.at("update", line, patience, client.update(line)).await,
            Kind::Read => client.at("read", line, patience, client.read(line)).await,
        }
    }

    async fn finish(client: &Client<Self>) {
        let (shared, member, who) = (&client.shared, &client.member, client.writer());
        let Some(buffer) = client.of().buffers.borrow_mut().remove(&who.writer) else { return };
        let began = shared.stamp(member);
        let leave = async {
            match buffer.leave().await {
                Ok(()) => {}
                Err(RelaxedError::Lost(lost)) => shared.lost(member, who, lost),
                Err(error) => client.wrong(WorldCheck::Error, error),
            }
            Ok::<(), MemoryError>(())
        };
        client.observed("leave", "its buffer", ACCESSES_MAX, leave).await;
        shared.add(member, Some(who), began, BufferAction::Fenced { left: true });
    }

    async fn inspect(client: &Client<Self>) {
        let (shared, member) = (&client.shared, &client.member);
        for line in 0..client.of().load.lines as usize {
            let began = shared.stamp(member);
            let look = async {
                let slots = client.of().slots;
                let slots = |words: Words<'_>| (0..slots).map(|k| words.u64(SLOT * k)).collect();
                let slots = member.memory.read(client.root(line), slots).await?;
                shared.add(member, None, began, BufferAction::Saw { line, slots });
                Ok(())
            };
            let on = format!("line {line}");
            client.entered("read at the end", on, ACCESSES_MAX, look).await;
        }
    }

    /// Dropping the buffers of dead nodes makes them report the writes that they still have.
    fn end(shared: &Shared<Self>) {
        let left = shared.work.buffers.take();
        drop(left);
    }

    fn roots(&self) -> u64 {
        self.load.lines
    }

    fn lines_in_use(&self, _record: &Events) -> Option<u64> {
        Some(self.roots())
    }

    fn merge(record: &mut Events, more: Events) {
        record.all.extend(more.all);
    }

    fn forget_unseen(record: &mut Events, dead: &BTreeMap<usize, Time>) {
        record.dead.clone_from(dead);
    }

    fn judge(&self, record: &Events) -> CheckResult {
        buffers::check(self.load.order, record).map(|()| 0)
    }
}

impl Shared<Buffered> {
    fn stamp(&self, member: &Member) -> Stamp {
        let happened = &self.work.happened;
        happened.set(happened.get() + 1);
        (self.observer.time(&member.handle), happened.get())
    }

    fn add(&self, member: &Member, who: Option<Who>, began: Stamp, deed: BufferAction) {
        let ended = self.stamp(member);
        self.record.borrow_mut().all.push(Event { who, began, ended, deed });
    }

    /// The buffer of a worker. The first task of the worker makes it.
    fn buffer(self: &Rc<Self>, member: &Member, who: Who) -> Result<WriteBuffer<Worker>, String> {
        if let Some(buffer) = self.work.buffers.borrow().get(&who.writer) {
            return Ok(buffer.clone());
        }
        // A weak reference: after a crash of its node, a buffer is not closed, and must not keep
        // the workload alive.
        let load: Weak<Self> = Rc::downgrade(self);
        let of = member.clone();
        let on_loss = move |lost| {
            if let Some(load) = load.upgrade() {
                load.lost(&of, who, lost);
            }
        };
        let made = WriteBuffer::new(member.memory.clone(), self.work.settings.clone(), on_loss);
        let buffer = made.map_err(|error| error.to_string())?;
        self.work.buffers.borrow_mut().insert(who.writer, buffer.clone());
        Ok(buffer)
    }

    /// Whether a write may take longer than its deadline.
    fn may_be_late(&self) -> bool {
        self.scenario.may_fail_operations() || self.work.load.write_deadline_us > 0
    }

    /// Records a report of lost writes. A loss that is not permitted is a failure.
    fn lost(&self, member: &Member, who: Who, LostWrites(lost): LostWrites) {
        let began = self.stamp(member);
        let is_gone = self.observer.gone_since(who.node).is_some();
        let may_fail = is_gone || self.scenario.may_fail_operations();
        for write in lost {
            let may = match &write.cause {
                LossCause::Deadline(_) => is_gone || self.may_be_late(),
                LossCause::Memory(error) => may_fail && error.is_clean(),
                // An earlier write was lost, which has been judged by itself, or the node has died.
                LossCause::Order | LossCause::Abandoned => true,
            };
            if !may {
                let text = format!("task {}: lost {write}", who.task + 1);
                self.observer.fail(WorldCheck::Error, text);
            }
            let Some(line) = self.roots.borrow().iter().position(|line| *line == write.addr) else {
                let text = format!("lost, and in no line: {write}");
                self.observer.fail(WorldCheck::StoreOrder, text);
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
}

impl Client<Buffered> {
    fn writer(&self) -> Who {
        let task = self.process.number as usize - 1;
        Who { task, writer: task / self.shared.scenario.tasks, node: self.process.node }
    }

    fn began(&self) -> Stamp {
        self.shared.stamp(&self.member)
    }

    fn add(&self, began: Stamp, deed: BufferAction) {
        self.shared.add(&self.member, Some(self.task().who), began, deed);
    }

    async fn at(
        &self,
        what: &'static str,
        at: usize,
        patience: Duration,
        work: impl Future<Output = Result<(), RelaxedError>>,
    ) {
        let operation = async {
            let until = self.member.handle.now() + patience;
            match self.member.handle.timeout(until, std::pin::pin!(work)).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(RelaxedError::Memory(error))) => return Err(error),
                Ok(Err(RelaxedError::Lost(lost))) => {
                    self.shared.lost(&self.member, self.task().who, lost);
                }
                // The update was not issued, because its fence or its line took too long. This
                // error is permitted if writes may be late.
                Ok(Err(RelaxedError::HeldBack(_)))
                    if self.shared.may_be_late()
                        || self.shared.observer.has_lapsed(self.process.node) => {}
                Ok(Err(error)) => self.wrong(WorldCheck::Error, error),
            }
            Ok(())
        };
        self.entered(what, self.root(at), ACCESSES_MAX, operation).await;
    }

    fn next(&self) -> u64 {
        let number = &self.task().number;
        number.set(number.get() + 1);
        number.get()
    }

    async fn write(&self, line: usize) -> Result<(), RelaxedError> {
        let (began, number) = (self.began(), self.next());
        let Task { who, buffer, .. } = self.task();
        let bytes = number.to_le_bytes();
        let forgets = self.has_bug(SeededBug::Forgets) && self.below(20) == 0;
        if !forgets {
            buffer.write(self.root(line), SLOT * who.task, &bytes).await?;
        }
        // The worker's clock may be ahead of the world's time. The later of both counts, because
        // the check uses the world's time.
        let issued = self.member.handle.now();
        let latest: Time = issued.max(self.now());
        let by = latest + self.of().settings.deadline;
        self.add(began, BufferAction::Wrote { line, number, issued, by });
        Ok(())
    }

    async fn fence(&self) -> Result<(), RelaxedError> {
        let began = self.began();
        let ended = self.task().buffer.flush().await;
        if let Err(RelaxedError::Lost(_)) | Ok(()) = ended {
            self.add(began, BufferAction::Fenced { left: false });
        }
        ended
    }

    async fn update(&self, line: usize) -> Result<(), RelaxedError> {
        let (began, number) = (self.began(), self.next());
        self.add(began, BufferAction::Updating { line, number });
        let Task { who, buffer, .. } = self.task();
        let slot = SLOT * who.task;
        let change = |guard: &mut WriteGuard<'_>| {
            guard.words().set_u64(slot, number);
            guard.mark_dirty(slot..slot + SLOT);
        };
        buffer.update(self.root(line), change).await?;
        self.add(began, BufferAction::Updated { line, number });
        Ok(())
    }

    async fn read(&self, line: usize) -> Result<(), RelaxedError> {
        let began = self.began();
        let mut bytes = vec![0; SLOT * self.of().slots];
        self.task().buffer.read(self.root(line), 0, &mut bytes).await?;
        let slots = bytes.chunks_exact(SLOT);
        let slots = slots.map(|slot| slot.try_into().map_or(0, u64::from_le_bytes)).collect();
        self.add(began, BufferAction::Saw { line, slots });
        Ok(())
    }
}
