//! [`Buffered`]: the state that the clients of one thread share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use latchwork_cluster::{Member, Worker};
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_relaxed::{Consistency, LossCause, LostWrites, WriteBuffer, WriteBufferSettings};
use latchwork_verbs::{GlobalAddr, Words};
use latchwork_workload::distribution::{YCSB_THETA, Zipfian};

use crate::WorldCheck;
use crate::checks::buffers::{BufferAction, Event, Stamp, Who};
use crate::scenario::{BufferedLoad, Scenario, SeededBug};
use crate::world::{Failing, Observer};

/// The size of a slot in bytes.
pub(super) const SLOT: usize = 8;

/// Maximum number of waits for a line in one operation. A fence waits as long as a buffered write
/// may take. An update waits for a fence and for its line.
pub(super) const ACCESSES_MAX: u32 = 2 * BufferedLoad::PATIENCE;

/// The workload.
pub(crate) struct Buffered {
    pub(super) load: BufferedLoad,
    pub(super) settings: WriteBufferSettings,
    pub(super) operations: u64,
    pub(super) tasks: usize,
    pub(super) slots: usize,
    pub(super) seed: u64,
    pub(super) plant: Option<SeededBug>,
    pub(super) may_fail: bool,
    pub(super) observer: Rc<Observer>,
    pub(super) zipfian: Option<Zipfian>,
    pub(super) lines: RefCell<Vec<GlobalAddr>>,
    /// The buffer of each worker, by the worker's number.
    pub(super) buffers: RefCell<BTreeMap<usize, WriteBuffer<Worker>>>,
    pub(super) events: RefCell<Vec<Event>>,
    pub(super) happened: Cell<u64>,
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

    pub(super) fn stamp(&self, member: &Member) -> Stamp {
        self.happened.set(self.happened.get() + 1);
        (self.observer.time(&member.handle), self.happened.get())
    }

    /// The buffer of a worker. The first task of the worker makes it.
    pub(super) fn buffer(
        self: &Rc<Self>,
        member: &Member,
        who: Who,
    ) -> Result<WriteBuffer<Worker>, String> {
        if let Some(buffer) = self.buffers.borrow().get(&who.writer) {
            return Ok(buffer.clone());
        }
        // A weak reference: after a crash of its node, a buffer is not closed, and must not keep
        // the workload alive.
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

    pub(super) fn add(&self, member: &Member, who: Option<Who>, began: Stamp, deed: BufferAction) {
        let ended = self.stamp(member);
        self.events.borrow_mut().push(Event { who, began, ended, deed });
    }

    /// Records a report of lost writes. A loss that is not permitted is a failure.
    pub(super) fn lost(&self, member: &Member, who: Who, LostWrites(lost): LostWrites) {
        let began = self.stamp(member);
        for write in lost {
            let may = match &write.cause {
                LossCause::Deadline(_) => self.may_be_late(),
                LossCause::Memory(error) => self.may_fail && error.is_clean(),
                // An earlier write was lost, which has been judged by itself, or the node has died.
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
    pub(super) fn may_be_late(&self) -> bool {
        self.may_fail || self.load.write_deadline_us > 0
    }

    pub(super) async fn look(&self, member: &Member, at: usize) -> Result<Vec<u64>, MemoryError> {
        let slots = |words: Words<'_>| (0..self.slots).map(|k| words.u64(SLOT * k)).collect();
        let line = self.lines.borrow()[at];
        member.memory.read(line, slots).await
    }
}
